"""Places: nobody holds them all, whoever is not known yet gives way, and what is given back is free."""

import asyncio
import random

import pytest

from penstock.access.places import ByteBudget, ByteShare, ConnectionPlaces, Holder, SharedPlaces, holder_of, network_of
from penstock.access.principal import SHARED, Peer, Principal, anonymous
from penstock.errors import GatewayBusy


def somebody(name: str, address: str = "10.0.0.1") -> Principal:
    return Principal(name, address, "token", "token:x")


def most_of(places: SharedPlaces, holder: Holder) -> int:
    count = 0
    while places.take(holder):
        count += 1
    return count


@pytest.mark.parametrize(("whole", "alone"), [(1, 1), (2, 1), (4, 3), (10, 7), (32, 24), (100, 75), (1000, 750)])
def test_one_principal_gets_about_three_quarters(whole: int, alone: int) -> None:
    assert most_of(SharedPlaces(whole), holder_of(somebody("ana"))) == alone


def test_a_greedy_principal_leaves_room_to_others_also_at_its_own_address() -> None:
    places = SharedPlaces(100)
    assert most_of(places, holder_of(somebody("ana"))) == 75
    assert most_of(places, holder_of(somebody("ben"))) == 18, "another name at the same address"
    assert places.take(holder_of(somebody("bob", "10.0.0.2")))


def test_many_names_of_one_address_leave_room_to_other_addresses() -> None:
    places = SharedPlaces(100)
    held = sum(most_of(places, holder_of(somebody(f"n{number}"))) for number in range(50))
    assert held == 94
    assert places.take(holder_of(somebody("bob", "10.0.0.2")))


def test_who_shows_nothing_or_what_everybody_shows_counts_by_address() -> None:
    for shown in (anonymous(Peer("10.0.0.1")), Principal("tinyq", "10.0.0.1", "password", SHARED + "tinyq")):
        places = SharedPlaces(100)
        assert most_of(places, holder_of(shown)) == 75
        assert places.take(holder_of(shown._replace(address="10.0.0.2")))


def test_bytes_of_one_request_are_always_taken_while_there_is_room() -> None:
    places, ana = SharedPlaces(100, least=100), holder_of(somebody("ana"))
    assert all(places.take(ana, 10) for _ in range(10))
    assert not places.take(ana, 1)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_given_back_is_free(seed: int) -> None:
    drawn, places = random.Random(seed), SharedPlaces(50)
    held: list[tuple[Holder, int]] = []
    for _ in range(500):
        holder, size = holder_of(somebody(drawn.choice("abc"))), drawn.randint(1, 5)
        if drawn.random() < 0.5 and places.take(holder, size):
            held.append((holder, size))
        elif held:
            places.give_back(*held.pop(drawn.randrange(len(held))))
        assert places.used == sum(size for _, size in held) <= 50
    for each in held:
        places.give_back(*each)
    assert places.used == 0
    assert not places._held


def test_a_silent_connection_gives_way_to_a_new_one_and_a_known_one_never() -> None:
    ended: list[str] = []
    places = ConnectionPlaces[str](40, ended.append)
    for number in range(5):
        assert places.enter(f"known{number}", "10.0.0.1")
        assert places.know(f"known{number}", somebody("ana"))
    assert places.enter("slow but alone", "10.0.0.2")
    for number in range(30):
        assert places.enter(f"silent{number}", "10.0.0.3")
    assert ended == [f"silent{number}" for number in range(21)], "the oldest of the address with most"
    assert places.know("slow but alone", somebody("ben", "10.0.0.2"))
    assert not places.know("silent0", somebody("ben")), "it has ended already"
    assert len(places) == 5 + 1 + 9


def test_all_known_places_taken_let_nobody_enter_until_one_leaves() -> None:
    places = ConnectionPlaces[int](2, lambda _: None)
    for number in range(2):
        assert places.enter(number, "10.0.0.1")
        assert places.know(number, somebody(f"n{number}"))
    assert not places.enter(2, "10.0.0.2")
    places.leave(0)
    places.leave(0)
    assert places.enter(2, "10.0.0.2")


def test_a_connection_that_goes_on_as_somebody_else_counts_for_them() -> None:
    places = ConnectionPlaces[int](5, lambda _: None)
    for number in range(3):
        places.enter(number, "10.0.0.1")
        assert places.know(number, somebody("ana"))
    places.enter(3, "10.0.0.1")
    assert not places.know(3, somebody("ana"))
    assert places.know(0, somebody("ben"))
    places.enter(4, "10.0.0.1")
    assert places.know(4, somebody("ana"))


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("local", "local"),
    ],
)
def test_an_address_of_ipv6_is_its_network(address: str, network: str) -> None:
    assert network_of(address) == network


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
