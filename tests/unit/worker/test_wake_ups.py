"""No event waits for a look that comes by the clock: here, none comes within the test."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from penstock import Outbox, Record
from penstock.clock import SYSTEM
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.working import working

PUBLISHERS, EVENTS = 3, 60


@pytest.fixture(params=["postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def outbox(engine: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    """Give an outbox whose worker hears the bell and looks by itself only every ten minutes."""
    monkeypatch.setenv("PENSTOCK_POLLING_SHORTEST_SECONDS", "600")
    monkeypatch.setenv("PENSTOCK_POLLING_LONGEST_SECONDS", "600")
    return engine.another(SYSTEM)


def publish(outbox: Outbox, value: int, key: str) -> None:
    with outbox.transaction() as conn:
        outbox.publish(conn, "t", value, key=key)


def test_events_that_come_one_by_one_and_in_bursts_are_all_told_of(outbox: Outbox, engine: StoreEngine) -> None:
    """Moved by the thread that listens or by the sequencer's, handed out by these or by the loop's."""
    seen = list[tuple[str, int]]()

    @outbox.handler("t", group="g")
    def note(record: Record) -> None:
        seen.append((record.key or "", record.value))

    publishers = [engine.another(SYSTEM) for _ in range(PUBLISHERS)]

    def publish_some(number: int) -> None:
        chance, pause = random.Random(number), Event()
        for value in range(EVENTS):
            publish(publishers[number], value, f"k-{number}-{value % 3}")
            if chance.random() < 0.3:
                pause.wait(chance.random() * 0.03)

    with working(outbox):
        publish(outbox, -1, "first")
        wait_until(lambda: len(seen) == 1, "the worker is at work", seconds=30)
        with ThreadPoolExecutor(PUBLISHERS) as pool:
            list(pool.map(publish_some, range(PUBLISHERS)))
        wait_until(lambda: len(seen) >= 1 + PUBLISHERS * EVENTS, "all have come", seconds=30)
    for key in {key for key, _ in seen}:
        values = [value for each, value in seen if each == key]
        assert values == sorted(set(values))


def test_a_handler_that_does_not_end_keeps_nobody_from_listening(outbox: Outbox, engine: StoreEngine) -> None:
    seen, may_end = list[int](), Event()
    elsewhere = engine.another(SYSTEM)  # so the worker hears of it through the database

    @outbox.handler("t", group="g")
    def hang(record: Record) -> None:
        seen.append(record.value)
        if record.key == "slow":
            may_end.wait(60)

    with working(outbox):
        publish(elsewhere, 0, "slow")
        wait_until(lambda: seen == [0], "the slow one is at work", seconds=30)
        for value in range(1, 6):
            publish(elsewhere, value, "quick")
            wait_until(lambda: len(seen) == value + 1, "the next is told of", seconds=30)  # noqa: B023
        may_end.set()
    assert seen == list(range(6))
