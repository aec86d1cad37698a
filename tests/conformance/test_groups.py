"""Groups, on every engine: what is told of them, and pausing, resetting and deleting them."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from penstock.clock import SYSTEM, from_ms
from penstock.database.contract import Rows
from penstock.database.database import Database
from penstock.delivery.client_cursors import ClientCommit
from penstock.delivery.store import GroupStore, Owned
from penstock.delivery.verdict import Passed
from penstock.errors import (
    GroupBusy,
    InvalidPage,
    InvalidSelection,
    InvalidTime,
    OffsetOutOfRange,
    UnknownGroup,
    UnknownPartition,
    UnknownTopic,
)
from penstock.membership.member import ClusterSettings, Member
from penstock.membership.serving import Domain
from penstock.model.record import Record
from penstock.model.retry import Fixed
from penstock.operate import audit as audits
from penstock.operate import dead, groups
from penstock.operate.audit import audit
from penstock.operate.clear import clear
from penstock.operate.dead import DeadSelection, dead_letters
from penstock.operate.groups import Forgotten
from penstock.operate.lanes import LaneState, lanes
from penstock.operate.operation import group_id
from penstock.operate.progress import Group
from penstock.operate.reset import Reset, reset
from tests.conformance.client_cursors import ClientCursors
from tests.conformance.engines import StoreEngine, counting, lock_waits
from tests.conformance.stores import kind_or_lists  # noqa: F401 - the fixture `kind`
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.outbox_suite import in_one_partition
from tests.suites.records import a_record
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")
NEVER = Fixed(timedelta(seconds=1), max_retries=0)
LATER = Fixed(timedelta(seconds=10), max_retries=5)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


Resetter = Callable[..., Reset]


@pytest.fixture
def resets(engine: StoreEngine, database: Database) -> Resetter:
    """Give a way to reset group g on the topic, in the engine's time."""

    def act(to: Any, **options: Any) -> Reset:
        return reset(database, "g", **{"topic": "events", "to": to, "clock": engine.clock} | options)

    return act


def handled(engine: StoreEngine, *values: int, failing: tuple[int, ...] = (), **options: Any) -> Seen:
    """Publish numbers under one key to a topic of one partition and let group g handle them."""
    in_one_partition(engine)
    seen = Seen(*failing)
    subscribe(engine.outbox, "g", seen, **{"retry": LATER} | options)
    publish_values(engine, *values)
    engine.outbox.drain()
    return seen


def drained(engine: StoreEngine, seen: Seen) -> list[int]:
    """Drain and return what came."""
    seen.clear()
    engine.outbox.drain()
    return seen.values()


def only(database: Database, engine: StoreEngine) -> Group:
    (found,) = groups.groups(database, clock=engine.clock).items
    return found


# --- what is told ------------------------------------------------------------------------------


def test_a_group_tells_its_lag_and_what_waits(engine: StoreEngine, database: Database) -> None:
    handled(engine, 1, 2, 3, failing=(2,))
    publish_values(engine, 4, 5, key="other")
    engine.clock.advance(timedelta(minutes=1))
    group = only(database, engine)
    assert (group.name, group.topics, group.lag, group.oldest_unread_at) == ("g", ("events",), 0, None)
    assert (group.waiting, group.held, group.dead, group.members, group.paused_at) == (1, 0, 0, 0, None)
    groups.pause(database, "g", clock=engine.clock)
    engine.outbox.drain()
    group = only(database, engine)
    assert (group.lag, group.paused_at) == (2, from_ms(engine.clock.now_ms()))
    assert group.oldest_unread_at == from_ms(engine.clock.now_ms()) - timedelta(minutes=1)


def test_what_is_done_above_the_cursor_is_no_lag(engine: StoreEngine, database: Database) -> None:
    """Another has the first record out and settles the second: the cursor stays, the lag falls."""
    in_one_partition(engine)
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish_values(engine, 1, key="a")
    publish_values(engine, 2, 3, key="b")
    engine.another().drain()
    with owning(engine, database) as (store, taken):
        owned = taken[0]
        for offset, lane in enumerate("abb"):
            owned.machine.feed(offset, lane, wanted=True)
        outs = {each.offset for each in owned.machine.take(engine.clock.now_ms(), 2)}
        assert outs == {0, 1}
        owned.machine.finish(1, Passed())
        settlement = owned.machine.settlement()
        assert settlement is not None
        assert store.settle({0: (owned, settlement)}) == set()
    assert only(database, engine).lag == 2
    (cursor,) = groups.partitions(database, "g").items
    assert (cursor.offset, cursor.end, cursor.lag, cursor.passed) == (0, 3, 2, 1)
    result = reset(database, "g", topic="events", to="earliest", dry_run=True)
    assert (result.again, result.skipped) == (1, 0)
    result = reset(database, "g", topic="events", to=2, dry_run=True)
    assert (result.again, result.skipped) == (0, 1)
    reset(database, "g", topic="events", to="earliest", clock=engine.clock)
    assert sorted(drained(engine, seen)) == [1, 2, 3]


@contextmanager
def owning(engine: StoreEngine, database: Database) -> Iterator[tuple[GroupStore, dict[int, Owned]]]:
    """Own what a group has, as another member would, for the length of a block."""
    member = Member(database, ClusterSettings.load(), engine.clock)
    topic = engine.outbox.log.topic("events")
    store = GroupStore(engine.outbox.store, engine.clock, group="g", topic=topic, owner=member.id)
    member.join()
    taken = store.take(member.living)
    yield store, taken
    store.release(taken)
    member.leave()


def test_a_page_of_groups_asks_as_much_for_many_topics_as_for_few(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed = counting(database, monkeypatch)
    log, store, asked = engine.outbox.log, engine.outbox.store, []
    for most in (2, 12):
        for n in range(most):
            topic = log.create_topic(f"t-{n:02}", partitions=2)
            log.append(topic.name, [a_record()], partition=1)
            ClientCursors(store, engine.clock, group="g", topic=topic).commit({1: ClientCommit(0)})
        executed.clear()
        (group,) = groups.groups(database, clock=engine.clock).items
        assert len(group.topics) == most
        assert len(groups.partitions(database, "g").items) == most
        asked.append(len(executed))
    assert asked[0] == asked[1]


def test_a_group_is_shown_with_its_topics_by_name(engine: StoreEngine, database: Database) -> None:
    """Whatever the order in which they were made, and in every listing."""
    log, store, names = engine.outbox.log, engine.outbox.store, ["b", "c", "a", "B"]
    for name in names:
        topic = log.create_topic(name, partitions=1)
        ClientCursors(store, engine.clock, group="g", topic=topic).commit({0: ClientCommit(0)})
    shown = groups.show(database, "g", clock=engine.clock)
    assert [each.topic for each in shown.on_topics] == sorted(names)
    assert shown.group.topics == only(database, engine).topics == tuple(sorted(names))


def test_groups_are_paged_by_name_without_gap_or_overlap(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    names = sorted(f"g-{number}" for number in range(7))
    for name in names:
        subscribe(engine.outbox, name, Seen())
    publish_values(engine, 1)
    engine.outbox.drain()
    for limit in (1, 2, 3, 6, 7, 8):
        found, after, pages = list[str](), None, 0
        while pages == 0 or after is not None:
            page = groups.groups(database, limit=limit, after=after, clock=engine.clock)
            found, after, pages = found + [each.name for each in page.items], page.after, pages + 1
        assert (found, pages) == (names, -(-7 // limit))
    for limit in (0, -1, 1001):
        with pytest.raises(InvalidPage, match="limit"):
            groups.groups(database, limit=limit)
    for after in ("nonsense", "WzFd", "W10"):
        with pytest.raises(InvalidPage, match="place"):
            groups.groups(database, after=after)


def test_a_group_is_shown_with_its_filter_and_its_cursors(engine: StoreEngine, database: Database) -> None:
    engine.outbox.log.create_topic("events", partitions=3)
    subscribe(engine.outbox, "g", Seen(), match="order.*")
    publish_values(engine, 1, type="order.placed")
    engine.outbox.drain()
    shown = groups.show(database, "g", clock=engine.clock)
    assert [(each.topic, each.partitions, each.lag) for each in shown.on_topics] == [("events", 3, 0)]
    assert shown.member_ids == ()
    first = groups.partitions(database, "g", limit=2)
    second = groups.partitions(database, "g", limit=2, after=first.after)
    assert [each.partition for each in (*first.items, *second.items)] == [0, 1, 2]
    assert second.after is None
    assert sum(each.end for each in (*first.items, *second.items)) == 1
    with pytest.raises(UnknownGroup):
        groups.show(database, "nobody")
    with pytest.raises(UnknownTopic):
        groups.partitions(database, "g", topic="nowhere")


# --- pausing -----------------------------------------------------------------------------------


def test_a_paused_group_is_given_nothing_and_others_are(engine: StoreEngine, database: Database) -> None:
    seen, other = Seen(), Seen()
    subscribe(engine.outbox, "g", seen)
    subscribe(engine.outbox, "other", other)
    publish_values(engine, 1)
    engine.outbox.drain()
    assert groups.pause(database, "g", clock=engine.clock)
    assert not groups.pause(database, "g", clock=engine.clock)
    publish_values(engine, 2)
    assert drained(engine, seen) == []
    assert other.values() == [1, 2]
    assert groups.resume(database, "g", clock=engine.clock)
    assert not groups.resume(database, "g", clock=engine.clock)
    assert drained(engine, seen) == [2]
    assert [each.action for each in audit(database).items] == ["group resume", "group pause"]
    for act in (groups.pause, groups.resume):
        with pytest.raises(UnknownGroup):
            act(database, "nobody")


def test_a_pause_ends_a_drain_that_runs(engine: StoreEngine, database: Database) -> None:
    """What it has handed out by then is settled; the rest waits."""
    in_one_partition(engine)
    seen = list[int]()

    def handle(record: Record) -> None:
        seen.append(record.value)
        if record.value == 0:
            groups.pause(database, "g", clock=engine.clock)

    subscribe(engine.outbox, "g", handle)
    with engine.connect() as conn:
        for value in range(1200):
            engine.outbox.publish(conn, "t", value, key=f"k-{value % 300}")
        conn.commit()
    engine.outbox.drain()
    assert 0 < len(seen) < 1200
    assert engine.outbox.drain().delivered == 0
    groups.resume(database, "g", clock=engine.clock)
    engine.outbox.drain()
    assert sorted(seen) == list(range(1200))


def test_a_worker_lets_a_paused_group_go_and_takes_it_back(
    engine: StoreEngine, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """It finishes what runs, releases, and says so once; after resume it goes on, each record once."""
    caplog.set_level(logging.INFO, "penstock.delivery")
    outbox, seen = engine.another(SYSTEM), Seen()
    engine.outbox.log.create_topic("events", partitions=4)
    subscribe(outbox, "g", seen)
    with working(outbox):
        publish(engine, range(20))
        wait_until(lambda: len(seen) == 20, "all is handled")
        groups.pause(database, "g")
        wait_until(lambda: not owners(database), "its partitions are given back")
        publish(engine, range(20, 40))
        wait_until(lambda: only_lag(database) == 20, "it is in the log")
        assert len(seen) == 20
        groups.resume(database, "g")
        wait_until(lambda: len(seen) == 40, "it goes on")
    assert sorted(seen.values()) == list(range(40))
    said = [each.getMessage() for each in caplog.records if "group g " in each.getMessage()]
    assert said == ["group g is paused: it is given nothing", "group g goes on"]


def owners(database: Database) -> set[str]:
    return {each.owner for each in groups.partitions(database, "g", limit=1000).items if each.owner is not None}


def only_lag(database: Database) -> int:
    (found,) = groups.groups(database).items
    return found.lag


def publish(engine: StoreEngine, values: range, key: str | None = None) -> None:
    with engine.connect() as conn:
        for value in values:
            engine.outbox.publish(conn, "t", value, key=key or f"k-{value % 7}")
        conn.commit()


# --- resetting ---------------------------------------------------------------------------------


def test_a_reset_to_the_earliest_has_all_again_in_order(
    engine: StoreEngine, database: Database, resets: Resetter
) -> None:
    seen = handled(engine, 1, 2, 3)
    told = resets("earliest", dry_run=True)
    assert [(each.partition, each.from_offset, each.to_offset) for each in told.moves] == [(0, 3, 0)]
    assert (told.again, told.skipped) == (3, 0)
    assert drained(engine, seen) == []
    assert resets("earliest") == told
    assert drained(engine, seen) == [1, 2, 3]
    (entry,) = audit(database).items
    assert (entry.action, entry.count) == ("group reset", 3)
    assert entry.subject == {"group": "g", "topic": "events", "to": "earliest"}


def test_a_reset_to_the_latest_skips_the_rest(engine: StoreEngine, resets: Resetter) -> None:
    seen = handled(engine, 1, 2)
    engine.another().log.append("events", engine.outbox.log.read("events", 0))
    told = resets("latest")
    assert (told.again, told.skipped) == (0, 2)
    publish_values(engine, 5)
    assert drained(engine, seen) == [5]


def test_a_reset_to_an_offset_or_a_moment(engine: StoreEngine, resets: Resetter) -> None:
    seen = handled(engine, 1, 2)
    engine.clock.advance(timedelta(hours=1))
    moment = from_ms(engine.clock.now_ms())
    publish_values(engine, 3, 4)
    assert drained(engine, seen) == [3, 4]
    assert resets(1, partition=0).again == 3
    assert drained(engine, seen) == [2, 3, 4]
    assert resets(moment).again == 2
    assert drained(engine, seen) == [3, 4]
    assert resets(moment + timedelta(hours=1)).again == 0
    assert drained(engine, seen) == []


def test_a_reset_that_cannot_be_is_refused(engine: StoreEngine, database: Database, resets: Resetter) -> None:
    engine.outbox.log.create_topic("events", partitions=2)
    engine.outbox.log.create_topic("unread", partitions=1)
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish_values(engine, 1)
    engine.outbox.drain()
    for to, options, error in (
        (0, {}, InvalidSelection),
        (7, {"partition": 0}, OffsetOutOfRange),
        (-1, {"partition": 0}, OffsetOutOfRange),
        ("earliest", {"partition": 2}, UnknownPartition),
        ("yesterday", {}, InvalidSelection),
        (True, {"partition": 0}, InvalidSelection),
        (datetime(2026, 1, 1), {}, InvalidTime),  # noqa: DTZ001 - the naive one is what is refused
        ("earliest", {"topic": "nowhere"}, UnknownTopic),
        ("earliest", {"topic": "unread"}, InvalidSelection),
    ):
        for dry_run in (True, False):
            with pytest.raises(error):
                resets(to, dry_run=dry_run, **options)
    with pytest.raises(UnknownGroup):
        reset(database, "nobody", topic="events", to="earliest")
    assert drained(engine, seen) == []
    assert audit(database).items == []


def test_one_partition_can_be_reset_alone(engine: StoreEngine, resets: Resetter) -> None:
    engine.outbox.log.create_topic("events", partitions=2)
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish(engine, range(10))
    engine.outbox.drain()
    mine = {record.value for record in seen if record.partition == 1}
    assert 0 < len(mine) < 10
    assert resets("earliest", partition=1).again == len(mine)
    assert set(drained(engine, seen)) == mine


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)  # SQLite has one writer at a time
def test_a_reset_of_one_partition_holds_up_no_other(
    engine: StoreEngine, resets: Resetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends to its own partition wait until it has ended; those to another go on."""
    log = engine.outbox.log
    log.create_topic("events", partitions=2)
    subscribe(engine.outbox, "g", Seen())
    for number in range(2):
        log.append("events", [a_record()], partition=number)
    engine.outbox.drain()
    write, appends = audits.write, list[Future[Any]]()

    def write_slowly(*args: Any, **options: Any) -> None:
        for number in (0, 1):
            appends.append(pool.submit(log.append, "events", [a_record()], partition=number))
        wait_until(lambda: appends[1].done() or lock_waits(engine) == 2, "the other is appended, or waits")
        assert appends[1].done()
        assert not appends[0].done()
        write(*args, **options)

    monkeypatch.setattr(audits, "write", write_slowly)
    with ThreadPoolExecutor(2) as pool:
        resets("earliest", partition=0)
    assert [each.result() for each in appends] == [[(0, 1)], [(1, 1)]]


def test_what_was_parked_above_the_target_comes_by_the_cursor_and_once(
    engine: StoreEngine, database: Database, resets: Resetter
) -> None:
    """D4: it would come by its lane, too: twice, and out of order."""
    seen = handled(engine, 1, 2, 3, failing=(2,))
    assert [each.waiting for each in lanes(database, clock=engine.clock).items] == [2]
    resets("earliest")
    assert lanes(database, clock=engine.clock).items == []
    seen.failing.clear()
    assert drained(engine, seen) == [1, 2, 3]
    engine.clock.advance(timedelta(seconds=60))
    assert drained(engine, seen) == []


def test_what_is_parked_below_the_target_comes_first(engine: StoreEngine, database: Database, resets: Resetter) -> None:
    seen = handled(engine, 1, 2, 3, 4, failing=(2,))
    resets(3, partition=0)
    assert [each.waiting for each in lanes(database, clock=engine.clock).items] == [2]
    assert drained(engine, seen) == []  # 4 is behind 2 and 3
    seen.failing.clear()
    engine.clock.advance(timedelta(seconds=60))
    assert drained(engine, seen) == [2, 3, 4]


def test_a_reset_forward_keeps_what_is_parked_unless_told(
    engine: StoreEngine, database: Database, resets: Resetter
) -> None:
    seen = handled(engine, 1, 2, 3, failing=(1,))
    resets("latest")
    publish_values(engine, 4)
    seen.failing.clear()
    engine.clock.advance(timedelta(seconds=60))
    assert drained(engine, seen) == [1, 2, 3, 4]
    seen.failing[:] = [5]
    publish_values(engine, 5, 6)
    assert drained(engine, seen) == [5]
    resets("latest", drop_parked=True)
    assert lanes(database, clock=engine.clock).items == []
    seen.failing.clear()
    engine.clock.advance(timedelta(seconds=60))
    publish_values(engine, 7)
    assert drained(engine, seen) == [7]


def test_a_dead_letter_stays_marked_and_holds_no_more_what_comes_again(
    engine: StoreEngine, database: Database, resets: Resetter
) -> None:
    seen = handled(engine, 1, 2, 3, failing=(2,), retry=NEVER)
    (letter,) = dead_letters(database).items
    assert (letter.holding, letter.reset_at) == (True, None)
    resets(1, partition=0)
    (letter,) = dead_letters(database).items
    assert (letter.holding, letter.reset_at) == (False, from_ms(engine.clock.now_ms()))
    assert lanes(database).items == []
    assert drained(engine, seen) == [2]  # it dies anew, and holds its key anew
    (letter,) = dead_letters(database).items
    assert (letter.holding, letter.reset_at) == (True, None)
    resets("earliest")
    seen.failing.clear()
    assert drained(engine, seen) == [1, 2, 3]
    (letter,) = dead_letters(database).items
    assert (letter.holding, letter.reset_at) == (False, from_ms(engine.clock.now_ms()))


def test_a_dead_letter_below_the_target_still_holds_its_key(
    engine: StoreEngine, database: Database, resets: Resetter
) -> None:
    seen = handled(engine, 1, 2, 3, failing=(1,), retry=NEVER)
    resets(1, partition=0)
    (lane,) = lanes(database).items
    assert (lane.state, lane.waiting) == (LaneState.HELD, 0)
    assert drained(engine, seen) == []
    seen.failing.clear()
    dead.requeue(database, DeadSelection(group="g", all=True), clock=engine.clock)
    assert drained(engine, seen) == [1, 2, 3]
    resets("latest", drop_parked=True)


def test_a_lane_that_no_letter_holds_any_more_goes_on(
    engine: StoreEngine, database: Database, resets: Resetter
) -> None:
    """An entry before the letter should not be; if it is, its key must not wait for ever."""
    seen = handled(engine, 1, 2, 3, failing=(2,), retry=NEVER)
    with engine.connect() as conn:
        conn.execute(
            'INSERT INTO penstock_lane_entry (group_id, topic_id, partition, "offset", lane, whole, late, '
            "alone) SELECT group_id, topic_id, partition, 0, lane, whole, late, alone FROM penstock_lane"
        )
        conn.commit()
    resets(1, partition=0)
    (lane,) = lanes(database, clock=engine.clock).items
    assert (lane.state, lane.waiting) == (LaneState.SLOW, 1)
    seen.failing.clear()
    assert drained(engine, seen) == [1, 2, 3]


def test_dropping_what_is_parked_frees_keys_that_dead_letters_held(
    engine: StoreEngine, database: Database, resets: Resetter
) -> None:
    seen = handled(engine, 1, 2, failing=(1,), retry=NEVER)
    resets("latest", drop_parked=True)
    (letter,) = dead_letters(database).items
    assert not letter.holding
    assert lanes(database).items == []
    publish_values(engine, 3)
    assert drained(engine, seen) == [3]


@pytest.mark.parametrize("lapsed", [False, True], ids=["living", "lapsed"])
def test_what_an_owner_settles_after_a_reset_counts_for_nothing(
    engine: StoreEngine, database: Database, resets: Resetter, lapsed: bool
) -> None:
    """Also if its lease had run out: its name stays, as one that perhaps crashed, and the epoch tells."""
    in_one_partition(engine)
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish_values(engine, 1, 2)
    engine.outbox.drain()
    publish_values(engine, 3)
    engine.another().drain()
    with owning(engine, database) as (store, taken):
        owned = taken[0]
        owned.machine.feed(2, "k", wanted=True)
        (out,) = owned.machine.take(engine.clock.now_ms(), 1)
        if lapsed:
            engine.clock.advance(timedelta(minutes=1))
        resets("earliest")
        (cursor,) = groups.partitions(database, "g").items
        assert (cursor.owner is not None) == lapsed
        owned.machine.finish(out.offset, Passed())
        settlement = owned.machine.settlement()
        assert settlement is not None
        assert store.settle({0: (owned, settlement)}) == {0}
    assert drained(engine, seen) == [1, 2, 3]


def test_a_reset_beside_a_running_worker_has_all_again_and_keeps_order(engine: StoreEngine, database: Database) -> None:
    """For each key the last run of what came is all of it, in order; before it, nothing goes back."""
    outbox, seen = engine.another(SYSTEM), Seen()
    engine.outbox.log.create_topic("events", partitions=4)
    subscribe(outbox, "g", seen)
    with working(outbox):
        for values in (range(100), range(100, 200)):
            publish(engine, values)
            wait_until(partial(all_came, seen, 0, values.stop), "all is handled")
            at = len(seen)
            reset(database, "g", topic="events", to="earliest")
            wait_until(partial(all_came, seen, at, values.stop), "all came again")
    assert only_lag(database) == 0


def all_came(seen: list[Record], since: int, count: int) -> bool:
    return len(last_runs(seen[since:])) == count


def last_runs(seen: list[Record]) -> list[int]:
    """Return of each key the values since it last began anew; they rise, or order was broken."""
    runs: dict[str | None, list[int]] = {}
    for record in list(seen):
        run = runs.setdefault(record.key, [])
        if run and record.value <= run[-1]:
            assert record.value == int(str(record.key).removeprefix("k-")) or record.redelivered, record
            del run[:]
        run.append(record.value)
    return [value for run in runs.values() for value in run]


def test_whatever_changes_a_group_makes_its_members_look(
    engine: StoreEngine, database: Database, resets: Resetter
) -> None:
    """Without it they would find out at the next rebalance."""
    handled(engine, 1)
    topic = engine.outbox.log.topic("events").id
    name = Domain(group_id(engine.outbox.store, "g"), topic).name
    database.run(lambda tx: tx.change("membership", "domains_create", domains=Rows(name=[name])))

    def version() -> int:
        rows = database.look(lambda tx: tx.rows("membership", "domains_read", names=[name]))
        return int(rows[0][1])

    for act in (
        lambda: groups.pause(database, "g", clock=engine.clock),
        lambda: groups.resume(database, "g", clock=engine.clock),
        lambda: resets("earliest"),
        lambda: clear(database, "events", clock=engine.clock),
    ):
        before = version()
        act()
        assert version() == before + 1


# --- deleting ----------------------------------------------------------------------------------


def test_a_deleted_group_leaves_nothing_and_may_begin_anew(engine: StoreEngine, database: Database) -> None:
    seen = handled(engine, 1, 2, failing=(1,), retry=NEVER)
    told = groups.delete(database, "g", dry_run=True)
    assert told == Forgotten(cursors=1, lanes=1, dead=1)
    assert only(database, engine).name == "g"
    assert groups.delete(database, "g", clock=engine.clock) == told
    assert groups.groups(database).items == []
    for table in ("cursor", "lane", "lane_entry", "dead"):
        with engine.connect() as conn:
            kept = conn.execute(f"SELECT count(*) FROM penstock_{table}").fetchone()
            conn.commit()
        assert kept == (0,), table
    seen.failing.clear()
    again = engine.another()
    subscribe(again, "g", seen)
    seen.clear()
    again.drain()
    assert seen.values() == [1, 2]


def test_a_group_that_is_served_is_not_deleted(engine: StoreEngine, database: Database) -> None:
    outbox, seen = engine.another(SYSTEM), Seen()
    subscribe(outbox, "g", seen)
    publish(engine, range(3))
    with working(outbox):
        wait_until(lambda: len(seen) == 3, "it is served")
        with pytest.raises(GroupBusy, match="group g is served by 1 members"):
            groups.delete(database, "g")
        groups.pause(database, "g")
        wait_until(lambda: not owners(database), "it owns nothing")
        with pytest.raises(GroupBusy, match="group g is served by 1 members"):
            groups.delete(database, "g")
    assert groups.delete(database, "g").cursors == 256
    with engine.connect() as conn:
        assert conn.execute("SELECT name FROM penstock_domain").fetchall() == [("slots",)]
        conn.commit()


def test_a_group_that_a_drain_owns_is_not_deleted(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)

    def handle(record: Record) -> None:
        with pytest.raises(GroupBusy):
            groups.delete(database, "g", clock=engine.clock)

    subscribe(engine.outbox, "g", handle)
    publish_values(engine, 1)
    assert engine.outbox.drain().delivered == 1
