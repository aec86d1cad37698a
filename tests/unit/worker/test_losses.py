"""A partition that a running worker loses and takes again: it goes on, and what comes twice is marked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from penstock import Fixed, Outbox, Record, points
from penstock.errors import StoreUnreachable
from penstock.operate.dead import DeadSelection, dead_letters, requeue
from penstock.operate.topics import delete
from penstock.worker.group import bounds
from penstock.worker.served_groups import LeaseCheck
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.services.slow import but_the_first
from tests.suites.outbox_suite import in_one_partition
from tests.working import working


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def outbox(engine: StoreEngine) -> Iterator[Outbox]:
    """Give an outbox in the world's own time, whose topic has one partition."""
    in_one_partition(engine)
    opened = Outbox(engine.url)
    yield opened
    points.disarm()
    opened.close()


def publish(outbox: Outbox, *pairs: tuple[str, int]) -> None:
    with outbox.transaction() as conn:
        outbox.publish_many(conn, [{"type": "t", "value": value, "key": key} for key, value in pairs])


@pytest.mark.parametrize("transaction", but_the_first([False, True]), ids=["plain", "transactional"])
def test_a_partition_whose_settling_was_in_doubt_goes_on(outbox: Outbox, transaction: bool) -> None:
    """The cursor has moved and nobody was told: nobody else has the partition, so this worker must."""
    seen: list[Any] = []

    @outbox.handler("t", group="g", transaction=transaction)
    def handle(record: Record) -> None:
        seen.append(record.value)

    with working(outbox):
        publish(outbox, ("a", 1))
        wait_until(lambda: seen == [1], "the first is handled")
        point = "unit.after_commit" if transaction else "delivery.after_settle"
        points.arm(point, points.fail(StoreUnreachable("the store", "cut")))
        publish(outbox, ("a", 2))
        wait_until(lambda: 2 in seen, "the second is handled, and its settling is in doubt")
        publish(outbox, ("a", 3))
        wait_until(lambda: 3 in seen, "the third is handled")
    assert seen == [1, 2, 3]


def test_what_waits_for_a_thread_is_not_done_twice_when_its_partition_is_taken_afresh(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that have not begun are handled once."""
    monkeypatch.setenv("PENSTOCK_PROCESSING_CONCURRENCY", "1")
    calls: list[tuple[int, bool]] = []
    fails, goes_on = [True], Event()

    @outbox.handler("t", group="g", retry=Fixed(max_retries=0))
    def handle(record: Record) -> None:
        if record.key == "poison" and fails[0]:
            raise ValueError("no")
        calls.append((record.value, record.redelivered))
        if record.value == 1 and len(calls) == 1:
            assert goes_on.wait(60)

    with working(outbox):
        publish(outbox, ("poison", 0))
        wait_until(lambda: dead_letters(outbox._database).items, "the first is a dead letter")
        fails[0] = False
        publish(outbox, *((f"k-{value}", value) for value in range(1, 60)))
        wait_until(lambda: calls, "the second is being handled, and the rest waits")
        requeue_and_seize(outbox)
        wait_until(lambda: is_taken_again(outbox), "the worker has taken the partition afresh")
        goes_on.set()
        wait_until(lambda: {value for value, _ in calls} == set(range(60)), "all are handled")
    assert sorted(value for value, _ in calls) == [0, 1, *range(1, 60)], "only what ran comes twice"
    assert [marked for value, marked in calls if value == 1] == [False, True]


def requeue_and_seize(outbox: Outbox) -> None:
    """Requeue all, and let owners take their cursors afresh, as an erasure does."""
    with outbox.transaction() as conn:
        conn.execute("UPDATE penstock_cursor SET owner = NULL, epoch = epoch + 1, crashes = 1")
    requeue(outbox._database, DeadSelection(group="g", all=True))


def is_taken_again(outbox: Outbox) -> bool:
    """Return whether the one cursor has had two changes of hands since it was first taken."""
    query = "SELECT owner IS NOT NULL, epoch FROM penstock_cursor"
    with outbox.transaction() as conn:
        ((owned, epoch),) = conn.execute(query).fetchall()
    return bool(owned) and epoch >= 3


def test_what_was_done_and_not_settled_is_marked_when_it_comes_again(outbox: Outbox) -> None:
    """It is handled to the end, but a person has taken the partition's epoch meanwhile."""
    calls: list[tuple[int, bool]] = []
    fails, handled = [True], Event()

    @outbox.handler("t", group="g", retry=Fixed(max_retries=0))
    def handle(record: Record) -> None:
        if record.key == "poison" and fails[0]:
            raise ValueError("no")
        calls.append((record.value, record.redelivered))
        if record.value == 1 and not handled.is_set():
            handled.set()
            requeue_and_seize(outbox)

    with working(outbox):
        publish(outbox, ("poison", 0))
        wait_until(lambda: dead_letters(outbox._database).items, "the first is a dead letter")
        fails[0] = False
        publish(outbox, ("a", 1))
        wait_until(lambda: len(calls) >= 3, "the requeued one and the other, twice, are handled")
    assert sorted(calls) == [(0, True), (1, False), (1, True)]


def test_no_more_is_handed_out_than_a_successor_takes_for_doubtful(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 9: at most so many beyond the last that its row shows as done, however quick handlers are."""
    monkeypatch.setattr(bounds, "AHEAD", 10)
    reached: list[int] = []
    beyond, written, many = [0], [0], Event()

    @outbox.handler("t", group="g")
    def handle(record: Record) -> None:
        assert record.offset is not None
        if record.offset == 0:  # while one runs, results need not be settled at once
            assert many.wait(60)
        reached.append(record.offset)
        beyond.append(record.offset - written[0])
        if len(reached) > 400:
            many.set()

    def settling() -> None:
        """Take note, once it is committed, of what the row says at most."""
        written[0] = max([-1, *reached]) + 1
        points.arm("delivery.after_settle", settling)

    publish(outbox, *((f"k-{value}", value) for value in range(500)))
    points.arm("delivery.after_settle", settling)
    with working(outbox):
        wait_until(lambda: len(reached) == 500, "all are handled")
    assert max(beyond) < 10


def test_an_async_handler_ends_with_its_worker_in_the_callers_own_loop(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record was given back and others may be at it: it is cancelled, as in a loop of ours."""
    monkeypatch.setenv("PENSTOCK_PROCESSING_SHUTDOWN_TIMEOUT", "0.1")
    ends: list[str] = []

    async def run() -> None:
        began, never = asyncio.Event(), asyncio.Event()

        @outbox.handler("t", group="g")
        async def handle(record: Record) -> None:
            began.set()
            try:
                await never.wait()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        async with outbox.running():
            await began.wait()
        ends.append("stopped")
        while len(ends) < 2:
            await asyncio.sleep(0.01)

    publish(outbox, ("a", 1))
    asyncio.run(asyncio.wait_for(run(), 60))
    assert sorted(ends) == ["cancelled", "stopped"]


def test_what_a_stop_did_not_wait_for_is_marked_when_it_comes_again(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROCESSING_SHUTDOWN_TIMEOUT", "0.1")
    calls: list[tuple[int, bool, int]] = []
    goes_on = Event()

    @outbox.handler("t", group="g")
    def handle(record: Record) -> None:
        calls.append((record.value, record.redelivered, record.attempt))
        if len(calls) == 1:
            assert goes_on.wait(60)

    publish(outbox, ("a", 1), ("a", 2))
    with working(outbox):
        wait_until(lambda: calls, "the first is being handled")
    with working(outbox):
        wait_until(lambda: len(calls) == 3, "both are handled")
    goes_on.set()
    assert calls == [(1, False, 1), (1, True, 1), (2, False, 1)]


def test_what_a_stop_could_not_settle_is_marked_when_it_comes_again(outbox: Outbox) -> None:
    """It is not given back then, but left: who takes over counts that as a crash, and goes on with care."""
    calls: list[tuple[int, bool]] = []
    stop = Event()

    def away() -> None:
        points.arm("delivery.before_settle", away)
        raise StoreUnreachable("the store", "away")

    @outbox.handler("t", group="g")
    def handle(record: Record) -> None:
        calls.append((record.value, record.redelivered))
        if len(calls) == 1:
            points.arm("delivery.before_settle", away)
            stop.set()

    publish(outbox, ("a", 1))
    outbox.run(until=stop)
    points.disarm()
    stop.clear()
    with working(outbox):
        wait_until(lambda: len(calls) == 2, "it is handled again")
    assert calls == [(1, False), (1, True)]


def test_a_drain_that_is_interrupted_keeps_what_was_done(outbox: Outbox) -> None:
    calls: list[tuple[int, bool]] = []

    @outbox.handler("t", group="g")
    def handle(record: Record) -> None:
        calls.append((record.value, record.redelivered))
        if len(calls) == 3:
            raise KeyboardInterrupt

    publish(outbox, *((f"k-{value}", value) for value in range(5)))
    with pytest.raises(KeyboardInterrupt):
        outbox.drain()
    outbox.drain()
    assert sorted(calls[3:]) == [(2, True), (3, False), (4, False)]


def test_what_a_drain_had_called_in_a_unit_when_it_was_interrupted_comes_marked(outbox: Outbox) -> None:
    calls: list[tuple[int, bool]] = []

    @outbox.handler("t", group="g", transaction=True)
    def handle(record: Record) -> None:
        calls.append((record.value, record.redelivered))
        if len(calls) == 3:
            raise KeyboardInterrupt

    publish(outbox, *((f"k-{value}", value) for value in range(5)))
    with pytest.raises(KeyboardInterrupt):
        outbox.drain()
    outbox.drain()
    assert {(value, True) for value, _ in calls[:3]} <= set(calls[3:])


@pytest.mark.parametrize("transaction", but_the_first([False, True]), ids=["plain", "transactional"])
def test_a_topic_that_is_deleted_and_made_anew_is_read(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, transaction: bool
) -> None:
    """D7: the running worker serves it without a restart, also with a call of the old one under way."""
    monkeypatch.setenv("PENSTOCK_CLUSTER_REBALANCE_INTERVAL", "0.2")
    seen, in_work, goes_on = list[Any](), Event(), Event()

    @outbox.handler("t", group="g", transaction=transaction)
    def handle(record: Record) -> None:
        if record.value == 1:
            in_work.set()
            assert goes_on.wait(60)
        seen.append(record.value)

    with working(outbox):
        publish(outbox, ("a", 1))
        assert in_work.wait(60)
        if transaction and outbox.database.dialect.writers is not None:
            goes_on.set()  # it keeps the file to itself: nothing can be deleted beside it
        delete(outbox, "events", actor="me", force=True)
        publish(outbox, ("a", 2), ("b", 3))
        wait_until(lambda: {2, 3} <= set(seen), "what came after is handled")
        goes_on.set()
        publish(outbox, ("a", 4))
        wait_until(lambda: 4 in seen, "and what comes next")
    assert sorted(set(seen)) in ([1, 2, 3, 4], [2, 3, 4])


def test_what_ends_of_a_deleted_topic_says_nothing_of_the_one_made_anew(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: the same place and epoch, another record: it fails while the old one passes, and is retried."""
    monkeypatch.setenv("PENSTOCK_CLUSTER_REBALANCE_INTERVAL", "0.2")
    calls, old_goes_on, new_goes_on = list[tuple[str, int]](), Event(), Event()

    @outbox.handler("t", group="g", retry=Fixed(delay=0.01, max_retries=5))
    def handle(record: Record) -> None:
        calls.append((str(record.key), record.attempt))
        assert (old_goes_on if record.key == "old" else new_goes_on).wait(60)
        if calls.count((str(record.key), 1)) and record.key == "new" and record.attempt == 1:
            raise ValueError("no")

    with working(outbox):
        publish(outbox, ("old", 1))
        wait_until(lambda: calls == [("old", 1)], "the old one is in work")
        delete(outbox, "events", actor="me", force=True)
        outbox.log.create_topic("events", partitions=1)
        publish(outbox, ("new", 2))
        wait_until(lambda: ("new", 1) in calls, "the new one is in work")
        old_goes_on.set()
        publish(outbox, ("other", 3))
        new_goes_on.set()
        wait_until(lambda: ("new", 2) in calls and ("other", 1) in calls, "it is tried again")


def test_a_unit_that_wakes_after_its_lease_calls_nobody(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: another member may have its partitions: its calls are refused as those of any handler."""
    seen, asked = list[Any](), list[bool]()

    @outbox.handler("t", group="g", transaction=True)
    def handle(record: Record) -> None:
        seen.append((record.value, record.redelivered))

    may_start = LeaseCheck.may_start

    def lapsed_once(self: LeaseCheck) -> bool:
        asked.append(True)
        return len(asked) > 3 and may_start(self)

    monkeypatch.setattr(LeaseCheck, "may_start", lapsed_once)
    with working(outbox):
        publish(outbox, ("a", 1), ("b", 2))
        wait_until(lambda: len(seen) == 2, "all are handled, later")
    assert sorted(seen) == [(1, False), (2, False)]
    assert len(asked) > 3


def test_a_retry_comes_in_time_though_the_clock_is_put_back(
    outbox: Outbox, engine: StoreEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []

    @outbox.handler("t", group="g", retry=Fixed(timedelta(seconds=0.5), max_retries=1))
    def handle(record: Record) -> None:
        attempts.append(record.attempt)
        if record.attempt == 1:
            raise ValueError("not yet")

    with working(outbox):
        publish(outbox, ("a", 1))
        wait_until(lambda: engine.count("lane"), "it is parked")
        real, hours = time.time_ns, 3 * 3_600_000_000_000
        monkeypatch.setattr(time, "time_ns", lambda: real() - hours)
        monkeypatch.setattr(time, "time", lambda: (real() - hours) / 1e9)
        wait_until(lambda: attempts == [1, 2], "it is tried again", seconds=20)
