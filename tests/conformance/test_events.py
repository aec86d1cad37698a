"""Events by state, on every engine: pages of each, and what is deleted before a moment and what is not."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

import pytest

from penstock.clock import from_ms
from penstock.database.database import Database
from penstock.errors import (
    InvalidPage,
    InvalidSelection,
    InvalidTime,
    OffsetOutOfRange,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
)
from penstock.log.store import store_of
from penstock.model.record import display_name
from penstock.model.retry import Fixed
from penstock.operate import groups, reset
from penstock.operate.audit import audit
from penstock.operate.events import Event, EventState, EventWord, delete, events
from penstock.operate.records import delete_done, delete_records
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists, sql_log_only  # noqa: F401 - the fixture `kind`
from tests.suites.handling_suite import Seen, publish_values, subscribe

HOUR = timedelta(hours=1)
NEVER, LATER = Fixed(HOUR, max_retries=0), Fixed(HOUR, max_retries=3)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own, with a topic of two partitions."""
    engine.outbox.log.create_topic("events", partitions=2)
    opened = engine.database()
    yield opened
    opened.close()


def now(engine: StoreEngine) -> datetime:
    """Return the test's time."""
    return from_ms(engine.clock.now_ms())


def listed(database: Database, state: EventState | EventWord, limit: int = 1000, **said: str) -> list[Event]:
    """Return all events in a state, page by page."""
    found, after = list[Event](), None
    while True:
        page = events(database, state, after=after, limit=limit, **said)
        assert len(page.items) == limit or page.after is None
        assert page.after is None or page.after != after, "a page goes on"
        found, after = found + page.items, page.after
        if after is None:
            return found


def by_state(database: Database) -> dict[str, int]:
    """Return how many events are in each state, of those that have any."""
    counted = {state.value: len(listed(database, state)) for state in EventState}
    return {state: count for state, count in counted.items() if count}


def mixed(engine: StoreEngine) -> None:
    """Have events in every state: of a parked key one waits twice, of a dead one the other goes on."""
    outbox = engine.outbox
    subscribe(outbox, "parks", Seen(2), retry=LATER)
    subscribe(outbox, "gives-up", Seen(5), retry=NEVER, on_exhausted="release")
    publish_values(engine, 1, 2, 3, key="a")
    publish_values(engine, 4, 5, 6, key="b")
    outbox.drain()
    groups.pause(outbox, "parks")
    publish_values(engine, 7, 8, key="c")
    outbox.drain()
    with engine.connect() as conn:
        outbox.publish(conn, "t", 9, key="d", at=HOUR)
        outbox.publish(conn, "t", 10, key="d", at=2 * HOUR, topic="other")
        outbox.publish(conn, "t", 11, key="d")
        conn.commit()


def test_each_event_is_in_its_state(engine: StoreEngine, database: Database) -> None:
    mixed(engine)
    assert by_state(database) == {"scheduled": 2, "staged": 1, "pending": 2, "waiting": 2, "done": 3, "dead": 1}
    assert [each.key for each in listed(database, "done")].count("b") == 2
    assert {each.key for each in listed(database, "pending")} == {"c"}
    waiting = listed(database, "waiting")
    assert [(each.key, each.group) for each in waiting] == [("a", "parks")] * 2
    assert [(each.key, each.group) for each in listed(database, "dead")] == [("b", "gives-up")]


@sql_log_only  # the view shows what tables hold
def test_an_event_has_the_name_that_the_view_gives_it(engine: StoreEngine, database: Database) -> None:
    mixed(engine)
    with engine.connect() as conn:
        cursor = conn.execute("SELECT id, name FROM penstock_events")
        names = dict(cursor.fetchall())
    for state in EventState:
        for each in listed(database, state):
            assert each.name == names[each.id]


def test_an_event_says_where_it_is(engine: StoreEngine, database: Database) -> None:
    mixed(engine)
    for state in EventState:
        for each in listed(database, state):
            assert each.state == state.value
    record = listed(database, "pending")[0]
    assert record.partition is not None
    assert record.offset is not None
    (stored,) = engine.outbox.log.read("events", record.partition, record.offset, limit=1)
    assert (stored.id, stored.key, stored.type) == (record.id, record.key, record.type)
    assert record.at == stored.timestamp


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_pages_of_every_state_join_without_gap_or_overlap(limit: int, engine: StoreEngine, database: Database) -> None:
    mixed(engine)
    for state in EventState:
        assert listed(database, state, limit) == listed(database, state)


def test_a_listing_is_narrowed_by_topic_and_group(engine: StoreEngine, database: Database) -> None:
    mixed(engine)
    engine.outbox.log.create_topic("other", partitions=1)
    for state in EventState:
        of_other = 1 if state is EventState.SCHEDULED else 0
        assert len(listed(database, state, topic="other")) == of_other
        assert len(listed(database, state, topic="events")) == len(listed(database, state)) - of_other
    assert len(listed(database, "waiting", group="parks")) == 2
    assert listed(database, "waiting", group="gives-up") == listed(database, "dead", group="parks") == []


def test_a_listing_that_cannot_be_is_refused(database: Database) -> None:
    with pytest.raises(InvalidSelection, match="state 'gone'; the states are scheduled, staged"):
        events(database, cast(Any, "gone"))
    ungrouped: tuple[EventWord, ...] = ("scheduled", "staged", "pending", "done")
    for each in ungrouped:
        with pytest.raises(InvalidSelection, match=f"{each} events belong to no group"):
            events(database, each, group="g")
    for state in EventState:
        for limit in (0, -1, 1001):
            with pytest.raises(InvalidPage, match="the limit"):
                events(database, state, limit=limit)
        with pytest.raises(InvalidPage, match="the place to go on from"):
            events(database, state, after="WzFd")
    in_a_topic: tuple[EventWord, ...] = ("pending", "waiting", "done", "dead")
    for each in in_a_topic:
        with pytest.raises(UnknownTopic):
            events(database, each, topic="nowhere")
    with pytest.raises(UnknownGroup):
        events(database, "waiting", group="nobody")


# --- deleting a state before a moment ------------------------------------------------------------


@pytest.mark.parametrize("state", [EventState.STAGED, EventState.PENDING, EventState.WAITING])
def test_what_is_yet_to_be_delivered_is_not_deleted_by_its_time(
    state: EventState, engine: StoreEngine, database: Database
) -> None:
    """Pending is refused."""
    mixed(engine)
    before = by_state(database)
    for dry_run in (True, False):
        with pytest.raises(InvalidSelection, match=f"{state.value} events are yet to be delivered"):
            delete(database, state, now(engine) + 99 * HOUR, dry_run=dry_run, clock=engine.clock)
    assert by_state(database) == before


def test_what_is_done_is_deleted_and_nothing_else(engine: StoreEngine, database: Database) -> None:
    """The oldest of each partition: up to the place of the slowest group. What waits is copied before."""
    mixed(engine)
    before = by_state(database)
    later = now(engine) + HOUR
    would = delete(database, "done", later, dry_run=True, clock=engine.clock)
    assert by_state(database) == before
    assert delete(database, "done", later, clock=engine.clock, actor="anna") == would == 6
    del before["done"]
    assert by_state(database) == before
    assert delete(database, "done", later, clock=engine.clock) == 0
    (entry,) = audit(database, action="events delete").items
    assert (entry.actor, entry.count, entry.subject["state"]) == ("anna", 6, "done")


def test_only_what_was_published_before_the_moment_goes(engine: StoreEngine, database: Database) -> None:
    subscribe(engine.outbox, "g", Seen())
    publish_values(engine, 1, 2, key="a")
    middle = now(engine)
    engine.clock.advance(HOUR)
    publish_values(engine, 3, key="a")
    engine.outbox.drain()
    assert delete(database, "done", middle, clock=engine.clock) == 0, "the moment itself is not before it"
    assert delete(database, "done", middle + timedelta(milliseconds=1), clock=engine.clock) == 2
    assert len(listed(database, "done")) == 1


def test_a_group_that_was_gone_for_long_still_holds_what_it_has_yet_to_pass(
    engine: StoreEngine, database: Database
) -> None:
    """Retention would no longer wait for it; a person who deletes what is done means what is done."""
    subscribe(engine.outbox, "g", Seen())
    publish_values(engine, 1, key="a")
    engine.outbox.drain()
    groups.pause(database, "g")
    publish_values(engine, 2, key="a")
    engine.outbox.drain()
    engine.clock.advance(timedelta(days=400))
    assert delete(database, "done", now(engine), clock=engine.clock) == 1
    assert by_state(database) == {"pending": 1}


def test_what_no_group_reads_is_pending(engine: StoreEngine, database: Database) -> None:
    publish_values(engine, 1, key="a")
    engine.outbox.drain()
    assert by_state(database) == {"pending": 1}
    assert delete(database, "done", now(engine) + HOUR, clock=engine.clock) == 0
    assert by_state(database) == {"pending": 1}


def test_scheduled_and_dead_before_a_moment(engine: StoreEngine, database: Database) -> None:
    mixed(engine)
    act = partial(delete, database, clock=engine.clock)
    assert act("scheduled", now(engine) + HOUR) == 0
    assert act("scheduled", now(engine) + 3 * HOUR, topic="events", dry_run=True) == 1
    assert act("scheduled", now(engine) + 3 * HOUR) == 2
    assert act("dead", now(engine)) == 0, "it died at this moment"
    assert act("dead", now(engine) + HOUR, group="parks") == 0
    assert act("dead", now(engine) + HOUR, dry_run=True) == act("dead", now(engine) + HOUR) == 1
    assert set(by_state(database)) == {"staged", "pending", "waiting", "done"}
    with pytest.raises(InvalidTime):
        act("done", datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidSelection, match="belong to no group"):
        act("done", now(engine), group="parks")
    with pytest.raises(UnknownTopic):
        act("done", now(engine), topic="nowhere")


def test_dead_before_a_moment_in_a_store_that_a_pipeline_reads(engine: StoreEngine, database: Database) -> None:
    mixed(engine)
    log = store_of(database).log
    log.hold("lake", log.topic("events"), {0: 0})
    assert delete(database, "dead", now(engine) + HOUR, clock=engine.clock) == 1


def test_more_than_a_pass_is_deleted_to_the_end(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_RETENTION_BATCH_SIZE", "3")
    monkeypatch.setenv("PENSTOCK_RETENTION_BATCHES_PER_PASS", "2")
    subscribe(engine.outbox, "g", Seen())
    for key in ("a", "b", "c"):
        publish_values(engine, *range(7), key=key)
    engine.outbox.drain()
    done = delete_done(database, now(engine) + HOUR, clock=engine.clock)
    assert done.deleted == {"events": 21}
    assert by_state(database) == {}


# --- deleting below an offset --------------------------------------------------------------------


def test_records_below_an_offset_are_deleted(engine: StoreEngine, database: Database) -> None:
    subscribe(engine.outbox, "g", Seen())
    publish_values(engine, *range(5), key="a")
    engine.outbox.drain()
    (partition,) = {each.partition for each in listed(database, "done")}
    assert partition is not None
    assert delete_records(database, "events", partition, 3, clock=engine.clock, actor="anna") == 3
    assert engine.outbox.log.bounds("events", partition) == (3, 5)
    assert [record.value for record in engine.outbox.log.read("events", partition, 3)] == [3, 4]
    (entry,) = audit(database, action="records delete").items
    assert (entry.count, entry.subject) == (3, {"topic": "events", "partition": partition, "before": 3})


def test_bounds_that_hold_nothing_are_refused(engine: StoreEngine, database: Database) -> None:
    """Empty and inverted ranges, and those beyond what there is."""
    subscribe(engine.outbox, "g", Seen())
    publish_values(engine, *range(5), key="a")
    engine.outbox.drain()
    (partition,) = {each.partition for each in listed(database, "done")}
    assert partition is not None
    act = partial(delete_records, database, "events", clock=engine.clock)
    with pytest.raises(InvalidSelection, match="begins at 0: there is nothing below 0"):
        act(partition, 0)
    act(partition, 3)
    for nothing in (3, 2, 0):
        with pytest.raises(InvalidSelection, match=f"begins at 3: there is nothing below {nothing}"):
            act(partition, nothing)
    for beyond in (-1, 6):
        with pytest.raises(OffsetOutOfRange):
            act(partition, beyond)
    with pytest.raises(UnknownPartition):
        act(2, 1)
    with pytest.raises(UnknownTopic):
        delete_records(database, "nowhere", 0, 1)
    assert engine.outbox.log.bounds("events", partition) == (3, 5)


def test_what_a_group_has_yet_to_pass_is_deleted_by_force_only(engine: StoreEngine, database: Database) -> None:
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish_values(engine, *range(5), key="a")
    engine.outbox.drain()
    (partition,) = {each.partition for each in listed(database, "done")}
    assert partition is not None
    reset.reset(database, "g", topic="events", to=2, partition=partition, clock=engine.clock)
    with pytest.raises(InvalidSelection, match=r"group g is at 2 of events/. and has not passed 4"):
        delete_records(database, "events", partition, 4, clock=engine.clock)
    assert engine.outbox.log.bounds("events", partition) == (0, 5), "nothing is deleted"
    assert delete_records(database, "events", partition, 2, clock=engine.clock) == 2
    assert delete_records(database, "events", partition, 4, force=True, clock=engine.clock) == 2
    seen.clear()
    engine.outbox.drain()
    assert seen.values() == [4]


def test_many_records_go_in_batches(engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.operate.records.BATCH", 2)
    subscribe(engine.outbox, "g", Seen())
    publish_values(engine, *range(5), key="a")
    engine.outbox.drain()
    (partition,) = {each.partition for each in listed(database, "done")}
    assert partition is not None
    assert delete_records(database, "events", partition, 5, clock=engine.clock) == 5
    assert [entry.count for entry in audit(database, action="records delete").items] == [1, 2, 2]


def test_the_name_of_an_event() -> None:
    assert display_name("order.placed", 7, 5, "x") == "event:order.placed:0007:0000000000005:x"
    assert display_name("t", None, 1794807244610, "x") == "event:t:-:1794807244610:x"
    assert display_name("t", 9999, 253402300799999, "x") == "event:t:9999:253402300799999:x"
