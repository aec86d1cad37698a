"""What was published, and draining over all of time."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from penstock import Outbox, Record
from penstock.model.outcome import Snooze
from penstock.model.retry import Fixed
from penstock.testing import FakeClock, drain_until_idle, memory_outbox, published, scheduled
from tests.suites.refusal import refusal


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock."""
    return FakeClock()


@pytest.fixture(params=["memory", "postgres"])
def outbox(request: pytest.FixtureRequest, clock: FakeClock) -> Iterator[Outbox]:
    """Give an outbox on each kind of store."""
    if request.param == "memory":
        made = memory_outbox(clock)
    else:
        made = Outbox(request.getfixturevalue("postgres_url"), clock=clock)
        made.migrate()
    yield made
    made.close()


def publish(outbox: Outbox, *values: int, key: str = "k", at: timedelta | None = None) -> None:
    with outbox.transaction() as conn:
        for value in values:
            outbox.publish(conn, "t", value, key=key, headers={"who": "ä"}, at=at)


def test_what_is_staged_scheduled_and_logged_is_all_published(outbox: Outbox, clock: FakeClock) -> None:
    publish(outbox, 1, 2)
    outbox.drain()
    clock.advance(timedelta(seconds=1))
    publish(outbox, 3)
    outbox.drain()
    publish(outbox, 6, at=timedelta(hours=2))
    publish(outbox, 5, at=timedelta(hours=1))
    publish(outbox, 4)
    found = published(outbox)
    assert [record.value for record in found] == [1, 2, 3, 4, 5, 6]
    assert [record.offset for record in found] == [0, 1, 2, None, None, None]
    assert {(record.topic, record.key, record.headers["who"]) for record in found} == {("events", "k", "ä")}
    assert [each.at - clock.now() for each in scheduled(outbox)] == [timedelta(hours=1), timedelta(hours=2)]


def test_more_than_one_read_of_the_log_is_published(outbox: Outbox) -> None:
    publish(outbox, *range(1500))
    outbox.drain()
    assert [record.value for record in published(outbox)] == list(range(1500))


def test_a_rollback_publishes_nothing(outbox: Outbox) -> None:
    def declined() -> None:
        with outbox.transaction() as conn:
            outbox.publish(conn, "t", 1)
            raise ValueError("declined")

    refusal(ValueError, declined)
    assert published(outbox) == []


def test_draining_goes_on_over_retries_and_schedules(outbox: Outbox, clock: FakeClock) -> None:
    calls: list[tuple[int, int, timedelta]] = []
    began = clock.now()

    @outbox.handler(group="g", id="h", retry=Fixed(timedelta(hours=1), max_retries=2))
    def handle(record: Record) -> None:
        calls.append((record.value, record.attempt, clock.now() - began))
        if record.value == 1:
            raise ConnectionError
        if record.value == 2 and record.attempt == 1:
            raise ConnectionError

    publish(outbox, 1, key="a")
    publish(outbox, 2, key="b")
    publish(outbox, 3, key="c", at=timedelta(days=3))
    counts = drain_until_idle(outbox, clock)
    assert (counts.sequenced, counts.delivered, counts.retried, counts.dead) == (3, 2, 3, 1)
    hours = timedelta(hours=1)
    assert sorted(calls) == [
        (1, 1, 0 * hours),
        (1, 2, 1 * hours),
        (1, 3, 2 * hours),
        (2, 1, 0 * hours),
        (2, 2, 1 * hours),
        (3, 1, 72 * hours),
    ]


def test_a_handler_that_snoozes_for_ever_is_named(outbox: Outbox, clock: FakeClock) -> None:
    outbox.handler(group="g", id="h")(lambda record: Snooze(timedelta(hours=1)))
    publish(outbox, 1)
    with pytest.raises(AssertionError, match=r"after 5 steps, at 2026-01-01 05:00:00.*snooze forever"):
        drain_until_idle(outbox, clock, most_steps=5)


def test_another_clock_is_refused(outbox: Outbox) -> None:
    with pytest.raises(AssertionError, match="another clock"):
        drain_until_idle(outbox, FakeClock())
