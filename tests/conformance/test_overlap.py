"""Transactions that overlap, on an engine that lets them: what is late is not lost, and cancel never lies."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from penstock import points
from tests.conformance.engines import StoreEngine
from tests.crash.passing_by import passing_by, row_waiters
from tests.crash.waiting import wait_until
from tests.suites.outbox_suite import in_one_partition, keys, logged


@pytest.fixture
def store(migrated_postgres: str) -> Iterator[StoreEngine]:
    """Give a store in PostgreSQL whose one topic has one partition."""
    opened = StoreEngine(migrated_postgres)
    in_one_partition(opened)
    yield opened
    points.disarm()
    opened.close()


def test_nothing_is_in_the_log_before_its_transaction_commits(store: StoreEngine) -> None:
    with store.connect() as conn:
        store.outbox.publish(conn, "t", 1, key="open")
        assert store.outbox.drain().sequenced == 0
        conn.commit()
        assert store.outbox.drain().sequenced == 1


def test_a_transaction_that_staged_first_and_committed_last_is_not_lost(store: StoreEngine) -> None:
    """A mark by time or by id would have passed it."""
    with store.connect() as late, store.connect() as early:
        store.outbox.publish(late, "t", 1, key="late")
        for turn in range(3):
            store.outbox.publish(early, "t", 1, key=f"early-{turn}")
            early.commit()
            store.outbox.drain()
        late.commit()
    assert store.outbox.drain().sequenced == 1
    assert keys(logged(store)) == ["early-0", "early-1", "early-2", "late"]


def test_a_key_keeps_its_order_though_a_later_number_was_seen_before(store: StoreEngine) -> None:
    """F4: a remembered floor would move the second version first."""
    with store.connect() as first, store.connect() as others:
        store.outbox.publish(first, "t", "v1", key="k")
        store.outbox.publish(others, "t", 0, key="k-other")
        others.commit()
        store.outbox.drain()
        first.commit()
        store.outbox.publish(others, "t", "v2", key="k")
        others.commit()
    store.outbox.drain()
    assert [record.value for record in logged(store) if record.key == "k"] == ["v1", "v2"]


def test_a_rolled_back_number_stalls_nothing(store: StoreEngine) -> None:
    with store.connect() as never, store.connect() as conn:
        store.outbox.publish(never, "t", 1, key="never")
        store.outbox.publish(conn, "t", 1, key="a")
        conn.commit()
        never.rollback()
        store.outbox.publish(conn, "t", 1, key="b")
        conn.commit()
    store.outbox.drain()
    assert keys(logged(store)) == ["a", "b"]


@pytest.fixture
def scheduled(store: StoreEngine) -> str:
    """Give the id of an event that is due, while its row still stands among the scheduled."""
    with store.connect() as conn:
        given = store.outbox.publish(conn, "t", 1, key="due", at=timedelta(seconds=1))
        conn.commit()
    store.clock.advance(timedelta(seconds=1))
    return given


def test_a_cancel_before_the_move_keeps_the_event_out(store: StoreEngine, scheduled: str) -> None:
    """F3: the move passes by the row, and does not wait for the caller."""
    with store.connect() as conn:
        assert store.outbox.cancel(conn, scheduled) == 1
        assert passing_by(store.url, conn, store.outbox.drain).sequenced == 0
        conn.commit()
    assert store.outbox.drain().sequenced == 0


def test_a_cancel_that_is_taken_back_lets_the_event_come(store: StoreEngine, scheduled: str) -> None:
    with store.connect() as conn:
        assert store.outbox.cancel(conn, scheduled) == 1
        assert passing_by(store.url, conn, store.outbox.drain).sequenced == 0
        conn.rollback()
    assert store.outbox.drain().sequenced == 1


@pytest.mark.parametrize(
    "point", ["sequencer.after_pick", "sequencer.before_commit"], ids=lambda point: point.partition(".")[2]
)
def test_a_cancel_during_the_move_waits_and_then_tells_the_truth(
    point: str, store: StoreEngine, scheduled: str
) -> None:
    """F3: too late is 0, and the event is in the log; 1 would be a lie."""
    answers: list[Future[int]] = []

    def cancelled() -> int:
        with store.connect() as conn:
            count = store.outbox.cancel(conn, scheduled)
            conn.commit()
            return count

    with ThreadPoolExecutor(1) as pool:

        def begin() -> Any:
            answers.append(pool.submit(cancelled))
            wait_until(lambda: answers[0].done() or row_waiters(store.url), "the cancel waits or has ended")

        points.arm(point, begin)
        moved = store.outbox.drain().sequenced
        assert answers[0].result(60) == 1 - moved
    assert [record.id for record in logged(store)] == [scheduled] * moved
