"""The order of a key is the order of its commits, to the last one of a second, by whatever clock."""

from __future__ import annotations

from datetime import datetime, timedelta

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
