"""Clearing a topic clears it: nothing is left in any state, staged included, and it is audited."""

from __future__ import annotations

from datetime import timedelta

from penstock import Fixed, Record
from penstock.operate.audit import audit
from penstock.operate.clear import clear
from tests.conformance.engines import StoreEngine

STATES = ("staged", "scheduled", "log", "lane", "lane_entry", "dead")


def test_a_cleared_topic_counts_nothing_in_every_state(engine: StoreEngine) -> None:
    outbox = engine.outbox

    @outbox.handler(group="g", retry=Fixed(timedelta(seconds=1), max_retries=0))
    def fail(record: Record) -> None:
        raise ValueError(record.value)

    def publish(*values: int, at: timedelta | None = None) -> None:
        with engine.connect() as conn:
            for value in values:
                outbox.publish(conn, "t", value, key="k", at=at)
            conn.commit()

    publish(1, 2)
    outbox.drain()
    publish(3)
    publish(4, at=timedelta(hours=1))
    assert all(counts(engine)), "each state has something"
    clear(outbox.database, "events", clock=engine.clock, actor="anna")
    assert counts(engine) == [0] * len(STATES)
    (entry,) = audit(outbox.database).items
    assert (entry.actor, entry.action, entry.count) == ("anna", "topic clear", 4)
    engine.clock.advance(timedelta(hours=2))
    counted = outbox.drain()
    assert (counted.sequenced, counted.delivered) == (0, 0)


def counts(engine: StoreEngine) -> list[int]:
    with engine.connect() as conn:
        found = [conn.execute(f"SELECT count(*) FROM penstock_{table}").fetchone() for table in STATES]
        conn.commit()
    return [row[0] for row in found]
