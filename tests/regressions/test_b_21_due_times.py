"""B-21: what is due comes in the order of its moments, over each change of their count of digits."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from penstock import Record
from penstock.clock import from_ms
from penstock.testing import FakeClock
from tests.conformance.engines import StoreEngine
from tests.suites.outbox_suite import in_one_partition

# 9 and 10 ms after 1970, 99 and 100, … to 9 999 999 999 999 (the year 2286) and one more, and the seconds
# whose digits changed in 2001.
MOMENTS = [10**digits - 1 + more for digits in range(1, 14) for more in (0, 1)]
assert {999_999_999_999, 1_000_000_000_000} <= set(MOMENTS)


def test_b_21_due_events_come_by_number_and_not_by_their_digits(engine: StoreEngine) -> None:
    seen: list[int] = []
    in_one_partition(engine)
    outbox = engine.another(FakeClock(datetime(1970, 1, 1, tzinfo=UTC)))

    @outbox.handler(group="reader")
    def remember(record: Record) -> None:
        seen.append(record.value)

    with engine.connect() as conn:
        for moment in random.Random(21).sample(MOMENTS, len(MOMENTS)):
            outbox.publish(conn, "t", moment, key="k", at=from_ms(moment))
        conn.commit()
    assert outbox.drain().sequenced == 0
    later = engine.another(FakeClock(datetime(2300, 1, 1, tzinfo=UTC)))
    later.handler(group="reader", id="later")(remember)
    assert later.drain().sequenced == len(MOMENTS)
    assert seen == sorted(MOMENTS)


def test_b_21_no_event_comes_before_its_moment_at_any_change_of_digits(engine: StoreEngine) -> None:
    seen: list[int] = []
    clock = FakeClock(datetime(1970, 1, 1, tzinfo=UTC))
    outbox = engine.another(clock)
    outbox.handler(group="reader", id="reader")(lambda record: seen.append(record.value))
    with engine.connect() as conn:
        for moment in reversed(MOMENTS):
            outbox.publish(conn, "t", moment, at=from_ms(moment))
        conn.commit()
    for moment in MOMENTS[:12]:  # a member's lease ends when time leaps; each drain joins afresh
        clock.advance(timedelta(milliseconds=moment - 1 - clock.now_ms()))
        outbox.drain()
        assert moment not in seen
        clock.advance(timedelta(milliseconds=1))
        outbox.drain()
        assert seen[-1] == moment
