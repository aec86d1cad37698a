"""One group's failure touches neither the record nor any other group."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from penstock import Fixed, Record
from tests.conformance.engines import StoreEngine

RECORDS = 12


def test_a_group_that_always_fails_leaves_the_record_and_the_other_group_alone(
    engine: StoreEngine,
) -> None:
    """Through retries, dead letters and held keys the other sees every record once, in order."""
    attempts: list[int] = []
    well: list[tuple[int, int, bool]] = []

    @engine.outbox.handler(group="failing", retry=Fixed(timedelta(seconds=1), max_retries=2))
    def always_fails(record: Record) -> None:
        attempts.append(record.value)
        raise RuntimeError("never")

    @engine.outbox.handler(group="well")
    def remember(record: Record) -> None:
        well.append((record.value, record.attempt, record.redelivered))

    before: list[Any] = []
    for number in range(RECORDS):
        with engine.connect() as conn:
            engine.outbox.publish(conn, "t", number, key=f"k-{number % 3}")
            conn.commit()
        engine.outbox.drain()
        before = before or log_of(engine)
        engine.clock.advance(timedelta(seconds=1))
    engine.outbox.drain()
    assert well == [(number, 1, False) for number in range(RECORDS)]
    assert sorted(attempts) == [0, 0, 0, 1, 1, 1, 2, 2, 2]  # then their keys are held
    after = log_of(engine)
    assert len(after) == RECORDS
    assert before[0] in after, "the record itself was changed"


def log_of(engine: StoreEngine) -> list[Any]:
    """Return the rows of the log."""
    with engine.connect() as conn:
        rows = conn.execute("SELECT * FROM penstock_log ORDER BY timestamp_ms, id").fetchall()
    return [tuple(row) for row in rows]
