"""Bytes in memory: within the budget, each holder within its part; bytes given back let others go on."""

import asyncio

import pytest

from penstock.access.byte_budget import ByteBudget, ByteShare
from penstock.access.places import Holder
from penstock.errors import GatewayBusy

ANA, BEN = Holder("principal ana", "address 10.0.0.1"), Holder("principal ben", "address 10.0.0.2")


def test_bytes_without_a_holder_count_once() -> None:
    budget = ByteBudget(100)
    budget.admit(None, 40)
    budget.admit(None, 60)
    with pytest.raises(GatewayBusy, match="100 bytes of requests in hand, of 100"):
        budget.admit(None, 1)


def test_one_holder_leaves_room_to_others() -> None:
    budget = ByteBudget(100)
    budget.admit(ANA, 70)
    with pytest.raises(GatewayBusy):
        budget.admit(ANA, 10)
    budget.admit(BEN, 10)
    assert budget.is_short
    assert (budget.used, budget.held(ANA.name), budget.held(BEN.address)) == (80, 70, 10)


def test_a_single_request_is_taken_however_large_it_is() -> None:
    budget = ByteBudget(100)
    budget.admit(ANA, 1000)
    budget.give_back(ANA, 1000)
    assert budget.used == budget.held(ANA.name) == 0


def test_an_answer_may_use_a_quarter_of_what_is_left_and_never_nothing() -> None:
    budget = ByteBudget(4 << 20)
    assert budget.share(8 << 20) == 1 << 20
    assert budget.share(1000) == 1000
    budget.count(None, 8 << 20)
    assert budget.share(8 << 20) == 64 * 1024


def test_a_share_gives_back_all_that_it_holds_however_it_got_it() -> None:
    budget = ByteBudget(100)
    with ByteShare(budget, ANA) as share:
        share.admit(10)
        share.count(30)
        share.give_back(5)
        assert budget.used == 25
    assert budget.used == 0


def test_one_that_waits_goes_on_when_there_is_room() -> None:
    async def run() -> None:
        budget = ByteBudget(100)
        first, second = ByteShare(budget, ANA), ByteShare(budget, BEN)
        await first.wait(90)
        waiting = asyncio.create_task(second.wait(30))
        await asyncio.sleep(0)
        assert budget.used == 90
        first.give_back(50)
        await waiting
        assert budget.used == 70

    asyncio.run(run())
