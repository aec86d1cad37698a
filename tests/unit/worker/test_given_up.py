"""A group whose calls hang in one worker: others get its partitions, and the rest of the worker goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from threading import Event

import pytest

from penstock import Fixed, Outbox, Record
from penstock.clock import SYSTEM
from penstock.errors import GroupsGivenUp
from penstock.worker import worker
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.services.slow import but_the_first
from tests.working import working

SOON = Fixed(timedelta(milliseconds=10), max_retries=100_000)
KEYS = 12


@pytest.fixture(autouse=True)
def _four_threads(brisk: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PROCESSING_CONCURRENCY", "4")
    monkeypatch.setenv("PENSTOCK_PROCESSING_SHUTDOWN_TIMEOUT", "0.1")


@pytest.fixture
def outbox(engine: StoreEngine) -> Outbox:
    """Give an outbox in the world's own time."""
    return engine.another(SYSTEM)


@pytest.fixture
def let_go() -> Iterator[Event]:
    """Give what hung calls wait for; in the end they are let go."""
    event = Event()
    yield event
    event.set()


def hanging(outbox: Outbox, let_go: Event, *, transaction: bool = False, group: str = "hangs") -> list[int]:
    """Register a handler that hangs until it is let go; return what it has handled."""
    handled: list[int] = []

    @outbox.handler("hang", group=group, id=group, timeout=0.05, retry=SOON, transaction=transaction)
    def hang(record: Record) -> None:
        assert let_go.wait(600)
        handled.append(record.value)

    return handled


def handling(outbox: Outbox, type: str, group: str, *, transaction: bool = False) -> list[int]:
    """Register a handler that ends at once; return what it has handled."""
    handled: list[int] = []

    @outbox.handler(type, group=group, id=f"{group}.{type}", transaction=transaction)
    def handle(record: Record) -> None:
        handled.append(record.value)

    return handled


def publish(outbox: Outbox, type: str, *values: int) -> None:
    with outbox.transaction() as conn:
        outbox.publish_many(conn, [{"type": type, "value": each, "key": f"k-{each}"} for each in values])


def owners(engine: StoreEngine, group: str) -> set[str | None]:
    """Return who owns partitions of a group."""
    query = (
        "SELECT DISTINCT c.owner FROM penstock_cursor c JOIN penstock_group g ON g.id = c.group_id "
        f"WHERE g.name = '{group}'"
    )
    with engine.connect() as conn:
        return {row[0] for row in conn.execute(query).fetchall()}


@pytest.mark.parametrize("transaction", but_the_first([False, True]), ids=["plain", "transactional"])
def test_a_group_that_hangs_is_left_to_others_and_the_rest_goes_on(
    outbox: Outbox, engine: StoreEngine, let_go: Event, transaction: bool
) -> None:
    handled, good = hanging(outbox, let_go, transaction=transaction), handling(outbox, "good", "good")
    publish(outbox, "hang", *range(KEYS))
    with working(outbox):
        wait_until(lambda: not outbox.health().is_well, "the group is given up")
        (given_up,) = outbox.health().given_up
        assert (given_up.group, given_up.handler) == ("hangs", "hangs")
        assert outbox.health().groups == ("good", "hangs")
        publish(outbox, "good", *range(100))
        wait_until(lambda: len(good) == 100, "the other group goes on")
        wait_until(lambda: owners(engine, "hangs") == {None}, "its partitions are free")
        other = engine.another(SYSTEM)
        elsewhere = handling(other, "hang", "hangs", transaction=transaction)
        also_good = handling(other, "good", "good")
        with working(other):
            wait_until(lambda: sorted(elsewhere) == list(range(KEYS)), "another worker does its work")
        publish(outbox, "good", *range(100, 120))
        wait_until(lambda: len(good) + len(also_good) == 120, "and the first still works")
        let_go.set()
        wait_until(lambda: outbox.health().is_well, "its calls have ended")
        publish(outbox, "hang", 99)
        wait_until(lambda: 99 in handled, "it serves the group again")


@pytest.mark.parametrize("transaction", but_the_first([False, True]), ids=["plain", "transactional"])
def test_a_worker_that_can_serve_no_group_leaves(
    outbox: Outbox, engine: StoreEngine, let_go: Event, transaction: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "UNSERVED_SECONDS", 0.1)
    hanging(outbox, let_go, transaction=transaction, group="one")
    hanging(outbox, let_go, transaction=transaction, group="two")
    publish(outbox, "hang", *range(KEYS))
    with pytest.raises(GroupsGivenUp, match=r"group one \(.* group two \(.*Restart the process"):
        outbox.run()
    assert engine.count("member") == 0
    assert owners(engine, "one") | owners(engine, "two") == {None}
    assert outbox.health().groups == ()


def test_it_leaves_an_event_loop_too(
    outbox: Outbox, engine: StoreEngine, let_go: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "UNSERVED_SECONDS", 0.1)
    hanging(outbox, let_go)
    publish(outbox, "hang", *range(KEYS))
    with pytest.raises(GroupsGivenUp):
        asyncio.run(asyncio.wait_for(outbox.arun(), 60))
    assert engine.count("member") == 0
