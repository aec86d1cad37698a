"""The engines under test: an outbox on each, its URL, and the caller's own connections to it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from penstock import Outbox, Record
from penstock.clock import Clock
from penstock.database.contract import Result
from penstock.database.database import Database
from penstock.log.contract import Log, Position
from penstock.log.entry import Entry
from penstock.log.files.log import FileLog
from penstock.log.store import Store, open_store
from penstock.testing import FakeClock
from tests.conformance.file_damage import change_records
from tests.suites.list_log import ListLog

NAMES = ("memory", "sqlite", "postgres")
DATABASES = ("sqlite", "postgres")  # memory is SQLite without a disk: the shipped suites show it


class StoreEngine:
    """One empty store with an outbox on it, whose time is in the test's hand."""

    def __init__(self, url: str, log: Log | None = None) -> None:
        """`log`: where the log is, if not in the database."""
        self.url, self.clock, self._log = url, FakeClock(), log
        self._opened: list[Outbox] = []
        self.outbox = self.another()
        self.outbox.migrate()

    def another(self, clock: Clock | None = None, **options: Any) -> Outbox:
        """Open one more outbox on the same store."""
        outbox = Outbox(self._place(), clock=clock or self.clock, **options)
        self._opened.append(outbox)
        return outbox

    def _place(self) -> str | Store:
        return self.url if self._log is None else replace(open_store(self.url), log=self._log)

    def database(self) -> Database:
        """Open a database of the test's own; what operates on it finds the log, wherever that is."""
        database = open_store(self.url).database
        if self._log is not None:
            database.store = Store(self._log, database, self.url)  # type: ignore[attr-defined]
        return database

    # -- the log, looked at and damaged behind its back: its rows, where it is in the database

    def entries(self) -> list[Entry]:
        """Return all that the log holds, by topic and place, with owner tags."""
        log = self.outbox.log
        return [
            each
            for topic in log.topics()
            for number, bounds in sorted(log.all_bounds(topic).items())
            for each in log.at(topic, [Position(number, offset) for offset in range(*bounds)])
        ]

    def count(self, table: str) -> int:
        """Return how many rows a table has; `log` and `head` are not tables of every log."""
        if self._log is not None and table in ("log", "head"):
            heads = [each for topic in self._log.topics() for each in self._log.all_bounds(topic)]
            return len(heads if table == "head" else self.entries())
        with self.connect() as conn:
            (found,) = conn.execute(f"SELECT count(*) FROM penstock_{table}").fetchone()
            conn.rollback()
        return int(found)

    def offsets(self) -> list[int]:
        """Return the offsets of all that the log holds, sorted; where it has rows, also of hidden ones."""
        if self._log is not None:
            return sorted(each.offset for each in self.entries())
        with self.connect() as conn:
            found = conn.execute('SELECT "offset" FROM penstock_log ORDER BY 1').fetchall()
            conn.rollback()
        return [row[0] for row in found]

    def lose(self, *offsets: int) -> None:
        """Lose records of all topics: nothing but damage does that."""
        if isinstance(self._log, FileLog):
            for topic in self._log.topics():
                change_records(self._log, topic, dict.fromkeys(offsets))
        elif self._log is not None:
            assert isinstance(self._log, ListLog)
            for topic in self._log.topics():
                places = [Position(number, each) for number in self._log.all_bounds(topic) for each in offsets]
                self._log.lose(topic, places)
        else:
            chosen = ", ".join(map(str, offsets))
            self._change(f'DELETE FROM penstock_log WHERE "offset" IN ({chosen})')

    def enlarge(self, *offsets: int, size: int) -> None:
        """Give records of partition 0 another value, of so many zeros: nothing but damage does that."""
        if isinstance(self._log, FileLog):
            change_records(self._log, self._log.topic("events"), dict.fromkeys(offsets, bytes(size)), {0})
        elif self._log is not None:
            assert isinstance(self._log, ListLog)
            for each in offsets:
                self._log.falsify(self._log.topic("events"), Position(0, each), bytes(size))
        else:
            zeros = f"decode(repeat('00', {size}), 'hex')" if self.is_postgres else f"zeroblob({size})"
            chosen = ", ".join(map(str, offsets))
            self._change(f'UPDATE penstock_log SET value = {zeros} WHERE "offset" IN ({chosen})')

    @property
    def is_postgres(self) -> bool:
        """Whether the database is PostgreSQL."""
        return self.url.startswith("postgresql://")

    def _change(self, statement: str) -> None:
        with self.connect() as conn:
            conn.execute(statement)
            conn.commit()

    @contextmanager
    def connect(self) -> Iterator[Any]:
        """Give a connection as a caller would open it, in its driver's default mode."""
        with borrowed(self.url) if self.url.startswith("postgresql://") else closing(connect(self.url)) as conn:
            yield conn

    def close(self) -> None:
        """Close all that was opened."""
        for outbox in self._opened:
            outbox.close()


def lock_waits(engine: StoreEngine) -> int:
    """Return how many transactions in PostgreSQL wait for another to end."""
    query = """SELECT count(*) FROM pg_stat_activity
               WHERE wait_event_type = 'Lock' AND datname = current_database()"""
    with engine.connect() as conn:
        (found,) = conn.execute(query).fetchone()
        conn.rollback()
    return int(found)


def counting(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that from now on gets the text of each statement run on a database of the test's own."""
    executed: list[str] = []
    execute = database.dialect.execute

    def noted(conn: Any, sql: str, params: Any) -> Result:
        executed.append(sql)
        return execute(conn, sql, params)

    monkeypatch.setattr(database.dialect, "execute", noted)
    return executed


def driver_of(record: Record) -> Any:
    """Return `record.tx` with all that its driver has, also what a handler has no business with."""
    return record.tx


def connect(url: str, **options: Any) -> Any:
    """Return a connection of the caller's own to a store."""
    if url.startswith("postgresql://"):
        return psycopg.connect(url, **options)
    if url.startswith("memory://"):
        name = url.removeprefix("memory://")
        return sqlite3.connect(f"file:/penstock-{name}?vfs=memdb", uri=True, timeout=30, **options)
    return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, **options)


def postgres_schema_url(database_url: str) -> str:
    """Make an empty schema in a database and return the address whose connections stand in it."""
    schema = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    return f"{database_url}&options=-csearch_path%3D{schema}"


def hasty(database_url: str) -> None:
    """Let commits in a database return before the disk has them."""
    with psycopg.connect(database_url, autocommit=True) as conn:
        name = sql.Identifier(conn.info.dbname)
        conn.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(name))


def migrated(url: str) -> str:
    """Make the tables in a store and return its address."""
    outbox = Outbox(url)
    outbox.migrate()
    outbox.close()
    return url


_idle: dict[str, "psycopg.Connection[Any]"] = {}


@contextmanager
def borrowed(url: str) -> Iterator["psycopg.Connection[Any]"]:
    """Give a connection to PostgreSQL that the next borrower gets, too: to the server a new one is dear.

    What a test left open is rolled back, as by a close. Who changes a session opens one with `connect`.
    """
    conn = _idle.pop(url, None)
    try:
        if conn is not None:
            conn.execute("RESET ALL")
            conn.rollback()
    except psycopg.OperationalError:  # a test has ended it
        conn = None
    conn = conn or connect(url, prepare_threshold=None)  # tests make tables of one name in many shapes
    try:
        yield conn
    finally:
        if conn.closed or conn.autocommit or url in _idle:
            conn.close()
        else:
            conn.rollback()
            _idle[url] = conn


# All rows that tests write, owners and epochs, and the tables they have made beside ours. In a function the
# server plans its statements once for each connection.
_EMPTY = """
CREATE FUNCTION public.emptied() RETURNS void LANGUAGE plpgsql SET lock_timeout = '30s' AS $$
DECLARE made record;
BEGIN
    FOR made IN SELECT tablename AS name FROM pg_tables
        WHERE schemaname = '{schema}' AND NOT starts_with(tablename, 'penstock_')
    LOOP
        EXECUTE format('DROP TABLE IF EXISTS {schema}.%I CASCADE', made.name);
    END LOOP;
    {deletes}
    UPDATE {schema}.penstock_slot SET owner = NULL, owner_wanted = NULL, epoch = 0
        WHERE owner IS NOT NULL OR owner_wanted IS NOT NULL OR epoch <> 0;
END $$
"""
_OURS = """
SELECT schemaname, tablename FROM pg_tables
WHERE schemaname = current_schema() AND tablename NOT IN ('penstock_meta', 'penstock_slot')
"""


def learn_to_empty(url: str) -> None:
    """Teach the database of a store with its tables made how it is emptied."""
    with borrowed(url) as conn:
        tables = conn.execute(_OURS).fetchall()
        deletes = " ".join(f"DELETE FROM {schema}.{table};" for schema, table in tables)
        conn.execute(sql.SQL(_EMPTY.format(schema=tables[0][0], deletes=deletes)))
        conn.commit()


def emptied(url: str) -> str:
    """Take out of a store in PostgreSQL what a test has left, and return its address."""
    with borrowed(url) as conn:
        conn.execute("SELECT public.emptied()")
        conn.commit()
    return url


def memory_url() -> str:
    """Return the address of a store in memory that nobody else knows."""
    return f"memory://{uuid4()}"


def sqlite_url(folder: Path) -> str:
    """Return the address of a new file."""
    return f"sqlite:///{folder / f'{uuid4().hex}.db'}"
