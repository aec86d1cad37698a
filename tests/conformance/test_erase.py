"""Erase by owner on every engine: nothing of it is left in any table, and all others go on in order."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from penstock import points
from penstock.database.database import Database
from penstock.delivery.store import GroupStore
from penstock.delivery.verdict import Parked
from penstock.errors import InvalidOwner, InvalidType
from penstock.log.contract import Keep
from penstock.log.sql.topics import remove_topic
from penstock.membership.member import ClusterSettings, Member
from penstock.model.retry import Fixed
from penstock.operate import audit
from penstock.operate import erase as erasing
from penstock.operate.dead import dead_letters
from penstock.operate.erase import Erased, count_owner, digest, erase
from penstock.operate.lanes import LaneState, lanes
from penstock.operate.reconcile import TableFigures, reconcile
from penstock.operate.retention import retain
from penstock.worker.group.delivery import GroupDelivery
from tests.conformance.engines import StoreEngine
from tests.conformance.stores import (
    kind_or_lists,  # noqa: F401 - the fixture `kind`
    sql_log_only,
)
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.outbox_suite import in_one_partition, logged

MARK = "zz-marker-zz"
SOON = timedelta(seconds=1)
NEVER = Fixed(SOON, max_retries=0)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the person's own."""
    opened = engine.database()
    yield opened
    opened.close()


def publish(engine: StoreEngine, value: Any, owner: str | None = "me", key: str = "k", **options: Any) -> str:
    with engine.connect() as conn:
        id: str = engine.outbox.publish(conn, "t", value, key=key, owner=owner, **options)
        conn.commit()
    return id


def tables(engine: StoreEngine) -> list[str]:
    query = (
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        if engine.url.startswith("postgresql")
        else "SELECT name FROM sqlite_master WHERE type = 'table'"
    )
    return [row[0] for row in rows(engine, query) if str(row[0]).startswith("penstock_")]


def rows(engine: StoreEngine, query: str) -> list[tuple[Any, ...]]:
    with engine.connect() as conn:
        found = conn.execute(query).fetchall()
        conn.commit()
    return [tuple(row) for row in found]


def change(engine: StoreEngine, statement: str) -> None:
    with engine.connect() as conn:
        conn.execute(statement)
        conn.commit()


def marked(engine: StoreEngine) -> list[tuple[str, Any]]:
    """Return every place in every column of every table, and in the log, that holds the marker."""
    found = []
    held = {each: rows(engine, f"SELECT * FROM {each}") for each in tables(engine)}
    held["penstock_log"] += [tuple(each) for each in engine.entries()]
    for table, found_rows in held.items():
        for row in found_rows:
            for value in row:
                text = bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | memoryview) else value
                if MARK in str(text):
                    found.append((table, text))
    return found


def failing(engine: StoreEngine, group: str, **options: Any) -> list[Any]:
    """Let a group fail on all that carries the marker, and quote it in its error."""
    came: list[Any] = []

    def handle(record: Any) -> None:
        came.append(record.value)
        if MARK in str(record.value):
            raise ValueError(f"cannot mail {record.value} to {record.key}")

    engine.outbox.handler(group=group, id=group, **options)(handle)
    return came


def drain(engine: StoreEngine) -> None:
    with suppress(ValueError):
        engine.outbox.drain()


# --- nothing is left ---------------------------------------------------------------------------


def test_nothing_of_an_owner_is_left_in_any_table(engine: StoreEngine, database: Database) -> None:
    """Staged, scheduled, logged, parked, held, alone, dead, copied: key, value, headers and error texts."""
    in_one_partition(engine)
    failing(engine, "parks", retry=Fixed(timedelta(hours=1), max_retries=3))
    failing(engine, "holds", retry=NEVER)
    failing(engine, "alone", retry=Fixed(timedelta(hours=1), max_retries=3), on_failure="alone")
    failing(engine, "gives up", retry=NEVER, on_exhausted="release")
    options: dict[str, Any] = {"owner": MARK, "headers": {"h": MARK}}
    publish(engine, f"copied {MARK}", key=f"a-{MARK}", **options)
    publish(engine, "harmless", key=f"done-{MARK}", **options)
    drain(engine)
    log = engine.outbox.log
    log.retain(log.topic("events"), Keep(age_ms=0))
    assert retain(database, clock=engine.clock).count == 2
    log.retain(log.topic("events"), Keep())
    publish(engine, f"behind {MARK}", key=f"a-{MARK}", **options)
    publish(engine, f"kept {MARK}", key=f"b-{MARK}", **options)
    drain(engine)
    publish(engine, f"staged {MARK}", key=MARK, token=f"token-{MARK}", **options)
    publish(engine, f"scheduled {MARK}", key=MARK, at=timedelta(days=3), **options)
    publish(engine, "another's", owner="another", key="x")
    places = {table for table, _ in marked(engine)}
    assert places == {
        "penstock_staged", "penstock_scheduled", "penstock_log", "penstock_lane", "penstock_lane_entry",
        "penstock_dead",
    }  # fmt: skip
    assert rows(engine, "SELECT 1 FROM penstock_token")
    before = count_owner(database, MARK)
    assert (before.staged, before.scheduled, before.logged) == (1, 1, 2)
    done = erase(database, MARK, clock=engine.clock)
    assert (done.staged, done.scheduled, done.logged) == (1, 1, 2)
    assert done.waiting == before.waiting > 0
    assert done.dead == before.dead > 0
    assert marked(engine) == []
    assert rows(engine, "SELECT 1 FROM penstock_token") == []
    assert count_owner(database, MARK) == erase(database, MARK, clock=engine.clock) == Erased()
    assert (lanes(database).items, dead_letters(database).items) == ([], [])
    assert [row[0] for row in rows(engine, "SELECT owner FROM penstock_staged")] == ["another"]
    entries = audit.audit(database, action="erase").items
    assert {each.subject["owner_sha256"] for each in entries} == {digest(MARK)}
    assert sum(each.count for each in entries) == done.count


def test_only_the_owner_with_that_very_name_is_erased(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    for value, owner in enumerate([None, "me", "me2", "m", "ME"]):
        publish(engine, value, owner=owner)
    engine.outbox.drain()
    assert erase(database, "me", clock=engine.clock) == Erased(logged=1)
    assert [each.value for each in logged(engine)] == [0, 2, 3, 4]


@pytest.mark.parametrize("owner", ["", "x" * 513, "a\0b"])
def test_a_name_that_no_owner_can_have_is_refused(owner: str, engine: StoreEngine, database: Database) -> None:
    with pytest.raises(InvalidOwner):
        erase(database, owner)
    with pytest.raises(InvalidOwner):
        count_owner(database, owner)


def test_the_type_of_erased_records_cannot_be_published(engine: StoreEngine) -> None:
    with engine.connect() as conn, pytest.raises(InvalidType, match="reserved"):
        engine.outbox.publish(conn, "penstock.erased", 1)


def test_many_are_erased_in_bounded_transactions(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "BATCH", 10)
    in_one_partition(engine)
    left: list[int] = []
    with engine.connect() as conn:
        engine.outbox.publish_many(conn, [{"type": "t", "value": n, "owner": "me"} for n in range(35)])
        conn.commit()
    engine.outbox.drain()

    def note() -> None:
        left.append(engine.outbox.log.count_owned("me"))
        points.arm("erase.after_batch", note)

    points.arm("erase.after_batch", note)
    assert erase(database, "me", clock=engine.clock) == Erased(logged=35)
    points.disarm()
    assert sorted(set(left), reverse=True) == [35, 25, 15, 5, 0]


@pytest.mark.parametrize("kind", ["lists"], indirect=True)
def test_an_erasure_that_is_cut_between_log_and_database_leaves_nothing(
    engine: StoreEngine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tags in the log are how the rest is found: what hangs on them is gone before they are."""
    in_one_partition(engine)
    failing(engine, "parks", retry=Fixed(timedelta(hours=1), max_retries=3))
    failing(engine, "holds", retry=NEVER)
    publish(engine, f"one {MARK}", owner=MARK, key=f"a-{MARK}", token=f"token-{MARK}")
    publish(engine, f"two {MARK}", owner=MARK, key=f"a-{MARK}")
    drain(engine)
    log, real = engine.outbox.log, engine.outbox.log.erase

    def cut(*args: Any, **options: Any) -> int:
        real(*args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(log, "erase", cut)
        with pytest.raises(KeyboardInterrupt):
            erase(database, MARK, clock=engine.clock)
    assert log.count_owned(MARK) == 0
    erase(database, MARK, clock=engine.clock)
    assert marked(engine) == []
    assert rows(engine, "SELECT 1 FROM penstock_token") == []
    assert (lanes(database).items, dead_letters(database).items) == ([], [])


# --- readers -----------------------------------------------------------------------------------


def test_readers_pass_over_what_is_erased_and_offsets_stay(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    for value, owner in enumerate(["a", "me", "me", "a", "me"]):
        publish(engine, value, owner=owner)
    engine.outbox.drain()
    assert erase(database, "me", clock=engine.clock) == Erased(logged=3)
    log = engine.outbox.log
    assert log.bounds("events", 0) == (0, 5)
    assert [(each.offset, each.value) for each in log.read("events", 0)] == [(0, 0), (3, 3)]
    assert [each.offset for each in log.read("events", 0, 1, limit=1)] == [3]
    assert log.read("events", 0, 4) == []
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    engine.outbox.drain()
    assert seen.values() == [0, 3]
    assert rows(engine, 'SELECT "offset" FROM penstock_cursor') == [(5,)]


def test_an_erased_record_waits_for_no_handler_that_another_version_may_have(
    engine: StoreEngine, database: Database
) -> None:
    """It is nobody's: the cursor passes it also while the group's filter is about to change."""
    in_one_partition(engine)
    publish(engine, 1)
    engine.outbox.drain()
    erase(database, "me", clock=engine.clock)
    subscribe(engine.outbox, "g", Seen())
    (subscription,) = engine.outbox._handlers.subscriptions()
    member = Member(database, ClusterSettings.load(), engine.clock)
    member.join()
    log = engine.outbox.log
    topic = log.topic("events")
    store = GroupStore(engine.outbox.store, engine.clock, group="g", topic=topic, owner=member.id)
    delivery = GroupDelivery(log, store, subscription, engine.clock)
    delivery.take(member.living)
    delivery.fill(log.ends(topic))
    change(engine, "UPDATE penstock_group SET filter_version = filter_version + 1")
    delivery.settle()
    assert rows(engine, 'SELECT "offset" FROM penstock_cursor') == [(1,)]
    member.leave()


def test_an_owner_that_fetches_an_erased_record_hands_it_to_nobody(engine: StoreEngine, database: Database) -> None:
    """It loaded the lane before the erasure, and reads the record after it."""
    in_one_partition(engine)
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=Fixed(SOON))
    publish(engine, 1)
    engine.outbox.drain()
    engine.clock.advance(2 * SOON)
    (subscription,) = engine.outbox._handlers.subscriptions()
    member = Member(database, ClusterSettings.load(), engine.clock)
    member.join()
    topic = engine.outbox.log.topic("events")
    store = GroupStore(engine.outbox.store, engine.clock, group="g", topic=topic, owner=member.id)
    delivery = GroupDelivery(engine.outbox.log, store, subscription, engine.clock)
    delivery.take(member.living)
    erase(database, "me", clock=engine.clock)
    assert delivery.start(10) == []
    member.leave()


def test_what_a_living_owner_had_in_hand_comes_marked_to_whoever_takes_the_partition(
    engine: StoreEngine, database: Database
) -> None:
    """It is taken from that owner, which may end right then: nobody but the row knows what had begun."""
    in_one_partition(engine)
    publish(engine, 1, owner="a")
    publish(engine, 2, key="other")
    engine.outbox.drain()
    other = engine.another()
    subscribe(other, "g", Seen())
    (subscription,) = other._handlers.subscriptions()
    member = Member(database, ClusterSettings.load(), engine.clock)
    member.join()
    log = other.log
    topic = log.topic("events")

    def hand_out(owner: str) -> list[tuple[Any, bool]]:
        store = GroupStore(other.store, engine.clock, group="g", topic=topic, owner=owner)
        delivery = GroupDelivery(log, store, subscription, engine.clock)
        delivery.take(member.living)
        delivery.fill(log.ends(topic))
        return [(task.record.value, task.record.redelivered) for task in delivery.start(10)]

    assert hand_out(member.id) == [(1, False), (2, False)]
    erase(database, "me", clock=engine.clock)
    assert hand_out("heir") == [(1, True)]
    member.leave()


def test_reconcile_lists_what_is_erased_and_agrees(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    subscribe(engine.outbox, "g", Seen())
    ids = [publish(engine, value, owner=owner) for value, owner in enumerate(["a", "me", "me", "a"])]
    engine.outbox.drain()
    erase(database, "me", clock=engine.clock)
    change(engine, "CREATE TABLE own (id text)")
    for id in ids[:2]:
        change(engine, f"INSERT INTO own VALUES ('{id}')")
    change(engine, f"INSERT INTO own VALUES ('{ids[3]}')")
    before = TableFigures("table", 4, [(0, 0, 4)])
    after = TableFigures("table", 2, [(0, 0, 1), (0, 3, 4)])
    for table in (before, after):
        found = reconcile(database, "events", tables=[table], against="SELECT id FROM own")
        assert found.agrees, found.figures
    assert found.line() == "reconciled: committed=3 logged=4 delivered[g]=2 table=2 erased=2"
    assert found.figures[-1].notes == ["partition 0, 1 to before 3, is erased"]
    less = TableFigures("table", 1, [(0, 0, 1)])
    assert not reconcile(database, "events", tables=[less]).agrees
    engine.lose(2)
    assert not reconcile(database, "events").agrees


# --- lanes go on -------------------------------------------------------------------------------


def test_a_lane_whose_head_is_erased_goes_on_with_its_later_records(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=Fixed(timedelta(hours=1), max_retries=5))
    publish(engine, 1)
    for value in (2, 3):
        publish(engine, value, owner="another")
    engine.outbox.drain()
    assert seen.values() == [1]
    assert erase(database, "me", clock=engine.clock) == Erased(logged=1, waiting=1)
    (lane,) = lanes(database, clock=engine.clock).items
    assert (lane.state, lane.failures, lane.waiting) == (LaneState.SLOW, 0, 2)
    publish(engine, 4, owner=None)
    engine.outbox.drain()
    assert seen.values() == [1, 2, 3, 4]
    assert lanes(database, clock=engine.clock).items == []


def test_a_record_erased_behind_its_head_leaves_the_head_as_it_was(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=Fixed(timedelta(hours=1), max_retries=5))
    publish(engine, 1, owner="another")
    publish(engine, 2)
    publish(engine, 3, owner="another")
    engine.outbox.drain()
    erase(database, "me", clock=engine.clock)
    (lane,) = lanes(database, clock=engine.clock).items
    assert (lane.state, lane.failures, lane.waiting) == (LaneState.PARKED, 1, 2)
    seen.failing.clear()
    engine.clock.advance(timedelta(hours=1))
    engine.outbox.drain()
    assert seen.values() == [1, 1, 3]


def test_a_lane_that_an_erased_letter_held_goes_on(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=NEVER)
    publish(engine, 1)
    publish(engine, 2, owner="another")
    engine.outbox.drain()
    assert erase(database, "me", clock=engine.clock) == Erased(logged=1, dead=1)
    engine.outbox.drain()
    assert seen.values() == [1, 2]


def test_a_lane_that_anothers_letter_holds_stays_held(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    seen = Seen(1)
    subscribe(engine.outbox, "g", seen, retry=NEVER)
    publish(engine, 1, owner="another")
    publish(engine, 2)
    engine.outbox.drain()
    assert erase(database, "me", clock=engine.clock) == Erased(logged=1, waiting=1)
    engine.outbox.drain()
    assert seen.values() == [1]
    (lane,) = lanes(database, clock=engine.clock).items
    assert (lane.state, lane.waiting) == (LaneState.HELD, 0)


def test_an_owner_with_the_record_in_its_memory_writes_nothing_of_it(engine: StoreEngine, database: Database) -> None:
    """It was handed out when it was erased, and fails: neither its key nor its error comes back."""
    in_one_partition(engine)
    publish(engine, 1, key=MARK)
    engine.outbox.drain()
    member = Member(database, ClusterSettings.load(), engine.clock)
    member.join()
    topic = engine.outbox.log.topic("events")
    store = GroupStore(engine.outbox.store, engine.clock, group="g", topic=topic, owner=member.id)
    (owned,) = store.take(member.living).values()
    owned.machine.feed(0, MARK, wanted=True)
    (out,) = owned.machine.take(engine.clock.now_ms(), 1)
    assert erase(database, "me", clock=engine.clock) == Erased(logged=1)
    owned.machine.finish(out.offset, Parked(1, 0, f"cannot mail {MARK}", alone=False))
    settlement = owned.machine.settlement()
    assert settlement is not None
    assert store.settle({0: (owned, settlement)}) == {0}
    assert marked(engine) == []
    member.leave()
    seen = Seen()
    subscribe(engine.outbox, "g", seen)
    publish_values(engine, 2)
    engine.outbox.drain()
    assert seen.values() == [2]


def test_what_is_settled_keeps_its_owner_where_it_is(engine: StoreEngine, database: Database) -> None:
    """A partition changes hands only for what is not settled yet."""
    in_one_partition(engine)
    subscribe(engine.outbox, "g", Seen())
    publish(engine, 1)
    engine.outbox.drain()
    epoch = rows(engine, "SELECT epoch FROM penstock_cursor")
    erase(database, "me", clock=engine.clock)
    assert rows(engine, "SELECT epoch FROM penstock_cursor") == epoch


def test_an_event_that_moves_on_meanwhile_is_erased_where_it_arrives(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    publish(engine, 1)
    publish(engine, 2, at=timedelta(minutes=1))
    points.arm("erase.before_commit", points.fail(RuntimeError("stop")), visit=1)
    with suppress(RuntimeError):
        erase(database, "me", clock=engine.clock)
    engine.clock.advance(timedelta(minutes=2))
    engine.outbox.drain()
    assert erase(database, "me", clock=engine.clock) == Erased(logged=2)
    assert logged(engine) == []


def test_erased_records_are_deleted_by_retention_like_any_other(engine: StoreEngine, database: Database) -> None:
    in_one_partition(engine)
    for value in range(3):
        publish(engine, value)
    engine.outbox.drain()
    erase(database, "me", clock=engine.clock)
    engine.clock.advance(timedelta(days=8))
    assert retain(database, clock=engine.clock).count == 3


@sql_log_only
def test_records_that_a_deleted_topic_has_left_do_not_hide_the_others(engine: StoreEngine, database: Database) -> None:
    """A deletion that was cut short leaves rows; more of them than a batch."""
    with engine.connect() as conn:
        for topic, count in (("gone", 600), ("events", 10)):
            many = [{"type": "t", "value": 1, "key": "k", "owner": "ada"}] * count
            engine.outbox.publish_many(conn, many, topic=topic)
        conn.commit()
    engine.outbox.drain()
    database.run(lambda tx: remove_topic(tx, "gone"))
    assert erase(database, "ada", clock=engine.clock).logged == 610
    assert engine.outbox.log.count_owned("ada") == 0
