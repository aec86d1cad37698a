"""Retention on every engine: what goes, what holds it back, and that nothing which waits is lost with it."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from penstock import metrics, points
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.delivery import retention as retention_module
from penstock.delivery.retention import AFTER_BATCH, Retention, Trimmed
from penstock.delivery.retention_rule import RetentionSettings
from penstock.delivery.retention_trim import trim
from penstock.errors import OffsetOutOfRange, UnknownTopic
from penstock.log.contract import OffsetRange
from penstock.log.files.log import FileLog
from penstock.log.store import store_of
from penstock.membership.member import ClusterSettings, Member
from penstock.model.retry import Fixed
from penstock.operate import dead
from penstock.operate.dead import DeadSelection, LetterOutcome
from penstock.operate.doctor import PartState
from penstock.operate.lanes import lanes
from penstock.operate.reconcile import reconcile
from penstock.operate.retention import examine_groups, planned, retain
from penstock.worker.retention import RetentionService
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import kind_or_lists, sql_log_only  # noqa: F401 - the fixture `kind`
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.outbox_suite import in_one_partition
from tests.suites.records import a_record

DAY = timedelta(days=1)
WEEK = 7 * DAY
SOON = timedelta(seconds=1)
Retain = Callable[..., dict[str, int]]


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of retention's own."""
    opened = engine.database()
    yield opened
    opened.close()


@pytest.fixture
def trimmed(engine: StoreEngine, database: Database) -> Retain:
    """Give a way to delete all that may go, in the engine's time."""
    return lambda topic=None: retain(database, topic, clock=engine.clock).deleted


def keep(engine: StoreEngine, **limits: int) -> None:
    """Say what the topics keep."""
    for topic in engine.outbox.log.topics():
        engine.outbox.log.retain(topic, topic.keep._replace(**limits))


def rows(engine: StoreEngine, query: str) -> list[tuple[Any, ...]]:
    with engine.connect() as conn:
        found = conn.execute(query).fetchall()
        conn.commit()
    return [tuple(row) for row in found]


def delivered(engine: StoreEngine, *values: int, failing: tuple[int, ...] = (), **options: Any) -> Seen:
    """Publish numbers under one key and hand them to a group."""
    seen = Seen(*failing)
    subscribe(engine.outbox, "g", seen, **{"retry": Fixed(SOON, max_retries=1)} | options)
    publish_values(engine, *values)
    engine.outbox.drain()
    return seen


def healed(engine: StoreEngine, seen: Seen) -> list[int]:
    """Drain, some time later, with nothing failing any more, and return what came."""
    seen.failing.clear()
    seen.clear()
    engine.clock.advance(timedelta(minutes=1))
    engine.outbox.drain()
    return seen.values()


# --- what goes ---------------------------------------------------------------------------------


def test_what_is_too_old_goes_and_the_rest_stays(engine: StoreEngine, trimmed: Retain) -> None:
    in_one_partition(engine)
    delivered(engine, 1, 2, 3)
    engine.clock.advance(WEEK - DAY)
    publish_values(engine, 4, 5)
    engine.outbox.drain()
    assert trimmed() == {}
    engine.clock.advance(DAY + SOON)
    before = metrics.TRIMMED.values().get(("events",), 0)
    assert trimmed() == {"events": 3}
    assert metrics.TRIMMED.values()["events",] == before + 3
    assert engine.outbox.log.bounds("events", 0) == (3, 5)
    assert [each.value for each in engine.outbox.log.read("events", 0, 3)] == [4, 5]
    with pytest.raises(OffsetOutOfRange):
        engine.outbox.log.read("events", 0, 2)
    assert trimmed() == {}


def test_a_late_record_keeps_what_comes_after_it(engine: StoreEngine, trimmed: Retain) -> None:
    """Offsets go in order: what is old but stands behind something young waits for it."""
    in_one_partition(engine)
    delivered(engine, 1)
    engine.clock.advance(DAY)
    delivered_late = engine.clock.now_ms()
    publish_values(engine, 2)
    engine.outbox.drain()
    engine.outbox.log.append("events", [a_record("k", timestamp_ms=delivered_late - 10**8)])
    engine.outbox.drain()
    engine.clock.advance(WEEK - DAY + SOON)
    assert trimmed() == {"events": 1}
    engine.clock.advance(DAY)
    assert trimmed() == {"events": 2}
    assert engine.outbox.log.bounds("events", 0) == (3, 3)


@sql_log_only  # the index is a table of that log
def test_the_time_index_is_used_and_trimmed(engine: StoreEngine, trimmed: Retain) -> None:
    in_one_partition(engine)
    seen = delivered(engine, *range(1500))
    engine.clock.advance(DAY)
    publish_values(engine, *range(1500))
    engine.outbox.drain()
    marks = [row[0] for row in rows(engine, 'SELECT "offset" FROM penstock_log_time ORDER BY 1')]
    assert len(marks) == 2
    engine.clock.advance(WEEK - DAY + SOON)
    assert trimmed() == {"events": 1500}
    assert rows(engine, 'SELECT "offset" FROM penstock_log_time') == [(marks[1],)]
    assert engine.outbox.log.offset_at("events", 0, 0) == 1500
    assert len(seen) == 3000


def test_so_many_records_are_kept_of_each_partition(engine: StoreEngine, trimmed: Retain) -> None:
    in_one_partition(engine)
    delivered(engine, *range(10))
    keep(engine, records=4)
    assert trimmed() == {"events": 6}
    assert engine.offsets() == [6, 7, 8, 9]


def test_so_many_bytes_are_kept_and_each_record_is_measured_once(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    delivered(engine, *range(10, 20))
    size = 64 + len("k") + len("10")
    keep(engine, bytes=4 * size)
    retention = Retention(store_of(database), RetentionSettings.load(), engine.clock)
    assert retention.run().deleted == {"events": 6}
    publish_values(engine, 20, 21)
    engine.outbox.drain()
    engine.enlarge(8, 9, size=1000)
    assert retention.run().deleted == {"events": 2}, "what was measured before is not measured again"
    assert engine.offsets() == [8, 9, 10, 11]
    publish_values(engine, 22)
    engine.outbox.drain()
    other = Retention(store_of(database), RetentionSettings.load(), engine.clock)
    assert other.run().deleted == {"events": 2}, "another process measures anew: two have become larger"
    keep(engine, bytes=size)
    assert retention.run().deleted == {"events": 2}, "the other has deleted here, so this one measures anew"


def test_either_limit_is_enough(engine: StoreEngine, trimmed: Retain) -> None:
    in_one_partition(engine)
    delivered(engine, *range(10))
    keep(engine, records=8)
    engine.clock.advance(WEEK + SOON)
    publish_values(engine, 10)
    engine.outbox.drain()
    assert trimmed() == {"events": 10}


def test_a_topic_has_limits_of_its_own(engine: StoreEngine, trimmed: Retain) -> None:
    in_one_partition(engine)
    delivered(engine, 1, 2)
    keep(engine, age_ms=-1)
    engine.clock.advance(10 * WEEK)
    assert trimmed() == {}
    keep(engine, age_ms=10_000)
    assert trimmed() == {"events": 2}


def test_a_topic_that_keeps_nothing_waits_for_all_its_groups(engine: StoreEngine, trimmed: Retain) -> None:
    """Deleted once all groups have passed; what nobody reads is kept as the settings say."""
    in_one_partition(engine)
    publish_values(engine, 1, 2)
    engine.outbox.drain()
    keep(engine, age_ms=0)
    assert trimmed() == {}, "a group may still come: start is earliest"
    seen = delivered(engine, 3)
    assert seen.values() == [1, 2, 3]
    assert trimmed() == {"events": 3}
    assert engine.outbox.log.bounds("events", 0) == (3, 3)
    publish_values(engine, 4)
    assert healed(engine, seen) == [4]


def test_a_topic_without_a_reader_that_keeps_nothing_keeps_as_the_settings_say(
    engine: StoreEngine, trimmed: Retain
) -> None:
    in_one_partition(engine)
    publish_values(engine, 1, 2)
    engine.outbox.drain()
    keep(engine, age_ms=0)
    engine.clock.advance(WEEK + SOON)
    assert trimmed() == {"events": 2}


def test_only_the_named_topic_is_trimmed(engine: StoreEngine, database: Database, trimmed: Retain) -> None:
    in_one_partition(engine, "events", "other")
    for topic in ("events", "other"):
        with engine.connect() as conn:
            engine.outbox.publish(conn, "t", 1, topic=topic)
            conn.commit()
    engine.outbox.drain()
    engine.clock.advance(WEEK + SOON)
    assert planned(database, clock=engine.clock).deleted == {"events": 1, "other": 1}
    assert planned(database, "other", clock=engine.clock).count == 1
    assert trimmed("other") == {"other": 1}
    assert trimmed() == {"events": 1}
    with pytest.raises(UnknownTopic):
        trimmed("nope")


# --- bounded -----------------------------------------------------------------------------------


def test_a_pass_is_bounded_and_one_that_was_full_says_so(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many in a transaction, so many transactions in a pass, the oldest first."""
    monkeypatch.setattr(retention_module, "_SEGMENT_FACTOR", 1)  # else a pass takes a thousand times as many
    engine.outbox.log.create_topic("events", partitions=2)
    subscribe(engine.outbox, "g", Seen())
    for key in ("a", "b", "c", "d"):
        publish_values(engine, *range(25), key=key)
    engine.outbox.drain()
    engine.clock.advance(WEEK + SOON)
    settings = RetentionSettings.load(batch_size=10, batches_per_pass=3)
    retention = Retention(store_of(database), settings, engine.clock)
    committed: list[int] = []
    done = Trimmed(full=True)
    while done.full:
        points.arm(AFTER_BATCH, lambda: committed.append(len(engine.offsets())))
        done = retention.run()
        assert done.count <= 30
    assert committed[0] == 90, "the first transaction deleted ten"
    assert engine.offsets() == []
    assert engine.outbox.log.bounds("events", 0).start + engine.outbox.log.bounds("events", 1).start == 100


def test_a_hot_partition_is_not_slowed_by_the_others(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_module, "_SEGMENT_FACTOR", 1)  # else a pass takes a thousand times as many
    engine.outbox.log.create_topic("events", partitions=8)
    subscribe(engine.outbox, "g", Seen())
    for key in "abcdefgh":
        publish_values(engine, 1, key=key)
    publish_values(engine, *range(100), key="hot")
    engine.outbox.drain()
    engine.clock.advance(WEEK - DAY)
    for key in "abcdefgh":
        publish_values(engine, 2, key=key)
    engine.outbox.drain()
    engine.clock.advance(DAY + SOON)
    settings = RetentionSettings.load(batch_size=40, batches_per_pass=1)
    retention = Retention(store_of(database), settings, engine.clock)
    counts = [retention.run().count for _ in range(5)]
    assert sum(counts) == 108
    assert counts[1:3] == [40, 40], "once the others have nothing old the hot one has the whole pass"


def test_the_same_range_twice_is_deleted_once(engine: StoreEngine, database: Database) -> None:
    """Two processes may have planned the same; the second finds nothing and moves nothing back."""
    in_one_partition(engine)
    delivered(engine, *range(10))
    topic = engine.outbox.log.topic("events")
    store = engine.outbox.store
    assert trim(store, topic, [OffsetRange(0, 0, 6)], unless=lambda tx: False) == 6
    assert trim(store, topic, [OffsetRange(0, 0, 4)], unless=lambda tx: False) == 0
    assert engine.outbox.log.bounds("events", 0) == (6, 10)


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_pass_waits_for_no_publisher_and_no_publisher_for_it(
    engine: StoreEngine, database: Database, trimmed: Retain
) -> None:
    """Writers hold open transactions before and while it deletes; a lock it waited for would end the test."""
    in_one_partition(engine)
    delivered(engine, *range(50))
    engine.clock.advance(WEEK + SOON)
    with engine.connect() as conn, engine.connect() as second:
        engine.outbox.publish(conn, "t", 100, key="k")
        second.execute("SET lock_timeout = '30s'")

        def publish_meanwhile() -> None:
            engine.outbox.publish(second, "t", 101, key="k")
            second.commit()

        points.arm("retention.before_commit", publish_meanwhile)
        hasty = open_database(engine.url, Names(), limit_seconds=30)
        assert retain(hasty, clock=engine.clock).count == 50
        hasty.close()
        conn.commit()
    engine.outbox.drain()
    assert [each.value for each in engine.outbox.log.read("events", 0, 50)] == [100, 101]


# --- what holds it back ------------------------------------------------------------------------


def test_the_slowest_group_holds_back_what_it_has_not_passed(engine: StoreEngine, trimmed: Retain) -> None:
    in_one_partition(engine)
    quick = engine.another()
    subscribe(quick, "quick", Seen())
    delivered(engine, 1, 2, 3)
    publish_values(engine, 4, 5)
    quick.drain()
    keep(engine, age_ms=DAY // SOON * 1000)
    engine.clock.advance(DAY + SOON)
    assert trimmed() == {"events": 3}
    assert engine.offsets() == [3, 4]
    engine.outbox.drain()
    assert trimmed() == {"events": 2}


def test_a_group_that_was_not_seen_for_long_holds_nothing_back_and_goes_on_at_the_start(
    engine: StoreEngine, database: Database, trimmed: Retain
) -> None:
    """It is named, with the remedy; when it comes back it is given what is still there."""
    in_one_partition(engine)
    seen = delivered(engine, 1)
    publish_values(engine, *range(2, 300))
    engine.another().drain()  # without handlers: into the log only
    engine.clock.advance(WEEK)
    assert examine_groups(database, engine.clock) == []
    assert trimmed() == {}, "of two it has passed one, and that is not too old"
    engine.clock.advance(SOON)
    assert trimmed() == {"events": 299}
    (finding,) = examine_groups(database, engine.clock)
    assert (finding.part, finding.state) == ("Group g", PartState.LOW)
    assert "it had not passed 298 of the deleted records" in finding.found
    assert "penstock groups delete g" in finding.remedy
    publish_values(engine, 300, 301)
    assert healed(engine, seen) == [300, 301]
    assert examine_groups(database, engine.clock) == []
    assert rows(engine, 'SELECT "offset" FROM penstock_cursor') == [(301,)]


def test_a_group_is_noted_as_seen_once_an_hour_at_most(engine: StoreEngine) -> None:
    subscribe(engine.outbox, "g", Seen())
    publish_values(engine, 1)
    engine.outbox.drain()
    noted = rows(engine, "SELECT seen_ms FROM penstock_group")
    assert noted == [(engine.clock.now_ms(),)]
    engine.clock.advance(timedelta(minutes=59))
    engine.outbox.drain()
    assert rows(engine, "SELECT seen_ms FROM penstock_group") == noted
    engine.clock.advance(timedelta(minutes=2))
    engine.outbox.drain()
    assert rows(engine, "SELECT seen_ms FROM penstock_group") == [(engine.clock.now_ms(),)]


def test_a_cursor_beyond_holes_of_any_length_goes_on(engine: StoreEngine, trimmed: Retain) -> None:
    """Rows that are gone in the middle, more than are read at once, stop nobody; reconcile says it."""
    in_one_partition(engine)
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish_values(engine, *range(1000))
    engine.another().drain()
    engine.lose(*range(10, 901), *range(991, 1000))
    engine.outbox.drain()
    assert seen.values() == [*range(10), *range(901, 991)]
    assert rows(engine, 'SELECT "offset" FROM penstock_cursor') == [(1000,)]


def test_a_read_by_hand_goes_on_beyond_holes_of_any_length(engine: StoreEngine) -> None:
    """From before a hole, from within it, for as many as are asked; and at the end it ends."""
    in_one_partition(engine)
    publish_values(engine, *range(1000))
    engine.another().drain()
    engine.lose(*range(10, 901), *range(991, 1000))
    log = engine.outbox.log

    def read(offset: int, limit: int) -> list[Any]:
        return [each.value for each in log.read("events", 0, offset, limit)]

    assert read(0, 1000) == [*range(10), *range(901, 991)]
    assert read(8, 4) == [8, 9, 901, 902]
    assert read(10, 1) == read(500, 1) == [901]
    assert read(989, 50) == [989, 990]
    assert read(995, 5) == read(1000, 5) == []


# --- what waits --------------------------------------------------------------------------------


def test_a_parked_key_keeps_its_records_and_its_order(engine: StoreEngine, trimmed: Retain) -> None:
    in_one_partition(engine)
    seen = delivered(engine, 1, 2, 3, failing=(2,))
    keep(engine, age_ms=0)
    assert trimmed() == {"events": 3}
    assert engine.offsets() == []
    copies = rows(engine, 'SELECT "offset", type FROM penstock_lane_entry ORDER BY 1')
    assert copies == [(1, "t"), (2, "t")]
    publish_values(engine, 4)
    assert healed(engine, seen) == [2, 3, 4]
    assert rows(engine, "SELECT 1 FROM penstock_lane_entry") == []


def test_a_copy_is_the_record_as_it_was(engine: StoreEngine, trimmed: Retain) -> None:
    in_one_partition(engine)
    seen = Seen({"n": 1})
    subscribe(engine.outbox, "g", seen, retry=Fixed(SOON))
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", {"n": 1}, key="k", headers={"h": "v"}, owner="me")
        conn.commit()
    engine.outbox.drain()
    (first,) = seen
    keep(engine, age_ms=0)
    trimmed()
    assert rows(engine, "SELECT owner FROM penstock_lane_entry") == [("me",)]
    healed(engine, seen)
    (again,) = seen
    for name in ("id", "key", "type", "value", "headers", "timestamp", "topic", "partition", "offset"):
        assert getattr(again, name) == getattr(first, name), name
    assert again.attempt == 2


def test_a_record_that_dies_after_its_row_is_gone_keeps_its_payload(
    engine: StoreEngine, database: Database, trimmed: Retain
) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=Fixed(SOON, max_retries=1))
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 1, key="k", owner="me")
        engine.outbox.publish(conn, "t", 2, key="k")
        conn.commit()
    engine.outbox.drain()
    keep(engine, age_ms=0)
    assert trimmed() == {"events": 2}
    engine.clock.advance(timedelta(minutes=1))
    engine.outbox.drain()
    letter = dead.show(database, "g", "events", 0, 0)
    assert (letter.record.value, letter.letter.holding) == (1, True)
    assert rows(engine, "SELECT owner FROM penstock_dead") == [("me",)]
    everything = DeadSelection(group="g", all=True)
    assert dead.requeue(database, everything, clock=engine.clock) == LetterOutcome(1)
    publish_values(engine, 3)
    assert healed(engine, seen) == [1, 2, 3]


def test_a_held_key_is_requeued_in_order_after_its_rows_are_gone(
    engine: StoreEngine, database: Database, trimmed: Retain
) -> None:
    in_one_partition(engine)
    seen = delivered(engine, 1, 2, 3, failing=(1,), retry=Fixed(SOON, max_retries=0))
    keep(engine, age_ms=0)
    assert trimmed() == {"events": 3}
    (lane,) = lanes(database, clock=engine.clock).items
    assert lane.waiting == 2
    assert dead.requeue(database, DeadSelection(group="g", key="k"), clock=engine.clock) == LetterOutcome(1)
    assert healed(engine, seen) == [1, 2, 3]


def test_a_requeued_record_survives_retention_before_it_is_tried(
    engine: StoreEngine, database: Database, trimmed: Retain
) -> None:
    in_one_partition(engine)
    seen = delivered(engine, 1, 2, failing=(1,), retry=Fixed(SOON, max_retries=0))
    dead.requeue(database, DeadSelection(group="g", key="k"), clock=engine.clock)
    keep(engine, age_ms=0)
    assert trimmed() == {"events": 2}
    assert healed(engine, seen) == [1, 2]


def test_a_copied_record_that_is_set_aside_alone_keeps_its_copy(
    engine: StoreEngine, database: Database, trimmed: Retain
) -> None:
    """It changes its lane, from the one that was slow to one of its own, and stays the same entry."""
    in_one_partition(engine)
    seen = delivered(engine, 1, failing=(1,), retry=Fixed(SOON, max_retries=9))
    publish_values(engine, 2, 3)
    engine.outbox.drain()
    keep(engine, age_ms=0)
    assert trimmed() == {"events": 3}
    other = engine.another()
    seen.failing[:] = [2]
    subscribe(other, "g", seen, retry=Fixed(SOON, max_retries=9), on_failure="alone")
    seen.clear()
    engine.clock.advance(timedelta(minutes=1))
    other.drain()
    assert seen.values() == [1, 2, 3]
    (lane,) = lanes(database, clock=engine.clock).items
    assert lane.alone == 1
    seen.failing.clear()
    seen.clear()
    engine.clock.advance(timedelta(minutes=1))
    other.drain()
    assert seen.values() == [2]


def test_copies_are_read_within_the_bounds_of_a_read(
    engine: StoreEngine, trimmed: Retain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too much for one read comes with the next, in order, whether it is a copy or in the log."""
    in_one_partition(engine)
    seen = delivered(engine, 1, 2, 3, 4, failing=(1,))
    keep(engine, age_ms=0)
    trimmed()
    seen.failing.append(7)
    publish_values(engine, 5, 6)
    publish_values(engine, 7, 8, key="other")
    engine.outbox.drain()
    trimmed()
    monkeypatch.setattr("penstock.worker.group.bounds.READ_BYTES", 1)
    came = healed(engine, seen)
    assert [value for value in came if value < 7] == [1, 2, 3, 4, 5, 6]
    assert [value for value in came if value >= 7] == [7, 8], "a head that is cut off is not passed over"


def test_every_group_has_copies_of_its_own(engine: StoreEngine, trimmed: Retain) -> None:
    in_one_partition(engine)
    other = Seen(1)
    subscribe(engine.outbox, "other", other, retry=Fixed(SOON))
    seen = delivered(engine, 1, 2, failing=(2,))
    keep(engine, age_ms=0)
    assert trimmed() == {"events": 2}
    assert len(rows(engine, "SELECT 1 FROM penstock_lane_entry WHERE id IS NOT NULL")) == 3
    other.failing.clear()
    other.clear()
    assert healed(engine, seen) == [2]
    assert other.values() == [1, 2]


# --- reconcile, tokens, the service --------------------------------------------------------------


def test_reconcile_agrees_after_retention_and_not_when_a_row_is_missing(
    engine: StoreEngine, database: Database, trimmed: Retain
) -> None:
    in_one_partition(engine)
    seen = delivered(engine, 1, 2, 3, failing=(2,))
    keep(engine, records=1)
    publish_values(engine, 4, 5)
    engine.outbox.drain()
    assert trimmed() == {"events": 4}
    found = reconcile(database, "events")
    assert [figure.count for figure in found.figures] == [1, 0], "one is kept, and waits"
    assert found.figures[1].faults == ["4 wait in lanes"]
    assert healed(engine, seen) == [2, 3, 4, 5]
    assert reconcile(database, "events").line() == "reconciled: logged=1 delivered[g]=1"
    publish_values(engine, 6, 7)
    engine.outbox.drain()
    engine.lose(5)
    assert reconcile(database, "events").figures[0].faults == ["partition 0, 5 to before 6, is not in the log"]


def test_old_tokens_go_too(engine: StoreEngine, trimmed: Retain) -> None:
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 1, token="once")
        conn.commit()
    engine.clock.advance(WEEK - SOON)
    trimmed()
    assert rows(engine, "SELECT count(DISTINCT id) FROM penstock_token") == [(1,)]
    engine.clock.advance(2 * SOON)
    trimmed()
    assert rows(engine, "SELECT 1 FROM penstock_token") == []


def test_the_owner_of_the_first_slot_does_it(engine: StoreEngine, database: Database) -> None:
    """Of a log in files the process that writes does, whoever owns the slot."""
    in_one_partition(engine)
    delivered(engine, 1, 2)
    writes_here = isinstance(engine.outbox.log, FileLog)
    engine.clock.advance(WEEK + SOON)
    member = Member(database, ClusterSettings.load(), engine.clock)
    member.join()
    service = RetentionService(store_of(database), engine.clock, member=member, groups=["g"])
    assert not service.turn()
    assert engine.offsets() == ([] if writes_here else [0, 1]), "another owns the slot, or nobody"
    member.take()
    seen_ms = rows(engine, "SELECT seen_ms FROM penstock_group")
    assert not service.turn()
    assert engine.offsets() == []
    assert rows(engine, "SELECT seen_ms FROM penstock_group") == seen_ms
    engine.clock.advance(timedelta(hours=1) + SOON)
    service.turn()
    assert rows(engine, "SELECT seen_ms FROM penstock_group") == [(engine.clock.now_ms(),)]
    member.leave()
