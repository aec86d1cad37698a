"""The move in one trip: each of its rules, and what happens where it cannot do the work."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from penstock.clock import SYSTEM
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.database.postgres.dialect import PostgresDialect
from penstock.log.contract import OffsetRange
from penstock.log.sql.heads import Fence
from penstock.log.store import store_of
from penstock.model.partition import key_hash
from penstock.outbox.move import MOST_RECORDS, Moved, move_whole
from penstock.outbox.sequencer import Pass, Sequencer, SequencerSettings
from tests.crash.account import breaches, logged
from tests.crash.store import Store, a_member
from tests.crash.waiting import wait_until
from tests.services.pooler import TransactionPooler

KEYS = ["k-1", "k-2", "k-3", "k-1"]
ENOUGH = 1_000_000


@pytest.fixture
def database(postgres_store: Store) -> Iterator[Database]:
    with closing(postgres_store.database()) as opened:
        yield opened


@pytest.fixture
def fence(database: Database) -> Fence:
    return a_member(database).fence


def whole(database: Database, fence: Fence, *, limit: int = 100) -> Moved:
    """Make one trip over all slots."""
    return move_whole(database, SYSTEM, fence, fence.slots(), limit=limit, hand_over=ENOUGH)


def sequenced(database: Database, fence: Fence, *, bytes: int = ENOUGH) -> Pass:
    """Make one pass of a sequencer that hands over."""
    made = Sequencer(store_of(database), SequencerSettings.load(), SYSTEM, hand_over_bytes=bytes)
    return made.sequence(fence)


@contextmanager
def meanwhile(store: Store, database: Database, fence: Fence, *held: str) -> Iterator[Future[Moved]]:
    """Begin a trip that has to wait for statements of another transaction, which commits after the block."""
    with store.connection() as conn, ThreadPoolExecutor(1) as pool:
        for statement in held:
            conn.execute(statement)
        trip = pool.submit(whole, database, fence)
        wait_until(lambda: store.lock_waiters() == 1, "the trip waits")
        conn.commit()
        yield trip


def test_a_trip_moves_all_and_says_what_it_moved(postgres_store: Store, database: Database, fence: Fence) -> None:
    postgres_store.publish_committed("three", KEYS)
    done = sequenced(database, fence)
    assert (done.moved, done.fenced, done.full) == (4, 0, False)
    assert breaches(postgres_store) == []
    log = store_of(database).log
    topic = log.topic("three")
    assert {topic_id for topic_id, _ in done.entries} == {topic.id}
    ends = [OffsetRange(partition, 0, end) for (_, partition), end in sorted(done.ends.items())]
    read = log.read_ranges(topic, ends, max_bytes=ENOUGH).entries
    assert sorted(entry for _, entry in done.entries) == sorted(read)
    assert sequenced(database, fence).moved == 0


def test_what_is_much_is_moved_and_not_handed_over(postgres_store: Store, database: Database, fence: Fence) -> None:
    postgres_store.publish_committed("three", KEYS)
    done = sequenced(database, fence, bytes=64)
    assert (done.moved, list(done.entries), sum(done.ends.values())) == (4, [], 4)
    assert breaches(postgres_store) == []


def test_the_move_itself_compares_owner_and_epoch(postgres_store: Store, database: Database, fence: Fence) -> None:
    """A fence that locks nothing does not stop the statement that follows it."""
    postgres_store.publish_committed("three", KEYS)
    stale = Fence(fence.owner, {slot: epoch - 1 for slot, epoch in fence.epochs.items()})
    other = Fence("somebody else", fence.epochs)
    for wrong in (stale, other):
        assert whole(database, wrong)[:3] == (256, 0, 0)
    assert postgres_store.waiting() == len(KEYS)
    assert whole(database, fence)[:3] == (0, 4, 4)
    assert breaches(postgres_store) == []


def test_slots_that_another_fence_has_locked_are_not_moved(
    postgres_store: Store, database: Database, fence: Fence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move compares owner and epoch itself, whatever the statement before it has locked."""
    postgres_store.publish_committed("three", KEYS)
    locking, run = fence.locking(fence.slots(), waiting=True), database.run_whole
    monkeypatch.setattr(database, "run_whole", lambda calls: run([locking, calls[1]]))
    stale = Fence(fence.owner, {slot: epoch - 1 for slot, epoch in fence.epochs.items()})
    for wrong in (stale, Fence("somebody else", fence.epochs)):
        assert whole(database, wrong).moved == 0
    assert postgres_store.waiting() == len(KEYS)


def test_what_is_staged_in_a_slot_that_was_not_locked_waits(
    postgres_store: Store, database: Database, fence: Fence
) -> None:
    """The fence looked for slots with something before it waited for one of them."""
    postgres_store.publish_committed("three", ["k-1"])
    slot = key_hash("k-1") & 255
    hold = f"SELECT 1 FROM penstock_slot WHERE slot = {slot} FOR UPDATE"
    with postgres_store.connection() as conn, ThreadPoolExecutor(1) as pool:
        conn.execute(hold)
        trip = pool.submit(whole, database, fence)
        wait_until(lambda: postgres_store.lock_waiters() == 1, "the trip waits")
        postgres_store.publish_committed("three", ["k-2", "k-1"])
        conn.commit()
        assert trip.result()[:3] == (0, 2, 2)
    assert postgres_store.waiting() == 1
    assert whole(database, fence)[:3] == (0, 1, 1)
    assert breaches(postgres_store) == []


@pytest.mark.parametrize("lacking", ["topic", "head"])
def test_what_has_no_topic_or_head_yet_stays_staged(
    postgres_store: Store, database: Database, fence: Fence, lacking: str
) -> None:
    postgres_store.publish_committed("three", ["k-1"])
    if lacking == "topic":
        postgres_store.run("UPDATE penstock_topic SET name = 'other' WHERE name = 'three'")
    else:
        postgres_store.run("CREATE TABLE kept AS SELECT * FROM penstock_head")
        postgres_store.run("DELETE FROM penstock_head")
    try:
        assert whole(database, fence)[1:3] == (0, 1)
        assert (postgres_store.waiting(), logged(postgres_store)) == (1, [])
    finally:
        if lacking == "topic":
            postgres_store.run("UPDATE penstock_topic SET name = 'three' WHERE name = 'other'")
        else:
            postgres_store.run("INSERT INTO penstock_head SELECT * FROM kept")
            postgres_store.run("DROP TABLE kept")
    assert whole(database, fence).moved == 1
    assert breaches(postgres_store) == []


def test_a_pass_makes_the_topic_that_a_trip_does_not_find(
    postgres_store: Store, database: Database, fence: Fence
) -> None:
    with postgres_store.connection() as conn:
        postgres_store.outbox.publish(conn, "t", 1, key="k", topic="new")
        postgres_store.outbox.publish(conn, "t", 1, key="k", topic="three")
        conn.commit()
    assert sequenced(database, fence).moved == 2
    assert postgres_store.waiting() == 0
    postgres_store.outbox.log.delete_topic("new")


def test_what_is_staged_waits_for_what_is_due(postgres_store: Store, database: Database, fence: Fence) -> None:
    with postgres_store.connection() as conn:
        postgres_store.outbox.publish(conn, "t", {}, key="k-1", topic="three", at=timedelta(hours=1))
        conn.commit()
    postgres_store.publish_committed("three", ["k-1"])
    assert whole(database, fence)[1:4] == (1, 1, False)
    postgres_store.publish_committed("three", ["k-1"])
    postgres_store.run("UPDATE penstock_scheduled SET due_ms = 0")
    assert whole(database, fence)[1:4] == (0, 0, True)
    assert sequenced(database, fence).moved == 2
    assert [row.version for row in logged(postgres_store)] == [1, None, 2]


def test_offsets_are_those_of_the_locked_heads(postgres_store: Store, database: Database, fence: Fence) -> None:
    """Another writer appends while the trip waits for its head; the trip's snapshot is older than that."""
    postgres_store.publish_committed("three", ["k-1"])
    raise_heads = (
        "UPDATE penstock_head h SET next_offset = 5 FROM penstock_topic t WHERE t.id = h.topic_id AND t.name = 'three'"
    )
    with meanwhile(postgres_store, database, fence, raise_heads) as trip:
        done = trip.result()
    assert list(done.ends.values()) == [6]
    assert [row.offset for row in logged(postgres_store)] == [5]
    assert [row[0] for row in postgres_store.rows("SELECT max(next_offset) FROM penstock_head")] == [6]


def test_partitions_are_counted_as_the_locked_topic_says(
    postgres_store: Store, database: Database, fence: Fence
) -> None:
    """A topic that grows while the trip waits: nothing goes where the old count says."""
    postgres_store.publish_committed("three", KEYS)
    grow = "UPDATE penstock_topic SET partitions = 1 WHERE name = 'three'"
    lock = "SELECT 1 FROM penstock_topic WHERE name = 'three' FOR UPDATE"
    try:
        with meanwhile(postgres_store, database, fence, lock, grow) as trip:
            assert trip.result().moved == len(KEYS)
        assert {row.partition for row in logged(postgres_store)} == {0}
    finally:
        postgres_store.run("UPDATE penstock_topic SET partitions = 3 WHERE name = 'three'")


def test_what_somebody_takes_meanwhile_is_not_added(postgres_store: Store, database: Database, fence: Fence) -> None:
    gone, *_ = postgres_store.publish_committed("three", KEYS)
    remove = f"DELETE FROM penstock_staged WHERE id = '{gone}'"
    with meanwhile(postgres_store, database, fence, remove) as trip:
        assert trip.result()[1:3] == (3, 4)
    postgres_store.run("DELETE FROM promised WHERE id = ?", gone)
    assert breaches(postgres_store) == []


@pytest.fixture
def a_log_that_swallows(postgres_store: Store) -> Iterator[None]:
    """Let the log take no record of key k-1, without an error."""
    postgres_store.run(
        "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; "
        "CREATE TRIGGER swallow BEFORE INSERT ON penstock_log FOR EACH ROW WHEN (NEW.key = 'k-1') "
        "EXECUTE FUNCTION swallow()"
    )
    yield
    postgres_store.run("DROP FUNCTION swallow CASCADE")


@pytest.mark.usefixtures("a_log_that_swallows")
def test_nothing_is_committed_when_not_all_that_was_removed_was_added(
    postgres_store: Store, database: Database, fence: Fence
) -> None:
    postgres_store.publish_committed("three", KEYS)
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="removed 4, raised by 2"):
        whole(database, fence)
    assert (postgres_store.waiting(), logged(postgres_store)) == (len(KEYS), [])


@pytest.fixture
def a_commit_that_fails(postgres_store: Store) -> Iterator[None]:
    """Let every COMMIT of a move fail."""
    postgres_store.run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'not now'; END $$; "
        "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON penstock_log DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    yield
    postgres_store.run("DROP FUNCTION refuse CASCADE")


@pytest.mark.usefixtures("a_commit_that_fails")
def test_a_commit_that_fails_hands_nothing_over(postgres_store: Store, database: Database, fence: Fence) -> None:
    postgres_store.publish_committed("three", KEYS)
    with pytest.raises(psycopg.errors.RaiseException, match="not now"):
        sequenced(database, fence)
    assert postgres_store.waiting() == len(KEYS)


def test_only_the_word_commit_is_success(database: Database, fence: Fence, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server answers COMMIT with ROLLBACK, without an error, where something had failed before."""
    monkeypatch.setattr(psycopg.Cursor, "statusmessage", "ROLLBACK")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction, match="nothing is committed"):
        whole(database, fence)


def test_behind_a_pooler_nothing_is_prepared(postgres_store: Store) -> None:
    with (
        TransactionPooler(postgres_store.url) as pooler,
        closing(Store(pooler.url)) as far,
        closing(far.database()) as database,
    ):
        fence = a_member(database).fence
        for _ in range(4):
            postgres_store.publish_committed("three", KEYS)
            assert sequenced(database, fence).moved == len(KEYS)
        with database.looking() as tx:
            assert tx.conn.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
    assert breaches(postgres_store) == []


def test_prepared_statements_that_somebody_dropped_are_done_without(
    postgres_store: Store, database: Database, fence: Fence
) -> None:
    postgres_store.publish_committed("three", KEYS)
    assert whole(database, fence).moved == len(KEYS)
    with database._opened(database._idle_for_whole) as tx:
        assert tx.conn.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (2,)
        tx.conn.execute("DISCARD ALL")
    postgres_store.publish_committed("three", KEYS)
    assert whole(database, fence).moved == len(KEYS)
    assert breaches(postgres_store) == []


def test_a_session_that_the_server_ended_while_idle_is_not_used(
    postgres_store: Store, database: Database, fence: Fence
) -> None:
    postgres_store.publish_committed("three", KEYS)
    assert whole(database, fence).moved == len(KEYS)
    postgres_store.rows(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'penstock'"
    )
    postgres_store.publish_committed("three", KEYS)
    assert whole(database, fence).moved == len(KEYS)
    assert breaches(postgres_store) == []


def test_a_database_that_is_serializable_by_default_does_not_matter(
    postgres_store: Store, fence: Fence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one snapshot for the whole transaction, what was appended since the lock would be a conflict."""
    monkeypatch.setattr(PostgresDialect, "is_conflict", lambda self, error: False)  # else it is run again
    url = postgres_store.url + "&options=-cdefault_transaction_isolation%3Dserializable"
    postgres_store.publish_committed("three", ["k-1"])
    raise_heads = "UPDATE penstock_head SET max_ms = max_ms + 1"
    with closing(open_database(url, Names())) as strict, meanwhile(postgres_store, strict, fence, raise_heads) as trip:
        assert trip.result().moved == 1
    assert breaches(postgres_store) == []


def test_the_plan_walks_indexes_however_small_the_tables_were(database: Database, fence: Fence) -> None:
    """It was made while they were empty, and is kept: with a million rows it must do as well."""
    assert whole(database, fence).moved == 0
    with database._opened(database._idle_for_whole) as tx:
        found = tx.conn.execute(
            "SELECT name, cardinality(parameter_types) FROM pg_prepared_statements "
            "WHERE statement LIKE '%penstock_staged%'"
        ).fetchall()
        assert len(found) == 2  # the fence and the move
        for name, count in found:
            nulls = ", ".join(["NULL"] * count)
            plan = "\n".join(row[0] for row in tx.conn.execute(f"EXPLAIN EXECUTE {name}({nulls})"))
            assert "Seq Scan" not in plan


def test_a_backlog_goes_step_by_step_in_large_batches(
    postgres_store: Store, database: Database, fence: Fence, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Any] = []
    fenced = Sequencer._fenced

    def noted(self: Sequencer, *args: Any) -> Pass:
        steps.append(args)
        return fenced(self, *args)

    monkeypatch.setattr(Sequencer, "_fenced", noted)
    made = Sequencer(store_of(database), SequencerSettings.load(), SYSTEM)
    postgres_store.publish_committed("wide", [f"k-{number % 48}" for number in range(MOST_RECORDS + 50)])
    first = made.sequence(fence)
    assert (first.moved, len(steps)) == (MOST_RECORDS + 50, 1)  # all of it, in the order of staging
    for _ in range(2):  # the next move still goes by steps: there may be more
        postgres_store.publish_committed("wide", ["k-1"])
        assert made.sequence(fence).moved == 1
    assert len(steps) == 2
    assert breaches(postgres_store) == []
