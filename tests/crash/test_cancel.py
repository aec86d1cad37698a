"""Cancel and reschedule against a running move: "in time" is never a lie, and neither waits forever."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from penstock import points
from penstock.log.sql.heads import Fence
from penstock.outbox.sequencer import Pass, Sequencer
from tests.crash.account import breaches, kinds, logged
from tests.crash.holding import held_at
from tests.crash.passing_by import passed_by
from tests.crash.store import Store, a_member, a_sequencer
from tests.crash.waiting import wait_until

POINTS = ["sequencer.after_fence", "sequencer.after_pick", "sequencer.before_commit"]
# The move locks a due row when it picks it: before that a cancel is in time, after that it waits.
IN_TIME = {"sequencer.after_fence"}


class Mover:
    """A sequencer that passes in a thread of its own."""

    def __init__(self, pool: ThreadPoolExecutor, sequencer: Sequencer, fence: Fence) -> None:
        self._pool, self._sequencer, self._fence = pool, sequencer, fence

    def begin(self) -> Future[Pass]:
        """Begin one pass."""
        return self._pool.submit(self._sequencer.sequence, self._fence)

    def drain(self) -> None:
        """Pass until nothing is left."""
        while self._sequencer.sequence(self._fence).moved:
            pass


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Give threads for a mover and a canceller."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def mover(postgres_store: Store, pool: ThreadPoolExecutor) -> Iterator[Mover]:
    """Give a mover that owns all slots."""
    with closing(postgres_store.database()) as database:
        yield Mover(pool, a_sequencer(database), a_member(database).fence)


@pytest.fixture
def due(postgres_store: Store) -> str:
    """Give the id of one of three events of a key that were scheduled and are due now."""
    with postgres_store.connection() as conn:
        at = timedelta(hours=1)
        ids = [
            postgres_store.outbox.publish(
                conn, "remind", {"version": None}, key="k-1", topic="three", at=at, owner="me"
            )
            for _ in range(3)
        ]
        conn.execute("UPDATE penstock_scheduled SET due_ms = due_ms - 7200000")
        conn.commit()
    return ids[1]


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("point", POINTS)
def test_in_time_means_not_in_the_log_wherever_the_move_stands(
    postgres_store: Store, mover: Mover, pool: ThreadPoolExecutor, due: str, point: str, commits: bool
) -> None:
    with held_at(point) as hold, postgres_store.connection() as conn:
        move = mover.begin()
        hold.wait()
        cancel = pool.submit(postgres_store.outbox.cancel, conn, due, topic="three")
        if point in IN_TIME:
            assert cancel.result() == 1
        else:
            wait_until(postgres_store.lock_waiters, "the cancel waits for the move")
        hold.let_go()
        if point in IN_TIME:
            assert passed_by(postgres_store.url, conn, move).moved == 2
        assert move.result().moved == (2 if point in IN_TIME else 3)
        assert cancel.result() == (1 if point in IN_TIME else 0)
        end(conn, commits)
    mover.drain()
    taken_back = cancel.result() == 1 and commits
    assert is_logged(postgres_store, due) is not taken_back
    assert dense(postgres_store)


@pytest.mark.parametrize("by", [{"key": "k-1"}, {"owner": "me"}], ids=["key", "owner"])
@pytest.mark.parametrize("point", POINTS)
def test_all_of_a_key_or_an_owner_are_counted_as_far_as_they_were_in_time(
    postgres_store: Store, mover: Mover, pool: ThreadPoolExecutor, due: str, point: str, by: dict[str, str]
) -> None:
    """One more is not due yet: it is in time wherever the move stands, also after waiting for the others."""
    outbox = postgres_store.outbox
    with postgres_store.connection() as conn:
        later = outbox.publish(conn, "t", 1, key="k-1", owner="me", topic="three", at=timedelta(hours=1))
        conn.commit()
    with held_at(point) as hold, postgres_store.connection() as conn:
        move = mover.begin()
        hold.wait()
        cancel = pool.submit(outbox.cancel, conn, topic="three", **by)
        if point in IN_TIME:
            assert cancel.result() == 4
        else:
            wait_until(postgres_store.lock_waiters, "the cancel waits for the move")
        hold.let_go()
        if point in IN_TIME:
            assert passed_by(postgres_store.url, conn, move).moved == 0
        assert move.result().moved == (0 if point in IN_TIME else 3)
        assert cancel.result() == (4 if point in IN_TIME else 1)
        conn.commit()
    postgres_store.run("UPDATE penstock_scheduled SET due_ms = 0")
    mover.drain()
    assert is_logged(postgres_store, due) is (point not in IN_TIME)
    assert not is_logged(postgres_store, later)
    assert dense(postgres_store)


def test_two_cancels_that_meet_wait_in_line(postgres_store: Store, pool: ThreadPoolExecutor) -> None:
    """By key and by owner they find the same rows, and a third holds the one in the middle.

    From two ends, each would come to hold what the other needs.
    """
    outbox = postgres_store.outbox
    with postgres_store.connection() as conn:
        ids = [
            outbox.publish(conn, "t", number, key="k-1", owner="me", topic="three", at=timedelta(hours=1))
            for number in range(3)
        ]
        conn.commit()

    def cancel(**by: str) -> int:
        with postgres_store.connection() as conn:
            taken_back = outbox.cancel(conn, topic="three", **by)
            conn.commit()
            return taken_back

    with postgres_store.connection() as middle:
        assert outbox.cancel(middle, ids[1], topic="three") == 1
        both = [pool.submit(cancel, key="k-1"), pool.submit(cancel, owner="me")]
        wait_until(lambda: postgres_store.lock_waiters() == 2, "both wait")
        middle.rollback()
    assert sorted(each.result() for each in both) == [0, 3]


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("point", POINTS)
def test_a_new_time_in_time_means_not_in_the_log_before_it(
    postgres_store: Store, mover: Mover, pool: ThreadPoolExecutor, due: str, point: str, commits: bool
) -> None:
    """The move steps over a row that is being rescheduled; one that it has is waited for."""
    hour = timedelta(hours=1)
    with held_at(point) as hold, postgres_store.connection() as conn:
        move = mover.begin()
        hold.wait()
        change = pool.submit(postgres_store.outbox.reschedule, conn, due, hour, topic="three")
        if point in IN_TIME:
            assert change.result() is True
        else:
            wait_until(postgres_store.lock_waiters, "the new time waits for the move")
        hold.let_go()
        if point in IN_TIME:
            assert passed_by(postgres_store.url, conn, move).moved == 2
        assert move.result().moved == (2 if point in IN_TIME else 3)
        assert change.result() is (point in IN_TIME)
        end(conn, commits)
    mover.drain()
    waits = change.result() and commits
    assert is_logged(postgres_store, due) is not waits
    postgres_store.run("UPDATE penstock_scheduled SET due_ms = 0")
    mover.drain()
    assert is_logged(postgres_store, due)
    assert dense(postgres_store)


@pytest.mark.parametrize("point", POINTS)
def test_a_cancel_that_ends_before_the_move_goes_on_is_in_time(
    postgres_store: Store, mover: Mover, due: str, point: str
) -> None:
    with held_at(point) as hold, postgres_store.connection() as conn:
        move = mover.begin()
        hold.wait()
        conn.execute("SET LOCAL lock_timeout = 100")
        try:
            in_time = postgres_store.outbox.cancel(conn, due, topic="three") == 1
            conn.commit()
        except psycopg.errors.LockNotAvailable:  # a caller who does not wait is told so, and knows nothing
            in_time = False
            conn.rollback()
        hold.let_go()
        move.result()
    mover.drain()
    assert in_time is (point in IN_TIME)
    assert is_logged(postgres_store, due) is not in_time
    assert dense(postgres_store)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_a_cancel_that_waited_for_a_move_which_fails_is_in_time_after_all(
    postgres_store: Store, mover: Mover, pool: ThreadPoolExecutor, due: str, commits: bool
) -> None:
    class MoveFailed(Exception):
        """The move is rolled back."""

    with held_at("sequencer.after_pick") as hold, postgres_store.connection() as conn:
        move = mover.begin()
        hold.wait()
        points.arm("sequencer.before_commit", points.fail(MoveFailed()))
        cancel = pool.submit(postgres_store.outbox.cancel, conn, due, topic="three")
        wait_until(postgres_store.lock_waiters, "the cancel waits for the move")
        hold.let_go()
        with pytest.raises(MoveFailed):
            move.result()
        assert cancel.result() == 1
        end(conn, commits)
    mover.drain()
    assert is_logged(postgres_store, due) is not commits
    assert dense(postgres_store)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("goes_first", [True, False], ids=["ended", "open"])
@pytest.mark.parametrize("point", POINTS[:2])
def test_a_staged_row_that_somebody_deletes_under_a_move_never_appears(
    postgres_store: Store, mover: Mover, point: str, goes_first: bool, commits: bool
) -> None:
    ids = postgres_store.publish_committed("three", ["k-1", "k-1", "k-1", "k-2"])
    with held_at(point) as hold, postgres_store.connection() as conn:
        move = mover.begin()
        hold.wait()
        conn.execute("DELETE FROM penstock_staged WHERE id = %s", (ids[1],))
        conn.execute("DELETE FROM promised WHERE id = %s", (ids[1],))
        if goes_first:
            end(conn, commits)
        hold.let_go()
        if not goes_first:
            wait_until(postgres_store.lock_waiters, "the move waits for the one who deletes")
            end(conn, commits)
        assert move.result().moved == 4 - commits
    mover.drain()
    assert breaches(postgres_store) == []
    assert is_logged(postgres_store, ids[1]) is not commits


def end(conn: Any, commits: bool) -> None:
    """End the transaction of a connection."""
    if commits:
        conn.commit()
    else:
        conn.rollback()


def is_logged(store: Store, event_id: str) -> bool:
    """Return whether an event is in the log."""
    return event_id in {row.id for row in logged(store)}


def dense(store: Store) -> bool:
    """Return whether the offsets have no gap and no double, and end at the heads."""
    return "gap" not in kinds(breaches(store))
