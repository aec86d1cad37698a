"""The Database: transactions that run again; connections that are kept, replaced, not shared by a fork."""

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread

import psycopg
import pytest

from penstock.database import database as module
from penstock.database.contract import Rows
from penstock.database.database import Database, Transaction
from penstock.database.dialects import open_database
from penstock.database.migrations import migrate
from penstock.database.naming import Names
from penstock.errors import PickChanged, StoreLocked, StoreUnreachable, TopicVanished
from penstock.log.sql.log import SqlLog
from penstock.log.sql.topics import make_topic
from tests.suites.refusal import refusal


@pytest.fixture
def database(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Give a database with its tables, whose pauses are short."""
    monkeypatch.setattr(module, "_FIRST_PAUSE_SECONDS", 0.0001)
    monkeypatch.setattr(module, "_LONGEST_PAUSE_SECONDS", 0.001)
    opened = open_database(migrated_url, Names())
    migrate(opened)
    yield opened
    opened.close()


def conflict(database: Database) -> Exception:
    """Return an error that means: others were in the way."""
    if database.dialect.name == "postgres":
        return psycopg.errors.SerializationFailure("others")
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


class Work:
    """Fails so many times, then gives how often it was tried."""

    def __init__(self, times: int, error: Exception) -> None:
        self.times, self.error, self.tried = times, error, 0

    def __call__(self, tx: Transaction) -> int:
        self.tried += 1
        tx.conn.execute("UPDATE penstock_slot SET epoch = epoch + 1 WHERE slot = 0")
        if self.tried <= self.times:
            raise self.error
        return self.tried


def epoch(database: Database) -> int:
    """Return how many of those updates were committed."""
    query = "SELECT epoch FROM penstock_slot WHERE slot = 0"
    return database.look(lambda tx: int(tx.conn.execute(query).fetchone()[0]))


def test_work_is_committed_once(database: Database) -> None:
    assert database.run(Work(0, ValueError())) == 1
    assert epoch(database) == 1


def test_a_conflict_is_run_again_from_the_beginning(database: Database) -> None:
    for error in (conflict(database), TopicVanished(), PickChanged(2, 1)):
        before = epoch(database)
        assert database.run(Work(3, error)) == 4
        assert epoch(database) == before + 1


def test_a_conflict_that_stays_is_given_up_after_ten_replays(database: Database) -> None:
    """T-27."""
    work = Work(1_000, conflict(database))
    locked = refusal(StoreLocked, database.run, work)
    assert locked.__cause__ is work.error
    assert work.tried == 11
    assert epoch(database) == 0


def test_any_other_error_is_not_run_again(database: Database) -> None:
    for error in (ValueError("ours"), sqlite3.IntegrityError("no"), psycopg.errors.UniqueViolation("no")):
        work = Work(1, error)
        assert refusal(type(error), database.run, work) is error
        assert work.tried == 1
    assert epoch(database) == 0


def test_a_connection_is_used_again(database: Database) -> None:
    first = database.run(lambda tx: id(tx.conn))
    assert database.run(lambda tx: id(tx.conn)) == first
    assert database.look(lambda tx: id(tx.conn)) == first


def test_threads_have_connections_of_their_own(database: Database) -> None:
    together = Barrier(3)

    def work(_: int) -> int:
        return database.look(lambda tx: (together.wait(), id(tx.conn))[1])

    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(work, range(3)))) == 3


def test_an_error_leaves_a_connection_that_can_be_used(database: Database) -> None:
    first = database.run(lambda tx: id(tx.conn))
    refusal(ValueError, database.run, Work(1, ValueError()))
    assert database.run(lambda tx: id(tx.conn)) == first


def test_what_ends_the_program_closes_the_connection(database: Database) -> None:
    """It may stand in the middle of anything."""
    conns = []

    def work(tx: Transaction) -> None:
        conns.append(tx.conn)
        raise KeyboardInterrupt

    refusal(KeyboardInterrupt, database.run, work)
    refusal(Exception, conns[0].execute, "SELECT 1")
    assert database.run(Work(0, ValueError())) == 1


def test_a_closed_database_keeps_no_connection_but_still_works(database: Database) -> None:
    conns = [database.run(lambda tx: tx.conn)]
    database.close()
    refusal(Exception, conns[0].execute, "SELECT 1")
    conns.append(database.run(lambda tx: tx.conn))
    refusal(Exception, conns[1].execute, "SELECT 1")
    database.close()


def in_child(work: Callable[[], object]) -> int:
    """Run some work in a forked process and return how it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(60)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_fork_shares_no_connection_with_its_parent(database: Database) -> None:
    """Neither by using one nor by closing it: the parent's transactions go on."""
    database.run(Work(0, ValueError()))
    (kept,) = database._idle

    def child() -> None:
        database.run(Work(0, ValueError()))
        assert kept not in database._idle
        database.close()

    assert in_child(child) == 0
    assert in_child(database.close) == 0
    assert database.run(Work(0, ValueError())) == 1
    assert database._idle == [kept]
    assert epoch(database) == 3


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_commit_in_doubt_is_not_run_again(database: Database) -> None:
    """The connection is cut before the answer: whoever asked must compare and decide."""
    work = Work(0, ValueError())
    commit = database.dialect.commit

    def cut(conn: "psycopg.Connection[tuple[object, ...]]") -> None:
        commit(conn)
        conn.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    database.dialect.commit = cut  # type: ignore[method-assign]
    refusal(StoreUnreachable, database.run, work)
    database.dialect.commit = commit  # type: ignore[method-assign]
    assert work.tried == 1
    assert epoch(database) == 1


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_transaction_of_ours_says_how_it_runs(database: Database, migrated_url: str) -> None:
    """Read committed whatever the role's default is, and limits of its own; a caller's has none."""

    def settings(tx: Transaction) -> list[str]:
        names = ("transaction_isolation", "lock_timeout", "idle_in_transaction_session_timeout")
        return [tx.conn.execute(f"SHOW {name}").fetchone()[0] for name in names]

    assert database.run(settings) == ["read committed", "15s", "15s"]
    with database.transaction(bounded=False) as tx:
        assert settings(tx) == ["read committed", "0", "0"]
    strict = open_database(f"{migrated_url}%20-cdefault_transaction_isolation%3Dserializable", Names())
    assert strict.run(settings)[0] == "read committed"
    strict.close()


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_commit_of_ours_in_a_file_survives_a_power_cut(database: Database) -> None:
    def settings(tx: Transaction) -> list[object]:
        return [tx.conn.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    full = 2
    assert database.run(settings) == database.look(settings) == ["wal", full]


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
@pytest.mark.parametrize("level", ["on", "local", "remote_apply", "off"])
def test_a_commit_of_ours_is_as_durable_as_the_server_is_set(database: Database, migrated_url: str, level: str) -> None:
    """Also on a connection that has notified, which need not be durable."""
    opened = open_database(f"{migrated_url}%20-csynchronous_commit%3D{level}", Names())

    def setting(tx: Transaction) -> str:
        return str(tx.conn.execute("SHOW synchronous_commit").fetchone()[0])

    with opened.looking() as tx:
        opened.dialect.notify(tx.conn, "penstock_staged", "")
    assert opened.run(setting) == opened.look(setting) == level
    opened.close()


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_topic_deleted_while_it_is_made_is_made_again(database: Database) -> None:
    """Found by the insert, gone before it was locked: the work runs once more."""
    log = SqlLog(database)
    before = log.create_topic("t", partitions=1)

    class Interrupted(Transaction):
        """Lets another delete the topic between two statements."""

        def change(self, room: str, name: str, /, **params: object) -> int:
            changed = super().change(room, name, **params)
            if name == "topic_create" and not deleting.ident:
                deleting.start()
                deleting.join()
            return changed

    deleting = Thread(target=log.delete_topic, args=("t",))
    made = database.run(lambda tx: make_topic(Interrupted(database, tx.conn), "t", 3, "murmur3", None))
    assert made.id != before.id
    assert made.partitions == 3


def test_rows_are_as_many_as_their_columns_are_long() -> None:
    assert len(Rows(a=[1, 2, 3], b=["x", "y", "z"])) == 3
    assert len(Rows(a=[])) == 0
