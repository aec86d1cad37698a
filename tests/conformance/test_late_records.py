"""What a group has passed over, because it had no handler for the type, comes late when it has one."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from penstock import Outbox, Record, metrics
from penstock.clock import from_ms
from penstock.delivery.cursor_state import NOTED_TYPES, LateMove
from penstock.delivery.machine import Settlement
from penstock.delivery.notes import CatchUp
from penstock.delivery.store import GroupStore, Owned
from penstock.delivery.verdict import Parked, Passed
from penstock.errors import InvalidSelection
from penstock.log.contract import OffsetRange
from penstock.model.retry import Fixed
from penstock.operate import groups
from penstock.operate.audit import audit
from penstock.operate.catch_up import PassedOverType, catch_up, passed_over
from penstock.operate.clear import clear
from penstock.operate.dead import dead_letters
from penstock.operate.lanes import lanes
from penstock.operate.operation import group_id
from penstock.operate.reset import reset
from penstock.operate.why import Code, why
from penstock.worker.group import bounds
from penstock.worker.group.bounds import LEAST_AGAIN
from tests.conformance.engines import StoreEngine
from tests.conformance.owners import an_owner, stop, work
from tests.conformance.stores import kind_or_lists, sql_log_only  # noqa: F401 - the fixture `kind`
from tests.suites.records import some_records

HOUR = timedelta(hours=1)
GROUP = "app"
ALWAYS = 1 << 50
_Seen = list[tuple[str, Any, bool]]


@pytest.fixture(autouse=True)
def one_partition(engine: StoreEngine) -> None:
    """Let all keys share a partition, so that its order is that of publishing."""
    engine.outbox.log.create_topic("events", partitions=1)


def version(engine: StoreEngine, *types: str, **options: Any) -> tuple[Outbox, _Seen]:
    """Return a version of the program with a handler for each of some types, and what they are given."""
    outbox, seen = engine.another(), _Seen()
    for type in types:
        outbox.handler(type, group=GROUP, id=type, **options)(
            lambda record: seen.append((record.type, record.value, record.late))
        )
    return outbox, seen


def publish(engine: StoreEngine, *events: tuple[str, Any], key: str = "k") -> None:
    """Publish values of some types."""
    with engine.connect() as conn:
        for type, value in events:
            engine.outbox.publish(conn, type, value, key=key)
        conn.commit()


def store_filters(engine: StoreEngine, *filters: list[str]) -> None:
    """Store the filters of the group, as its running members would."""
    params = {"group_id": group_id(engine.outbox.store, GROUP), "filters": json.dumps(filters)}
    engine.outbox.store.database.run(lambda tx: tx.change("membership", "filters_write", **params))


def notes(engine: StoreEngine) -> list[PassedOverType]:
    """Return what the group has passed over."""
    return passed_over(engine.outbox, GROUP)


def test_what_was_passed_over_comes_late_to_the_first_handler_for_it(engine: StoreEngine) -> None:
    old, seen = version(engine, "placed")
    publish(engine, ("placed", 1), ("refunded", 2), ("placed", 3), ("refunded", 4))
    assert old.drain().delivered == 2
    assert [(each.type, each.records, each.coming) for each in notes(engine)] == [("refunded", 2, False)]
    new, later = version(engine, "placed", "refunded")
    assert new.drain().delivered == 2
    assert seen == [("placed", 1, False), ("placed", 3, False)]
    assert later == [("refunded", 2, True), ("refunded", 4, True)]
    assert notes(engine) == []
    publish(engine, ("refunded", 5))
    assert new.drain().delivered == 1
    assert later[2:] == [("refunded", 5, False)]
    assert new.drain().delivered == 0


def test_it_is_not_looked_for_before_the_start_of_the_log(engine: StoreEngine) -> None:
    engine.outbox.log.append("events", some_records(9), partition=0)
    old = a_store(engine, "old")
    (owned,) = old.take(lambda tx: ["old"]).values()
    for offset in range(9):
        owned.machine.feed(offset, "k", wanted=False, unhandled_type="x")
    assert old.settle({0: (owned, settlement(owned))}) == set()
    old.release([0])
    engine.outbox.log.trim(old.topic, [OffsetRange(0, 0, 7)])
    (taken,) = a_store(engine, "new", "x").take(lambda tx: ["new"]).values()
    assert [(each.first, each.until) for each in taken.late] == [(7, 9)]


def test_it_comes_once_and_is_not_marked_as_redelivered(engine: StoreEngine) -> None:
    old, _ = version(engine, "placed")
    publish(engine, ("refunded", 1))
    old.drain()
    new, marks = engine.another(), list[tuple[bool, bool, int]]()
    new.handler("refunded", group=GROUP, id="r")(
        lambda record: marks.append((record.late, record.redelivered, record.attempt))
    )
    for _ in range(3):
        new.drain()
    assert marks == [(True, False, 1)]


def test_several_types_of_a_key_come_late_in_their_order(engine: StoreEngine) -> None:
    old, _ = version(engine, "placed")
    events = [(f"t{number % 3}", number) for number in range(12)]
    publish(engine, *events)
    old.drain()
    new, seen = version(engine, "placed", "t0", "t1", "t2")
    new.drain()
    assert seen == [(type, value, True) for type, value in events]


def test_a_handler_that_comes_and_goes_gets_each_record_once(engine: StoreEngine) -> None:
    """Also what came while it was there is not taken for passed over, the second time."""
    old, _ = version(engine, "placed")
    new, seen = version(engine, "placed", "refunded")
    for number in range(3):
        publish(engine, ("refunded", 2 * number))
        old.drain()
        new.drain()
        publish(engine, ("refunded", 2 * number + 1))
        new.drain()
    assert seen == [("refunded", number, number % 2 == 0) for number in range(6)]


def test_what_is_older_than_the_setting_is_kept_until_a_person_asks(engine: StoreEngine) -> None:
    old, _ = version(engine, "placed")
    publish(engine, ("refunded", "a year ago"))
    engine.clock.advance(2 * HOUR)
    publish(engine, ("refunded", "just now"))
    old.drain()
    new, seen = version(engine, "placed", "refunded")
    new.drain()
    assert seen == [("refunded", "just now", True)]
    assert [(each.type, each.partitions) for each in notes(engine)] == [("refunded", 1)]
    assert new.drain().delivered == 0
    assert catch_up(engine.outbox, GROUP, dry_run=True).types == ("refunded",)
    assert catch_up(engine.outbox, GROUP, type="refunded", actor="me").partitions == 1
    new.drain()
    assert seen[1:] == [("refunded", "a year ago", True)]
    assert notes(engine) == []
    (entry,) = audit(engine.outbox).items
    assert (entry.action, entry.subject) == ("group catch-up", {"group": GROUP, "type": "refunded"})


def test_a_person_may_ask_for_what_came_since_a_moment(engine: StoreEngine) -> None:
    old, _ = version(engine, "placed")
    for number in range(4):
        publish(engine, ("refunded", number))
        engine.clock.advance(24 * HOUR)
    old.drain()
    new, seen = version(engine, "refunded")
    new.drain()
    since = from_ms(engine.clock.now_ms()) - timedelta(days=2, hours=1)
    assert catch_up(engine.outbox, GROUP, since=since, dry_run=True).records == 2
    catch_up(engine.outbox, GROUP, since=since, clock=engine.clock)
    new.drain()
    assert seen == [("refunded", 2, True), ("refunded", 3, True)]
    catch_up(engine.outbox, GROUP)
    new.drain()
    assert [value for _, value, _ in seen] == [2, 3, 0, 1]


def test_handlers_that_begin_with_the_latest_get_it_only_when_a_person_asks(engine: StoreEngine) -> None:
    old, _ = version(engine, "placed", start="latest")
    old.drain()
    publish(engine, ("refunded", 1))
    old.drain()
    new, seen = version(engine, "placed", "refunded", start="latest")
    new.drain()
    publish(engine, ("refunded", 2))
    new.drain()
    assert seen == [("refunded", 2, False)]
    catch_up(engine.outbox, GROUP)
    new.drain()
    assert seen[1:] == [("refunded", 1, True)]


def test_nothing_comes_late_by_itself_where_the_setting_is_zero(
    engine: StoreEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROCESSING_CATCH_UP", "0")
    old, _ = version(engine, "placed")
    publish(engine, ("refunded", 1))
    old.drain()
    new, seen = version(engine, "refunded")
    new.drain()
    assert seen == []
    assert [each.type for each in notes(engine)] == ["refunded"]


def test_a_type_without_a_handler_cannot_be_asked_for(engine: StoreEngine) -> None:
    old, _ = version(engine, "placed")
    publish(engine, ("refunded", 1))
    old.drain()
    store_filters(engine, ["events:placed"])
    for type in ("refunded", None):
        with pytest.raises(InvalidSelection, match="no handler for refunded: start a worker that has one"):
            catch_up(engine.outbox, GROUP, type=type)
    assert catch_up(engine.outbox, GROUP, type="placed").records == 0


def test_what_a_predicate_refuses_is_not_noted(engine: StoreEngine) -> None:
    outbox = engine.another()
    outbox.handler(lambda record: record.value == 1, group=GROUP, id="p")(lambda record: None)
    publish(engine, ("any", 1), ("any", 2))
    assert outbox.drain().delivered == 1
    assert notes(engine) == []


def test_a_late_record_that_fails_parks_what_is_late_of_its_key_and_nothing_else(engine: StoreEngine) -> None:
    old, _ = version(engine, "placed")
    publish(engine, ("refunded", 1), ("refunded", 2))
    old.drain()
    new, seen, broken = engine.another(), _Seen(), [True]

    def handle(record: Record) -> None:
        if record.late and broken:
            raise ValueError
        seen.append((record.type or "", record.value, record.late))

    new.handler(None, group=GROUP, id="all", retry=Fixed(HOUR, max_retries=3))(handle)
    publish(engine, ("placed", 3))
    new.drain()
    assert seen == [("placed", 3, False)]
    (lane,) = lanes(engine.outbox, key="k", clock=engine.clock).items
    assert (lane.key, lane.late, lane.waiting, lane.failures) == ("k", True, 2, 1)
    (answer,) = why(engine.outbox, "k", clock=engine.clock)
    assert answer.code is Code.PARKED
    broken.clear()
    engine.clock.advance(2 * HOUR)
    new.drain()
    assert seen[1:] == [("refunded", 1, True), ("refunded", 2, True)]
    assert lanes(engine.outbox).items == []


@pytest.mark.parametrize("transaction", [False, pytest.param(True, marks=sql_log_only)])
def test_a_deploy_that_is_taken_back_loses_nothing_that_waited(engine: StoreEngine, transaction: bool) -> None:
    """It comes late again, and what was tried before is marked."""
    old, _ = version(engine, "placed", transaction=transaction)
    publish(engine, ("refunded", 1), ("refunded", 2), ("refunded", 3))
    old.drain()
    broken, retry = engine.another(), Fixed(HOUR, max_retries=3)
    broken.handler("refunded", group=GROUP, id="refunded", retry=retry, transaction=transaction)(fail)
    assert broken.drain().retried == 1
    engine.clock.advance(2 * HOUR)
    assert old.drain().delivered == 0
    assert dead_letters(engine.outbox).items == []
    assert [(each.type, each.records, each.coming) for each in notes(engine)] == [("refunded", 3, True)]
    assert lanes(engine.outbox).items == []
    mended, marks = engine.another(), list[tuple[int, bool, bool]]()
    mended.handler("refunded", group=GROUP, id="refunded", transaction=transaction)(
        lambda record: marks.append((record.value, record.late, record.redelivered))
    )
    mended.drain()
    assert marks == [(1, True, True), (2, True, False), (3, True, False)]
    assert engine.count("note") == 0


def test_what_a_lost_owner_may_have_done_comes_marked_whoever_delivers_it(engine: StoreEngine) -> None:
    """Also if the one that made it an entry of a lane stops before its turn."""
    publish(engine, ("refunded", 1))
    engine.outbox.drain()
    work(an_owner(engine, GROUP, "lost", "refunded"))
    version(engine, "placed")[0].drain()
    owner = an_owner(engine, GROUP, "new", "refunded")
    stop(owner)
    assert (engine.count("note"), engine.count("lane_entry")) == (0, 1)
    new, marks = engine.another(), list[tuple[Any, bool, bool]]()
    new.handler("refunded", group=GROUP, id="r")(
        lambda record: marks.append((record.value, record.late, record.redelivered))
    )
    new.drain()
    assert marks == [(1, True, True)]


def test_a_mark_is_for_what_may_have_been_done_and_for_little_else(engine: StoreEngine) -> None:
    """A lost owner may live, and hand out a few more before it learns of its loss."""
    again = 1 + LEAST_AGAIN
    publish(engine, ("refunded", 1))
    engine.outbox.drain()
    work(an_owner(engine, GROUP, "lost", "refunded"))
    old, _ = version(engine, "placed")
    old.drain()
    for number in range(2, again + 3):
        publish(engine, ("refunded", number))
    old.drain()
    new, marks = engine.another(), list[tuple[Any, bool, bool]]()
    new.handler("refunded", group=GROUP, id="r")(
        lambda record: marks.append((record.value, record.late, record.redelivered))
    )
    new.drain()
    publish(engine, ("refunded", again + 3))
    new.drain()
    assert marks[0] == (1, True, True)
    assert marks[again:] == [(again + 1, True, False), (again + 2, True, False), (again + 3, False, False)]


def test_more_than_may_wait_at_once_comes_all(engine: StoreEngine) -> None:
    catch_up_many(engine)


@sql_log_only
def test_what_is_late_commits_with_its_handlers_work(engine: StoreEngine) -> None:
    catch_up_many(engine, transaction=True)


def catch_up_many(engine: StoreEngine, *, transaction: bool = False) -> None:
    """Pass over more than may wait at once, and let a handler come for it."""
    count = 2 * bounds.LATE_RECORDS + bounds.LATE_OFFSETS
    old, _ = version(engine, "placed", transaction=transaction)
    with engine.connect() as conn:
        for number in range(count):
            engine.outbox.publish(conn, "refunded" if number % 2 else "placed", number, key=str(number % 7))
        conn.commit()
    old.drain()
    new, seen = version(engine, "placed", "refunded", transaction=transaction)
    new.drain()
    assert sorted(value for _, value, late in seen if late) == list(range(1, count, 2))
    assert len(seen) == count // 2
    for key in range(7):
        mine = [value for _, value, _ in seen if value % 7 == key]
        assert mine == sorted(mine)


def test_a_key_that_is_held_does_not_hold_up_what_is_late_of_others(engine: StoreEngine) -> None:
    old, _ = version(engine, "placed")
    publish(engine, *(("refunded", number) for number in range(bounds.LATE_RECORDS + 20)), key="broken")
    publish(engine, ("refunded", "mine"))
    old.drain()
    new, seen = engine.another(), list[Any]()

    @new.handler("refunded", group=GROUP, id="r", retry=Fixed(HOUR, max_retries=0))
    def handle(record: Record) -> None:
        if record.key == "broken":
            raise ValueError
        seen.append(record.value)

    assert new.drain().dead == 1
    assert seen == ["mine"]
    assert (engine.count("note"), engine.count("lane_entry")) == (0, bounds.LATE_RECORDS + 19)


def test_what_is_late_leaves_room_for_live_records(engine: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of it waits behind one that failed."""
    monkeypatch.setattr(bounds, "ENTRIES_BOUND", bounds.LATE_RECORDS)
    old, _ = version(engine, "placed")
    publish(engine, *(("refunded", number) for number in range(3 * bounds.LATE_RECORDS)), key="broken")
    old.drain()
    new, seen = version(engine, "placed")
    new.handler("refunded", group=GROUP, id="r", retry=Fixed(HOUR, max_retries=9))(fail)
    for number in range(3):
        new.drain()
        publish(engine, ("placed", number))
        new.drain()
    assert [value for _, value, _ in seen] == [0, 1, 2]
    assert engine.count("lane_entry") == bounds.LATE_RECORDS


@pytest.mark.parametrize("forget", ["reset", "clear", "delete"])
def test_a_reset_a_cleared_topic_and_a_deleted_group_leave_no_notes(engine: StoreEngine, forget: str) -> None:
    old, _ = version(engine, "placed")
    publish(engine, ("refunded", 1))
    old.drain()
    assert engine.count("note") == 1
    acts: dict[str, Callable[[], object]] = {
        "reset": lambda: reset(engine.outbox, GROUP, topic="events", to="latest"),
        "clear": lambda: clear(engine.outbox, "events"),
        "delete": lambda: groups.delete(engine.outbox, GROUP),
    }
    acts[forget]()
    assert engine.count("note") == 0


def test_after_a_reset_to_the_beginning_everything_comes_in_its_order(engine: StoreEngine) -> None:
    old, _ = version(engine, "placed")
    publish(engine, ("refunded", 1), ("placed", 2))
    old.drain()
    reset(engine.outbox, GROUP, topic="events", to="earliest")
    new, seen = version(engine, "placed", "refunded")
    new.drain()
    assert seen == [("refunded", 1, False), ("placed", 2, False)]


def test_what_retention_has_deleted_does_not_come(engine: StoreEngine) -> None:
    old, _ = version(engine, "placed")
    publish(engine, ("refunded", 1), ("refunded", 2))
    old.drain()
    engine.outbox.log.trim(engine.outbox.log.topic("events"), [OffsetRange(0, 0, 1)])
    new, seen = version(engine, "refunded")
    new.drain()
    assert seen == [("refunded", 2, True)]
    assert notes(engine) == []


def fail(record: Record) -> None:
    raise ValueError


def test_it_is_counted_told_and_explained(engine: StoreEngine, caplog: pytest.LogCaptureFixture) -> None:
    metrics.PASSED_OVER.reset()
    old, _ = version(engine, "placed")
    publish(engine, ("refunded", 1), ("refunded", 2))
    old.drain()
    publish(engine, ("refunded", 3))
    old.drain()
    assert metrics.PASSED_OVER.values() == {(GROUP,): 3}
    told = [each.getMessage() for each in caplog.records if "no handler for" in each.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("group app has no handler for refunded on topic events: such records are passed")
    (noted,) = groups.show(engine.outbox, GROUP).passed_over
    assert noted == PassedOverType("events", "refunded", 3, 1, noted.first_at, coming=False)
    assert noted.first_at is not None
    store_filters(engine, ["events:placed"])
    (answer,) = why(engine.outbox, "k", clock=engine.clock)
    assert answer.code is Code.NO_HANDLER
    assert "none of its handlers (events:placed) takes the type refunded; it was passed over" in answer.sentence
    assert answer.commands == ("penstock worker MODULE:OUTBOX",)
    store_filters(engine, ["events:placed", "events:refunded"], ["events:placed"])
    (answer,) = why(engine.outbox, "k", clock=engine.clock)
    assert "the group had no handler for the type refunded when it passed it" in answer.sentence
    catch_up(engine.outbox, GROUP)
    new, _ = version(engine, "placed", "refunded")
    new.drain()
    (answer,) = why(engine.outbox, "k", clock=engine.clock)
    assert answer.code is Code.DELIVERED


def test_so_many_types_are_noted_and_no_more(engine: StoreEngine, caplog: pytest.LogCaptureFixture) -> None:
    old, _ = version(engine, "placed")
    publish(engine, *((f"t-{number:04}", number) for number in range(NOTED_TYPES + 5)))
    old.drain()
    assert len(notes(engine)) == NOTED_TYPES
    assert sum("no more are noted" in each.getMessage() for each in caplog.records) == 1


def test_a_record_without_a_type_is_noted_too(engine: StoreEngine) -> None:
    old, _ = version(engine, "placed")
    record = Record("id-1", "k", b"1", None, (), engine.clock.now_ms())
    engine.outbox.log.append("events", [record])
    old.drain()
    assert [each.type for each in notes(engine)] == [""]
    new, seen = engine.another(), list[str]()
    new.handler(None, group=GROUP, id="all")(lambda record: seen.append(record.id))
    new.drain()
    assert seen == ["id-1"]


# -- the rows, with one owner after the other


def a_store(engine: StoreEngine, owner: str, *types: str, within_ms: int = ALWAYS) -> GroupStore:
    """Return the rows of a group as a member sees them that has handlers for these types."""
    return GroupStore(
        engine.outbox.store,
        engine.clock,
        group=GROUP,
        topic=engine.outbox.log.topic("events"),
        owner=owner,
        catch_up=CatchUp(lambda type: type in types, within_ms),
    )


def settlement(owned: Owned) -> Settlement:
    found = owned.machine.settlement()
    assert found is not None
    return found


def test_what_was_not_passed_when_the_handler_came_is_not_late(engine: StoreEngine) -> None:
    """It is fed as any other record: to be delivered late, too, would be a second time."""
    engine.outbox.log.append("events", some_records(4), partition=0)
    old = a_store(engine, "old")
    (owned,) = old.take(lambda tx: ["old"]).values()
    owned.machine.feed(0, "k", wanted=True)  # out, and never settled
    for offset in (1, 3):
        owned.machine.feed(offset, f"k-{offset}", wanted=False, unhandled_type="x")
    assert old.settle({0: (owned, settlement(owned))}) == set()
    old.release([0])
    new = a_store(engine, "new", "x")
    (taken,) = new.take(lambda tx: ["new"]).values()
    (late,) = taken.late
    assert (late.first, late.until, late.holes) == (1, 4, frozenset())
    assert [offset for offset in range(5) if late.has("x", offset)] == [1, 2, 3]
    assert taken.machine.missing() == [0]


def test_a_hole_in_what_was_passed_over_is_remembered_by_the_next_owner(engine: StoreEngine) -> None:
    engine.outbox.log.append("events", some_records(4), partition=0)
    old = a_store(engine, "old")
    (owned,) = old.take(lambda tx: ["old"]).values()
    owned.machine.feed(0, "a", wanted=False, unhandled_type="x")
    owned.machine.feed(1, "b", wanted=True)  # of the same type, fed by a former version that had a handler
    owned.machine.feed(2, "c", wanted=False, unhandled_type="x")
    assert old.settle({0: (owned, settlement(owned))}) == set()
    old.release([0])
    new = a_store(engine, "new", "x")
    (first,) = new.take(lambda tx: ["new"]).values()
    first.machine.feed(1, "b", wanted=True)
    first.machine.take(0, 10)
    first.machine.finish(1, Passed())
    assert new.settle({0: (first, settlement(first))}) == set()
    new.release([0])
    (again,) = a_store(engine, "third", "x").take(lambda tx: ["third"]).values()
    (late,) = again.late
    assert [offset for offset in range(4) if late.has("x", offset)] == [0, 2]


def test_a_late_record_and_a_live_one_of_its_key_are_not_at_work_at_once(engine: StoreEngine) -> None:
    publish(engine, ("refunded", "late"))
    version(engine, "placed")[0].drain()
    publish(engine, ("refunded", "live"))
    engine.outbox.drain()
    owner, begun = an_owner(engine, GROUP, "one", "refunded"), []
    while tasks := owner.start(100, 100):
        begun.append([task.record.value for task in tasks])
        for task in tasks:
            owner.finish(task, Passed())
    assert begun == [["live"], ["late"]]


def test_what_was_done_above_a_hole_does_not_come_again(engine: StoreEngine) -> None:
    """A version stops with one record open below others that are done; the next one has no handler."""
    for number, key in enumerate("aabc"):
        publish(engine, ("refunded", number), key=key)
    engine.outbox.drain()
    owner = an_owner(engine, GROUP, "one", "refunded")
    assert [record.value for record in work(owner)] == [0, 2, 3]
    stop(owner)
    old, _ = version(engine, "placed")
    old.drain()
    assert [(each.records, each.coming) for each in notes(engine)] == [(1, False)]
    publish(engine, ("refunded", 4))
    old.drain()
    new, seen = version(engine, "refunded")
    new.drain()
    assert seen == [("refunded", 1, True), ("refunded", 4, True)]
    assert engine.count("note") == 0


def test_what_waits_for_a_retry_above_a_hole_stays_in_its_lane(engine: StoreEngine) -> None:
    for number, key in enumerate("aab"):
        publish(engine, ("refunded", number), key=key)
    engine.outbox.drain()
    owner, later = an_owner(engine, GROUP, "one", "refunded"), engine.clock.now_ms() + 60_000
    work(owner, lambda record: Parked(later, 1, "no") if record.value == 2 else Passed())
    stop(owner)
    version(engine, "placed")[0].drain()
    new, seen = version(engine, "refunded")
    new.drain()
    assert seen == [("refunded", 1, True)]
    engine.clock.advance(HOUR)
    new.drain()
    assert seen[1:] == [("refunded", 2, False)]
    assert (engine.count("lane"), engine.count("lane_entry"), engine.count("note")) == (0, 0, 0)


def test_a_hole_that_was_passed_over_long_ago_is_kept_for_a_person(engine: StoreEngine) -> None:
    for number, key in enumerate("aab"):
        publish(engine, ("refunded", number), key=key)
    engine.outbox.drain()
    owner = an_owner(engine, GROUP, "one", "refunded")
    work(owner)
    stop(owner)
    version(engine, "placed")[0].drain()
    engine.clock.advance(2 * HOUR)
    new, seen = version(engine, "refunded")
    new.drain()
    assert seen == []
    assert catch_up(engine.outbox, GROUP).records == 1
    new.drain()
    assert seen == [("refunded", 1, True)]
    assert engine.count("note") == 0


def test_a_hole_in_an_open_note_gets_no_second_one(engine: StoreEngine) -> None:
    """Who passed it over was refused, because the group's filter was about to change."""
    engine.outbox.log.append("events", some_records(3), partition=0)
    old = a_store(engine, "old")
    (owned,) = old.take(lambda tx: ["old"]).values()
    owned.machine.feed(0, "a", wanted=False, unhandled_type="x")
    assert old.settle({0: (owned, settlement(owned))}) == set()
    owned.filter_version -= 1
    owned.machine.feed(1, "a", wanted=False, unhandled_type="x")
    owned.machine.feed(2, "b", wanted=True)
    owned.machine.take(0, 10)
    owned.machine.finish(2, Passed())
    assert old.settle({0: (owned, settlement(owned))}) == set()
    old.release([0])
    (again,) = old.take(lambda tx: ["old"]).values()
    assert again.machine.missing() == [1]
    again.machine.feed(1, "a", wanted=False, unhandled_type="x")
    assert old.settle({0: (again, settlement(again))}) == set()
    assert engine.count("note") == 1
    old.release([0])
    (taken,) = a_store(engine, "new", "x").take(lambda tx: ["new"]).values()
    (late,) = taken.late
    assert [offset for offset in range(3) if late.has("x", offset)] == [0, 1, 2]


def test_a_hole_at_the_end_of_what_is_kept_becomes_one_of_its_records(engine: StoreEngine) -> None:
    """A note is named by its end, so that there cannot be two of them."""
    old, hour_ms = a_store(engine, "old"), HOUR // timedelta(milliseconds=1)
    log, old_ms = engine.outbox.log, engine.clock.now_ms()
    aged = [
        structs.replace(each, timestamp_ms=old_ms + 2 * hour_ms * (n > 1)) for n, each in enumerate(some_records(3))
    ]
    log.append("events", aged, partition=0)
    engine.clock.advance(2 * HOUR)
    (owned,) = old.take(lambda tx: ["old"]).values()
    owned.machine.feed(0, "a", wanted=False, unhandled_type="x")
    owned.machine.feed(1, "b", wanted=True)
    owned.machine.feed(2, "c", wanted=False, unhandled_type="x")
    assert old.settle({0: (owned, settlement(owned))}) == set()
    old.release([0])
    new = a_store(engine, "new", "x", within_ms=hour_ms)
    (taken,) = new.take(lambda tx: ["new"]).values()
    assert [(each.first, each.until) for each in taken.late] == [(2, 3)]
    new.release([0])
    (again,) = old.take(lambda tx: ["old"]).values()
    again.machine.feed(1, "b", wanted=False, unhandled_type="x")
    assert old.settle({0: (again, settlement(again))}) == set()
    old.release([0])
    catch_up(engine.outbox, GROUP, type="x")
    (all_of_it,) = new.take(lambda tx: ["new"]).values()
    assert [n for n in range(3) if any(each.has("x", n) for each in all_of_it.late)] == [0, 1, 2]


def test_a_late_record_is_written_with_its_note_or_not_at_all(engine: StoreEngine) -> None:
    engine.outbox.log.append("events", some_records(3), partition=0)
    old = a_store(engine, "old")
    (owned,) = old.take(lambda tx: ["old"]).values()
    for offset in range(3):
        owned.machine.feed(offset, "k", wanted=False, unhandled_type="x")
    assert old.settle({0: (owned, settlement(owned))}) == set()
    old.release([0])
    slow = a_store(engine, "slow", "x")
    (lost,) = slow.take(lambda tx: ["slow"]).values()
    lost.machine.deliver_late([(0, "k")], [_move(lost, 1)])
    assert lost.machine.take(0, 10) == []  # nothing goes out before it is written
    never = settlement(lost)
    quick = a_store(engine, "quick", "x")
    (owner,) = quick.take(lambda tx: ["quick"]).values()
    assert [(each.first, each.until) for each in owner.late] == [(0, 3)]
    assert slow.settle({0: (lost, never)}) == {0}
    owner.machine.deliver_late([(0, "k"), (1, "k")], [_move(owner, 2)])
    assert quick.settle({0: (owner, settlement(owner))}) == set()
    assert [each.offset for each in owner.machine.take(0, 10, 10)] == [0, 1]
    heir = a_store(engine, "heir", "x")
    (after,) = heir.take(lambda tx: ["heir"]).values()
    assert [(each.first, each.until) for each in after.late] == [(2, 3)]
    assert [each.offset for each in after.machine.take(0, 10, 10)] == [0, 1]
    assert after.machine.late_count == 2


def _move(owned: Owned, to: int) -> LateMove:
    (late,) = owned.late
    return LateMove(late.type, late.until, to)
