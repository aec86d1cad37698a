"""Workers that share a group share its rate, as they share its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest

from penstock import Record
from penstock.clock import SYSTEM
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.log.store import store_of
from penstock.membership.member import ClusterSettings
from penstock.worker.handler_options import HandlerOptions
from penstock.worker.handlers import Handlers
from penstock.worker.worker import Worker, WorkerPlan
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until

RATE, PARTITIONS = 100.0, 16
BURST = RATE / 10
BEAT = timedelta(seconds=0.2)


class Crew:
    """Workers of one group on one store, in this process, and what they were given."""

    def __init__(self, engine: StoreEngine, stack: ExitStack) -> None:
        self._engine, self._stack = engine, stack
        self.seen: list[int] = []
        engine.outbox.log.create_topic("events", partitions=PARTITIONS)

    @contextmanager
    def worker(self, *, pins: frozenset[int] | None = None, **options: Any) -> Iterator[Callable[[], float]]:
        """Run a worker while the block lasts; give what says its share of the rate."""

        def note(record: Record) -> None:
            self.seen.append(record.value)

        handlers = Handlers()
        handlers.add(note, HandlerOptions(group="g", id="note", **{"rate": RATE} | options))
        database = open_database(self._engine.url, Names())
        cluster = ClusterSettings.load(heartbeat_interval=BEAT, rebalance_interval=BEAT, gather_joins=timedelta())
        worker = Worker(store_of(database), handlers, SYSTEM, WorkerPlan(pins=pins, cluster=cluster))

        def share() -> float:
            known = worker._delivery._runner._limiters._shares.get(("g", "events"))
            return -1.0 if known is None else known

        worker.start()
        try:
            yield share
        finally:
            worker.stop()
            database.close()

    def start(self, **options: Any) -> Callable[[], float]:
        """Run a worker until the end of the test."""
        return self._stack.enter_context(self.worker(**options))

    def publish(self, many: int) -> None:
        """Publish so many numbers, on as many keys."""
        with self._engine.outbox.transaction() as conn:
            events = [{"type": "t", "value": value, "key": f"k-{value}"} for value in range(many)]
            self._engine.outbox.publish_many(conn, events)

    def deliver(self, many: int, *, processes: int) -> None:
        """Publish so many and wait for them; fail if they came faster than the rate allows."""
        before, began = len(self.seen), SYSTEM.monotonic()
        self.publish(many)
        wait_until(lambda: len(self.seen) - before >= many, f"{many} are delivered")
        assert many <= RATE * (SYSTEM.monotonic() - began) + BURST + processes


@pytest.fixture
def crew(engine: StoreEngine) -> Iterator[Crew]:
    """Give a crew on each engine."""
    with ExitStack() as stack:
        yield Crew(engine, stack)


def test_workers_keep_the_rate_together_and_one_alone_has_all_of_it(crew: Crew) -> None:
    first = crew.start()
    wait_until(lambda: first() == 1.0, "one alone has the whole rate")
    crew.publish(1)
    wait_until(lambda: crew.seen, "it is at work")
    with crew.worker() as second:
        wait_until(lambda: (first(), second()) == (0.5, 0.5), "each has a half")
        with crew.worker() as third:
            wait_until(lambda: first() + second() + third() == 1.0 and third() > 0.0, "all three have a part")
            crew.deliver(60, processes=3)
    wait_until(lambda: first() == 1.0, "what the others had goes back to the first")
    crew.deliver(40, processes=1)


def test_pins_have_the_part_of_what_they_name(crew: Crew) -> None:
    pinned = crew.start(pins=frozenset(range(4)))
    wait_until(lambda: pinned() == 0.25, "it has the part of its pins, though nobody serves the rest")
    other = crew.start()
    wait_until(lambda: other() == 0.75, "the rest goes to the other")
    crew.deliver(30, processes=2)


def test_one_without_partitions_has_no_part(crew: Crew) -> None:
    first = crew.start(pins=frozenset({0}))
    wait_until(lambda: first() == 1 / PARTITIONS, "its pin")
    second = crew.start(pins=frozenset({0}))
    wait_until(lambda: sorted([first(), second()]) == [0.0, 1 / PARTITIONS], "one pin has one owner")
