"""A group's rows: moved by their owner only, in its epoch, and only from the version they were left in."""

from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest

from penstock.database.database import Database, Transaction
from penstock.delivery.cursor_state import GoingOut
from penstock.delivery.machine import Settlement
from penstock.delivery.store import GroupStore, Living, Owned
from penstock.delivery.verdict import Dead, Parked, Passed, Verdict
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.suites.records import some_records

Store = Callable[..., GroupStore]
PARKED = Parked(due_ms=0, failures=1, reason="no")


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the readers' own, with ten records in one partition of two."""
    engine.outbox.log.create_topic("t", partitions=2)
    engine.outbox.log.append("t", some_records(10), partition=1)
    opened = engine.database()
    yield opened
    opened.close()


@pytest.fixture
def store(engine: StoreEngine, database: Database) -> Store:
    """Give the rows of a group as a member of that name sees them."""
    topic = engine.outbox.log.topic("t")

    def seen_by(owner: str, *, gone: str = "") -> GroupStore:
        return GroupStore(
            engine.outbox.store, engine.clock, group="g", topic=topic, owner=owner, gone=lambda tx: [gone]
        )

    return seen_by


def living(*members: str) -> Living:
    """Return a list of the living that does not change."""
    return lambda tx: list(members)


def worked(owned: Owned, verdicts: dict[int, Verdict], *, lane: str = "k") -> Settlement:
    """Feed, hand out and finish offsets, all of one lane, and return what is to be written."""
    for offset, verdict in verdicts.items():
        owned.machine.feed(offset, lane, wanted=True)
        assert [each.offset for each in owned.machine.take(0, 10)] == [offset]
        owned.machine.finish(offset, verdict)
    found = owned.machine.settlement()
    assert found is not None
    return found


def passed(*offsets: int) -> dict[int, Verdict]:
    return dict.fromkeys(offsets, Passed())


def test_what_has_work_is_taken_once(store: Store) -> None:
    a, b = store("a"), store("b")
    assert [(n, each.machine.base, each.epoch) for n, each in a.take(living("a", "b")).items()] == [(1, 0, 1)]
    assert b.take(living("a", "b")) == {}


def test_a_settled_cursor_stands_where_it_was_moved_to(store: Store) -> None:
    a = store("a")
    owned = a.take(living("a"))[1]
    assert a.settle({1: (owned, worked(owned, passed(0, 1, 2, 3)))}) == set()
    assert a.settle({1: (owned, worked(owned, passed(4, 5, 6)))}) == set()
    a.release([1])
    again = store("b").take(living("b"))[1]
    assert (again.machine.base, again.epoch, again.crashes) == (7, 3, 0)


def test_what_was_done_out_of_order_is_remembered(store: Store) -> None:
    """D1: a crash redelivers only what was not settled."""
    a = store("a")
    owned = a.take(living("a"))[1]
    for offset in range(6):
        owned.machine.feed(offset, f"k-{offset}", wanted=True)
    owned.machine.take(0, 10)
    for offset in (1, 4):
        owned.machine.finish(offset, Passed())
    found = owned.machine.settlement()
    assert found is not None
    assert a.settle({1: (owned, found)}) == set()
    again = store("b").take(living("b"))[1]
    assert (again.machine.base, again.machine.missing(), again.machine.position) == (0, [0, 2, 3], 5)


def test_lanes_entries_and_dead_letters_are_written_with_the_cursor(store: Store, engine: StoreEngine) -> None:
    a = store("a")
    owned = a.take(living("a"))[1]
    machine = owned.machine
    for offset, lane in enumerate(("x", "y", "x", "z", "z")):
        machine.feed(offset, lane, wanted=True)
    assert [each.offset for each in machine.take(0, 10)] == [0, 1, 3]
    machine.finish(0, PARKED)
    machine.finish(1, Passed())
    machine.finish(3, Dead(4, "for good", hold=True))
    found = machine.settlement()
    assert found is not None
    a.settle({1: (owned, found)})
    a.release([1])
    assert rows(engine, "lane, state, failures, reason", "lane") == [
        ("x", "retrying", 1, "no"),
        ("z", "held", 0, "for good"),
    ]
    assert rows(engine, '"offset", lane', "lane_entry") == [(0, "x"), (2, "x"), (4, "z")]
    assert rows(engine, 'lane, "offset", holding, failures, reason', "dead") == [("z", 3, True, 4, "for good")]
    again = store("b").take(living("b"))[1].machine
    assert again.base == 5
    assert [(each.offset, each.failures) for each in again.take(0, 10)] == [(0, 1)]


def test_a_lane_that_flows_again_leaves_no_rows(store: Store, engine: StoreEngine) -> None:
    a = store("a")
    owned = a.take(living("a"))[1]
    a.settle({1: (owned, worked(owned, {0: PARKED}))})
    assert [each.offset for each in owned.machine.take(0, 1)] == [0]
    owned.machine.finish(0, Passed())
    found = owned.machine.settlement()
    assert found is not None
    a.settle({1: (owned, found)})
    assert (rows(engine, "*", "lane"), rows(engine, "*", "lane_entry")) == ([], [])


def test_a_second_try_of_the_same_settling_is_refused(store: Store) -> None:
    """D5: as after a commit in doubt."""
    a = store("a")
    owned = a.take(living("a"))[1]
    settlement = worked(owned, passed(0, 1))
    assert a.settle({1: (owned, settlement)}) == set()
    owned.version -= 1
    assert a.settle({1: (owned, settlement)}) == {1}


def test_a_refused_settling_writes_no_lane(store: Store, engine: StoreEngine) -> None:
    """Whoever was taken over writes nothing at all."""
    a, b = store("a"), store("b")
    stale = a.take(living("a", "b"))[1]
    fresh = b.take(living("b"))[1]
    assert a.settle({1: (stale, worked(stale, {0: PARKED}))}) == {1}
    assert (rows(engine, "*", "lane"), rows(engine, "*", "lane_entry"), rows(engine, "*", "dead")) == ([], [], [])
    assert b.settle({1: (fresh, worked(fresh, passed(0)))}) == set()


def test_who_has_released_cannot_settle(store: Store) -> None:
    """F2: also when it takes the cursor again; only the new epoch counts."""
    a = store("a")
    stale = a.take(living("a"))[1]
    a.release([1])
    settlement = worked(stale, passed(0))
    assert a.settle({1: (stale, settlement)}) == {1}
    fresh = a.take(living("a"))[1]
    assert a.settle({1: (stale, settlement)}) == {1}
    assert a.settle({1: (fresh, worked(fresh, passed(0)))}) == set()
    assert fresh.crashes == 0


def test_a_group_at_the_end_has_nothing_to_take(store: Store, engine: StoreEngine) -> None:
    a = store("a")
    owned = a.take(living("a"))[1]
    a.settle({1: (owned, worked(owned, passed(*range(10))))})
    a.release([1])
    assert a.take(living("a")) == {}
    engine.outbox.log.append("t", some_records(1), partition=0)
    assert [(n, each.machine.base) for n, each in a.take(living("a")).items()] == [(0, 0)]


def test_an_owner_lost_without_release_is_counted(store: Store) -> None:
    owned = store("a").take(living("a"))[1]
    assert (owned.crashes, owned.trial.is_empty) == (0, True)
    owned = store("b").take(living("b"))[1]
    assert (owned.crashes, owned.trial.is_empty) == (1, True)  # its process may live


def test_what_was_in_work_when_a_process_died_is_judged_by_its_heir(store: Store) -> None:
    a = store("a")
    owned = a.take(living("a"))[1]
    owned.trial.begin(owned.epoch, 4, alone=True)
    assert a.hand_out({1: (owned, GoingOut())}) == set()
    judged = store("b", gone="a").take(living("b"))[1]
    assert (judged.trial.deaths, judged.trial.alone, judged.killers) == (1, {4: 1}, set())
    judged = store("c", gone="b").take(living("c"))[1]  # it died before it began anything
    assert (judged.trial.deaths, judged.trial.alone) == (2, {4: 1})


def test_who_was_taken_over_cannot_write_down_what_it_begins(store: Store) -> None:
    a = store("a")
    stale = a.take(living("a"))[1]
    store("b").take(living("b"))
    assert a.hand_out({1: (stale, GoingOut())}) == {1}


def test_a_lane_waits_no_longer_than_it_was_to_wait_whatever_the_clocks_say(store: Store, engine: StoreEngine) -> None:
    """D5: the clock of the owner that parked it was three hours ahead; its heir's is right."""
    a = store("a")
    owned = a.take(living("a"))[1]
    now_ms = engine.clock.now_ms()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.clock, "_now_ms", now_ms + 3 * 3_600_000)
        a.settle({1: (owned, worked(owned, {0: Parked(engine.clock.now_ms() + 1000, 1, "no")}))})
    a.release([1])
    machine = store("b").take(living("b"))[1].machine
    assert machine.next_due_ms() == now_ms + 1000


def test_only_what_is_meant_for_a_member_is_taken_as_its_share(store: Store, database: Database) -> None:
    a = store("a")
    assert a.take_wanted(living("a")) == {}
    database.run(lambda tx: tx.conn.execute("UPDATE penstock_cursor SET owner_wanted = 'a' WHERE partition = 0"))
    assert list(a.take_wanted(living("a"))) == [0]
    assert a.owned() == {0: (1, True, 0)}
    database.run(lambda tx: tx.conn.execute("UPDATE penstock_cursor SET owner_wanted = 'b'"))
    assert a.owned() == {0: (1, False, 0)}


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_member_that_has_just_joined_and_taken_is_not_robbed(store: Store, database: Database) -> None:
    """Two drains at once would hand out the same records, though nothing failed."""
    a, b = store("a"), store("b")
    members = ["a"]
    got: list[dict[int, Owned]] = []

    def second() -> None:
        members.append("b")  # it joins, and then takes
        got.append(b.take(living("a", "b")))

    coming = Thread(target=second)

    def look(tx: Transaction) -> list[str]:
        found = list(members)
        coming.start()
        wait_until(lambda: not coming.is_alive() or waits(database), "the second has taken or waits")
        return found

    first = a.take(look)
    coming.join()
    assert len(first) + len(got[0]) == 1
    assert {each.epoch for each in [*first.values(), *got[0].values()]} == {1}


def rows(engine: StoreEngine, columns: str, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table in order."""
    with engine.connect() as conn:
        return [tuple(row) for row in conn.execute(f"SELECT {columns} FROM penstock_{table} ORDER BY 1").fetchall()]


def waits(database: Database) -> bool:
    """Return whether some connection of this database waits for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return database.look(lambda tx: bool(tx.conn.execute(query).fetchone()[0]))
