"""Settling: a late, stale or repeated settling of a cursor moves nothing, and says so."""

from __future__ import annotations

from contextlib import closing

import pytest

from penstock.clock import SYSTEM
from penstock.delivery.cursors import Cursors
from penstock.errors import Fenced
from penstock.log.sql.database import Database
from tests.crash.store import Store


def test_a_late_settling_moves_no_cursor(store: Store) -> None:
    store.publish_committed("three", ["k-1"] * 4)
    store.outbox.drain()
    with closing(store.database()) as database:
        early, late = a_cursors(store, database, "early"), a_cursors(store, database, "late")
        (before,) = early.take(lambda _: [], from_start=True)
        (after,) = late.take(lambda _: ["late"], from_start=True)
        late.settle(after, 3)
        with pytest.raises(Fenced):
            early.settle(before, 1)
        assert offsets(store) == [3]
        early.release()  # gives nothing back: it owns nothing
        late.settle(after, 4)
        assert offsets(store) == [4]


def test_a_settling_repeated_after_a_lost_answer_is_refused_and_changes_nothing(store: Store) -> None:
    store.publish_committed("three", ["k-1"] * 4)
    store.outbox.drain()
    with closing(store.database()) as database:
        cursors = a_cursors(store, database, "reader")
        (cursor,) = cursors.take(lambda _: [], from_start=True)
        cursors.settle(cursor, 2)
        for believed, reached in ((0, 2), (0, 4), (3, 4)):
            cursor.offset = believed  # what a member believes that never heard the answer
            with pytest.raises(Fenced):
                cursors.settle(cursor, reached)
            assert offsets(store) == [2]


def test_a_settling_after_a_release_is_refused(store: Store) -> None:
    store.publish_committed("three", ["k-1"] * 4)
    store.outbox.drain()
    with closing(store.database()) as database:
        cursors = a_cursors(store, database, "reader")
        (cursor,) = cursors.take(lambda _: [], from_start=True)
        cursors.release()
        with pytest.raises(Fenced):
            cursors.settle(cursor, 1)
        (again,) = cursors.take(lambda _: [], from_start=True)
        assert again.epoch == cursor.epoch + 2  # given back and taken: two changes of owner
        with pytest.raises(Fenced):
            cursors.settle(cursor, 1)
        assert offsets(store) == [0]


def a_cursors(store: Store, database: Database, owner: str) -> Cursors:
    """Return the cursors of one group as one owner sees them."""
    return Cursors(database, SYSTEM, group="readers", topic=store.outbox.log.topic("three"), owner=owner)


def offsets(store: Store) -> list[int]:
    """Return where the cursors of the group stand."""
    return [row[0] for row in store.rows('SELECT "offset" FROM penstock_cursor')]
