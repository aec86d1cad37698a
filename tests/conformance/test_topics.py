"""Topics, on every engine: what is told of them, and creating, keeping, clearing and deleting them."""

import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import pytest

from penstock.clock import SYSTEM
from penstock.database.contract import Rows
from penstock.database.database import Database
from penstock.errors import (
    InvalidPage,
    InvalidPartitions,
    InvalidRetention,
    InvalidSelection,
    InvalidTopic,
    PartitionsDiffer,
    TopicBusy,
    UnknownTopic,
)
from penstock.membership.serving import Domain
from penstock.model.retry import Fixed
from penstock.operate import audit as audits
from penstock.operate import groups, topics
from penstock.operate.audit import audit
from penstock.operate.clear import Cleared, clear
from penstock.operate.operation import group_id
from penstock.operate.topics import UNLIMITED, TopicShown
from tests.conformance.engines import StoreEngine, connect, counting, lock_waits
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.outbox_suite import in_one_partition
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")
NEVER = Fixed(timedelta(seconds=1), max_retries=0)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


def count(engine: StoreEngine, *tables: str) -> list[int]:
    """Return how many rows tables have."""
    return [engine.count(table) for table in tables]


STATES = ("staged", "scheduled", "log", "lane", "lane_entry", "dead")


# --- what is told ------------------------------------------------------------------------------


def test_topics_are_paged_by_name_with_their_records_and_readers(engine: StoreEngine, database: Database) -> None:
    for number in range(5):
        engine.outbox.log.create_topic(f"t-{number}", partitions=number + 1)
    subscribe(engine.outbox, "b", Seen(), topic="t-3")
    subscribe(engine.outbox, "a", Seen(), topic="t-3", id="other")
    with engine.connect() as conn:
        for value in range(6):
            engine.outbox.publish(conn, "t", value, topic="t-3", key=str(value))
        conn.commit()
    engine.outbox.drain()
    for limit in (1, 2, 4, 5, 6):
        found, after, pages = list[Any](), None, 0
        while pages == 0 or after is not None:
            page = topics.topics(database, limit=limit, after=after)
            found, after, pages = found + page.items, page.after, pages + 1
        assert [each.name for each in found] == [f"t-{number}" for number in range(5)]
        assert pages == -(-5 // limit)
    assert [(each.partitions, each.records, each.groups) for each in found[2:4]] == [(3, 0, ()), (4, 6, ("a", "b"))]
    assert topics.show(database, "t-3") == found[3]
    assert topics.size_bytes(database, "t-3") > 0
    first = topics.partitions(database, "t-3", limit=3)
    rest = topics.partitions(database, "t-3", limit=3, after=first.after)
    assert [each.partition for each in (*first.items, *rest.items)] == [0, 1, 2, 3]
    assert sum(each.end - each.start for each in (*first.items, *rest.items)) == 6
    for refused in ({"limit": 0}, {"limit": 1001}, {"after": "WzFd"}, {"after": "!"}):
        with pytest.raises(InvalidPage):
            topics.topics(database, **refused)
    for name, error in (("nowhere", UnknownTopic), ("no topic", InvalidTopic)):
        for look in (topics.show, topics.partitions, topics.size_bytes):
            with pytest.raises(error):
                look(database, name)


# --- creating and keeping ----------------------------------------------------------------------


def test_a_topic_is_created_once(engine: StoreEngine, database: Database) -> None:
    assert topics.create(database, "orders", partitions=4)
    assert not topics.create(database, "orders", partitions=4)
    assert topics.show(database, "orders").partitions == 4
    with pytest.raises(PartitionsDiffer):
        topics.create(database, "orders", partitions=5)
    with pytest.raises(InvalidPartitions):
        topics.create(database, "more", partitions=0)
    with pytest.raises(InvalidTopic):
        topics.create(database, "no topic")
    (entry,) = audit(database).items
    assert (entry.action, entry.subject) == ("topic create", {"topic": "orders", "partitions": 4})


def test_what_is_kept_of_a_topic_is_said_in_parts(engine: StoreEngine, database: Database) -> None:
    topics.create(database, "t", partitions=1)

    def kept() -> tuple[int | None, ...]:
        shown = topics.show(database, "t")
        return shown.retention_ms, shown.retention_bytes, shown.retention_records

    assert kept() == (None, None, None)
    topics.set_retention(database, "t", age=timedelta(days=30))
    topics.set_retention(database, "t", max_bytes=10**10, max_records=5)
    assert kept() == (30 * 86_400_000, 10**10, 5)
    topics.set_retention(database, "t", age=timedelta(0), max_records=UNLIMITED)
    assert kept() == (0, 10**10, UNLIMITED)
    topics.set_retention(database, "t", age=UNLIMITED)
    assert kept() == (UNLIMITED, 10**10, UNLIMITED)
    topics.set_retention(database, "t", default=True)
    assert kept() == (None, None, None)
    assert [each.action for each in audit(database).items][:5] == ["topic set"] * 5


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)  # SQLite has one writer at a time
def test_two_people_who_set_different_limits_at_once_both_succeed(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics.create(database, "t", partitions=1)
    write, others = audits.write, list[Future[TopicShown]]()

    def write_slowly(*args: Any, **options: Any) -> None:
        if not others:
            others.append(pool.submit(topics.set_retention, database, "t", max_records=5))
            wait_until(lambda: lock_waits(engine), "the second waits for the first")
        write(*args, **options)

    monkeypatch.setattr(audits, "write", write_slowly)
    with ThreadPoolExecutor(1) as pool:
        topics.set_retention(database, "t", max_bytes=7)
        found = others[0].result()
    assert (found.retention_bytes, found.retention_records) == (7, 5)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, InvalidSelection),
        ({"default": True, "max_records": 5}, InvalidSelection),
        ({"age": timedelta(seconds=-1)}, InvalidRetention),
        ({"age": 5}, InvalidRetention),
        ({"max_bytes": 0}, InvalidRetention),
        ({"max_bytes": -2}, InvalidRetention),
        ({"max_bytes": 1 << 63}, InvalidRetention),
        ({"max_records": 0}, InvalidRetention),
    ],
)
def test_a_retention_that_cannot_be_is_refused(
    engine: StoreEngine, database: Database, given: dict[str, Any], error: type[Exception]
) -> None:
    topics.create(database, "t", partitions=1)
    before = topics.show(database, "t")
    with pytest.raises(error):
        topics.set_retention(database, "t", **given)
    assert topics.show(database, "t") == before
    with pytest.raises(UnknownTopic):
        topics.set_retention(database, "nowhere", default=True)


# --- clearing ----------------------------------------------------------------------------------


def in_every_state(engine: StoreEngine) -> Seen:
    """Leave something of the topic in every state: staged, scheduled, logged, waiting, dead."""
    in_one_partition(engine)
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=NEVER)
    publish_values(engine, 1, 2, 3)
    publish_values(engine, 4, key="other")
    engine.outbox.drain()
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 5, key="k")
        engine.outbox.publish(conn, "t", 6, key="k", at=timedelta(hours=1))
        conn.commit()
    assert all(count(engine, *STATES))
    return seen


def test_a_cleared_topic_has_nothing_in_any_state(engine: StoreEngine, database: Database) -> None:
    seen = in_every_state(engine)
    told = clear(database, "events", dry_run=True, clock=engine.clock)
    assert told == Cleared(staged=1, scheduled=1, records=4, lanes=1, dead=1)
    assert all(count(engine, *STATES))
    assert clear(database, "events", clock=engine.clock) == told
    assert count(engine, *STATES) == [0] * len(STATES)
    assert topics.show(database, "events").records == 0
    (group,) = groups.groups(database, clock=engine.clock).items
    assert (group.lag, group.held, group.dead) == (0, 0, 0)
    (entry,) = audit(database).items
    assert (entry.action, entry.subject, entry.count) == ("topic clear", {"topic": "events"}, 6)
    seen.failing.clear()
    seen.clear()
    engine.clock.advance(timedelta(hours=2))
    publish_values(engine, 7)
    engine.outbox.drain()
    assert [(record.value, record.offset) for record in seen] == [(7, 4)], "an offset is given once"
    assert engine.outbox.log.bounds("events", 0) == (4, 5)


def test_a_group_that_was_behind_goes_on_at_the_end(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish_values(engine, 1)
    engine.outbox.drain()
    groups.pause(database, "g", clock=engine.clock)
    publish_values(engine, 2, 3)
    engine.outbox.drain()
    (before,) = groups.partitions(database, "g").items
    clear(database, "events", clock=engine.clock)
    (cursor,) = groups.partitions(database, "g").items
    assert (before.lag, cursor.lag, cursor.offset, cursor.epoch) == (2, 0, 3, before.epoch + 1)
    groups.resume(database, "g", clock=engine.clock)
    publish_values(engine, 4)
    engine.outbox.drain()
    assert seen.values() == [1, 4]


def test_clearing_leaves_other_topics_alone(engine: StoreEngine, database: Database) -> None:
    in_every_state(engine)
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 1, topic="other")
        engine.outbox.publish(conn, "t", 1, topic="other", at=timedelta(hours=1))
        conn.commit()
    clear(database, "events", clock=engine.clock)
    assert count(engine, "staged", "scheduled") == [1, 1]
    with pytest.raises(UnknownTopic):
        clear(database, "nowhere")


def test_what_was_out_while_a_topic_was_cleared_counts_for_nothing(engine: StoreEngine, database: Database) -> None:
    """The worker that had it, and perhaps a run of the same key, goes on with what comes after.

    Results of a trickle wait a moment for others, so it may learn of the clearing only after the next record
    was handled: that one comes again then, and says so.
    """
    outbox, seen, marks = engine.another(SYSTEM), list[int](), list[bool]()
    engine.outbox.log.create_topic("events", partitions=4)
    begun, go_on = Barrier(2), Barrier(2)

    def handle(record: Any) -> None:
        if record.value == 0:
            begun.wait(60)
            go_on.wait(60)
        seen.append(record.value)
        if record.value == 3:
            marks.append(record.redelivered)

    subscribe(outbox, "g", handle)
    publish_values(engine, 0, 1, 2, key="k")
    with working(outbox):
        begun.wait(60)
        clear(database, "events")
        go_on.wait(60)
        publish_values(engine, 3, key="k")
        wait_until(lambda: 3 in seen and groups.groups(database).items[0].lag == 0, "it goes on")
    assert seen[-1] == 3
    assert all(marks[1:])
    assert engine.outbox.log.bounds("events", 1) == (3, 4)
    (group,) = groups.groups(database).items
    assert group.lag == 0


def test_clearing_beside_a_publisher_and_a_worker_breaks_nothing(engine: StoreEngine, database: Database) -> None:
    """What is not taken away is handled, and nothing is left over."""
    outbox, seen = engine.another(SYSTEM), Seen()
    engine.outbox.log.create_topic("events", partitions=4)
    subscribe(outbox, "g", seen)

    def publish() -> None:
        for value in range(40):
            with engine.connect() as conn:
                for key in "abc":
                    engine.outbox.publish(conn, "t", value, key=key)
                conn.commit()

    with working(outbox):
        publisher = Thread(target=publish)
        publisher.start()
        for _ in range(4):
            clear(database, "events")
        publisher.join(60)
        for key in "abc":
            publish_values(engine, 99, key=key)
        last = {(key, 99) for key in "abc"}
        wait_until(lambda: last <= {(each.key, each.value) for each in list(seen)}, "each key goes on")
    outbox.drain()  # results that were refused since the topic was cleared: those records come again, marked
    before = set[tuple[str | None, Any]]()
    for each in seen:
        assert each.redelivered or (each.key, each.value) not in before, each
        before.add((each.key, each.value))
    came = {(record.key, record.value) for record in seen}
    for number in range(4):
        start, _ = engine.outbox.log.bounds("events", number)
        kept = engine.outbox.log.read("events", number, start)
        assert {(record.key, record.value) for record in kept} <= came
    (group,) = groups.groups(database).items
    assert (group.lag, group.waiting, group.dead) == (0, 0, 0)


# --- deleting ----------------------------------------------------------------------------------


def test_a_deleted_topic_is_gone_with_all_that_groups_had_of_it(engine: StoreEngine, database: Database) -> None:
    in_every_state(engine)
    assert topics.delete(database, "events", clock=engine.clock) == 4
    assert count(engine, "log", "lane", "lane_entry", "dead", "cursor", "head") == [0] * 6
    with pytest.raises(UnknownTopic):
        topics.delete(database, "events")
    (entry,) = audit(database).items
    assert (entry.action, entry.count) == ("topic delete", 4)


def test_a_topic_that_is_served_is_deleted_by_force_only(engine: StoreEngine, database: Database) -> None:
    outbox, seen = engine.another(SYSTEM), Seen()
    subscribe(outbox, "g", seen)
    publish_values(engine, 1)
    with working(outbox):
        wait_until(lambda: len(seen) == 1, "it is served")
        with pytest.raises(TopicBusy, match="topic events is served by 1 members"):
            topics.delete(database, "events")
        assert topics.delete(database, "events", force=True) == 1


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)  # SQLite has one writer at a time
def test_deleting_beside_clearing_takes_locks_in_one_order(
    engine: StoreEngine, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Both go to their end in one attempt: neither waits for what the other holds."""
    in_every_state(engine)
    shared = [Domain(group_id(engine.outbox.store, "g"), engine.outbox.log.topic("events").id).name]
    database.run(lambda tx: tx.change("membership", "domains_create", domains=Rows(name=shared)))
    caplog.set_level(logging.DEBUG, "penstock.database")
    person = connect(engine.url)
    person.execute("SELECT 1 FROM penstock_lane FOR UPDATE")
    with ThreadPoolExecutor(2) as pool:
        deleting = pool.submit(topics.delete, database, "events", clock=engine.clock)
        wait_until(lambda: lock_waits(engine) == 1, "the deletion waits for a lane")
        clearing = pool.submit(clear, database, "events", clock=engine.clock)
        wait_until(lambda: lock_waits(engine) == 2, "the clearing waits for the deletion")
        person.close()
        assert deleting.result() == 4
        with pytest.raises(UnknownTopic):
            clearing.result()
    assert not [each for each in caplog.messages if "runs again" in each]


def test_a_page_of_topics_asks_as_much_for_many_as_for_few(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = counting(database, monkeypatch)
    asked = []
    for most in (2, 12):
        for n in range(most):
            topics.create(database, f"t-{n:02}", partitions=2)
        executed.clear()
        assert len(topics.topics(database).items) == most
        asked.append(len(executed))
    assert asked[0] == asked[1]
