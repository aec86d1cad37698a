"""The order of a key is the order of its commits, to the last one of a second, by whatever clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta

import pytest

from penstock import Record
from penstock.testing import FakeClock
from tests.conformance.engines import StoreEngine

RECORDS = 1_000


def test_a_thousand_records_of_one_second_keep_the_order_of_their_commits(engine: StoreEngine) -> None:
    """From two processes whose clocks are five seconds apart, each staging after the other's commit."""
    seen: list[tuple[int, datetime]] = []

    @engine.outbox.handler(group="reader")
    def remember(record: Record) -> None:
        seen.append((record.value, record.timestamp))

    clocks = [FakeClock(engine.clock.now() + timedelta(seconds=ahead)) for ahead in (5, 0)]
    outboxes = [engine.another(clock) for clock in clocks]
    with engine.connect() as one, engine.connect() as two:
        for number in range(RECORDS):
            turn = number % 2
            clocks[turn].advance(timedelta(milliseconds=1))  # half a second in all
            outboxes[turn].publish((one, two)[turn], "t", number, key="k")
            (one, two)[turn].commit()
    engine.outbox.drain()
    assert [value for value, _ in seen] == list(range(RECORDS))
    stamps = [stamp for _, stamp in seen]
    assert stamps != sorted(stamps), "the clocks agreed, so they showed nothing"


def test_transactions_that_overlap_get_one_order_the_same_for_all_readers(
    overlapping: StoreEngine,
) -> None:
    """Nothing is lost; and what is staged after the other's commit follows it."""
    outbox = overlapping.outbox
    orders: dict[str, list[int]] = {"a": [], "b": []}
    for group, order in orders.items():
        outbox.handler(group=group, id=group)(lambda record, order=order: order.append(record.value))
    with overlapping.connect() as one, overlapping.connect() as two:
        for number, conn in enumerate([one, two, one, two]):
            outbox.publish(conn, "t", number, key="k")
        two.commit()
        outbox.drain()
        outbox.publish(two, "t", 4, key="k")
        one.commit()
        outbox.publish(one, "t", 5, key="k")
        two.commit()
        one.commit()
    outbox.drain()
    order = orders["a"]
    assert orders["b"] == order
    assert sorted(order) == list(range(6))
    assert order[:2] == [1, 3]
    assert order.index(0) < order.index(2) < order.index(5)
    assert order.index(3) < order.index(4)


@pytest.fixture
def overlapping(migrated_postgres: str) -> Iterator[StoreEngine]:
    """Give a store on an engine that lets writers overlap."""
    with closing(StoreEngine(migrated_postgres)) as opened:
        yield opened
