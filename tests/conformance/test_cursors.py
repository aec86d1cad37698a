"""Cursors: moved by their owner only, in its epoch, and only from where they were believed to be."""

from collections.abc import Callable, Iterator
from threading import Thread

import pytest

from penstock.delivery.cursors import Cursor, Cursors
from penstock.errors import Fenced
from penstock.log.sql.database import Database, Transaction
from penstock.log.sql.dialects import open_database
from penstock.log.sql.naming import Names
from penstock.testing.records import some_records
from penstock.testing.refusal import refusal
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until

Living = Callable[[Transaction], list[str]]


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the readers' own, with ten records in one partition of two."""
    engine.outbox.log.create_topic("t", partitions=2)
    engine.outbox.log.append("t", some_records(10), partition=1)
    opened = open_database(engine.url, Names())
    yield opened
    opened.close()


@pytest.fixture
def cursors(engine: StoreEngine, database: Database) -> Callable[[str], Cursors]:
    """Give the cursors of a group as a member of that name sees them."""
    topic = engine.outbox.log.topic("t")
    return lambda owner: Cursors(database, engine.clock, group="g", topic=topic, owner=owner)


def living(*members: str) -> Living:
    """Return a list of the living that does not change."""
    return lambda tx: list(members)


def taken(cursors: Cursors, *members: str) -> list[Cursor]:
    """Take what no living member owns, from the start."""
    return cursors.take(living(*members), from_start=True)


def test_what_is_behind_is_taken_once(cursors: Callable[[str], Cursors]) -> None:
    a, b = cursors("a"), cursors("b")
    assert a.behind()
    (cursor,) = taken(a, "a", "b")
    assert (cursor.partition, cursor.offset, cursor.epoch) == (1, 0, 1)
    assert taken(b, "a", "b") == []


def test_a_settled_cursor_stands_where_it_was_moved_to(cursors: Callable[[str], Cursors]) -> None:
    a = cursors("a")
    (cursor,) = taken(a, "a")
    a.settle(cursor, 4)
    a.settle(cursor, 7)
    a.release()
    (again,) = taken(cursors("b"), "b")
    assert (again.offset, again.epoch) == (7, 3)


def test_a_second_try_of_the_same_settling_is_refused(cursors: Callable[[str], Cursors]) -> None:
    """D5: as after a commit in doubt."""
    a = cursors("a")
    (cursor,) = taken(a, "a")
    before = Cursor(cursor.group_id, cursor.topic, cursor.partition, cursor.offset, cursor.epoch)
    a.settle(cursor, 4)
    refusal(Fenced, a.settle, before, 4)
    assert before.offset == 0


def test_who_has_released_cannot_settle(cursors: Callable[[str], Cursors]) -> None:
    """F2: also when it takes the cursor again; only the new epoch counts."""
    a = cursors("a")
    (stale,) = taken(a, "a")
    a.release()
    refusal(Fenced, a.settle, stale, 4)
    (fresh,) = taken(a, "a")
    refusal(Fenced, a.settle, stale, 4)
    a.settle(fresh, 4)


def test_who_was_taken_over_cannot_settle(cursors: Callable[[str], Cursors]) -> None:
    a, b = cursors("a"), cursors("b")
    (stale,) = taken(a, "a", "b")
    (fresh,) = taken(b, "b")
    refusal(Fenced, a.settle, stale, 4)
    b.settle(fresh, 10)
    refusal(Fenced, a.settle, stale, 4)
    assert not taken(cursors("c"), "c")


def test_a_group_at_the_end_has_nothing_to_take(
    cursors: Callable[[str], Cursors], engine: StoreEngine
) -> None:
    a = cursors("a")
    (cursor,) = taken(a, "a")
    a.settle(cursor, 10)
    a.release()
    assert taken(a, "a") == []
    engine.outbox.log.append("t", some_records(1), partition=0)
    assert [(each.partition, each.offset) for each in taken(a, "a")] == [(0, 0)]


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_member_that_has_just_joined_and_taken_is_not_robbed(
    cursors: Callable[[str], Cursors], database: Database
) -> None:
    """P6: two drains at once would hand out the same records, though nothing failed."""
    a, b = cursors("a"), cursors("b")
    taken(a, "a")  # so that the cursor is there already: making it would make the second wait anyway
    a.release()
    members = ["a"]
    got: list[list[Cursor]] = []

    def second() -> None:
        members.append("b")  # it joins, and then takes
        got.append(taken(b, "a", "b"))

    coming = Thread(target=second)

    def look(tx: Transaction) -> list[str]:
        found = list(members)
        coming.start()
        wait_until(lambda: not coming.is_alive() or waits(database), "the second has taken or waits")
        return found

    first = a.take(look, from_start=True)
    coming.join()
    assert len(first) + len(got[0]) == 1
    assert {each.epoch for each in [*first, *got[0]]} == {3}


def waits(database: Database) -> bool:
    """Return whether some connection of this database waits for a lock."""
    query = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return database.look(lambda tx: bool(tx.conn.execute(query).fetchone()[0]))
