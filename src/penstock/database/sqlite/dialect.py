"""SQLite through the standard library's driver.

Our transactions begin IMMEDIATE: they wait for the write lock at the start, where waiting is safe, and never
fail in the middle because another connection wrote. The file is in WAL mode, so readers do not wait;
`synchronous=FULL`, so a commit survives a power cut.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from shutil import disk_usage
from typing import Any, Self

import msgspec

from penstock.clock import SYSTEM
from penstock.errors import Error, SchemaMissing, StoreDamaged, StoreFull, StoreReadOnly, StoreUnreachable

from ..contract import Dialect, NotificationListener, Params, Result, Row, Rows, TransactionState
from ..end_statements import HandlerConnection, refuse_end
from .shared_file import FileConnection, Sign, WriteWatch, can_watch, make_private, shared_file

BUSY_SECONDS = 30.0
_HELD_MS = 500
# Pauses between two checks for a write: the first after a sign that a write has begun, growing by `_LONGER`;
# and, without signs, the longest ones just after a write and long after one.
_FIRST_LOOK_SECONDS, _LOOK_SECONDS, _IDLE_LOOK_SECONDS = 0.0002, 0.005, 0.025
_LONGER = 1.6
_REST_SECONDS = 0.001  # after a write was reported: its readers start sooner, and following writes are reported once
_encode = msgspec.json.encode
OLDEST = (3, 35, 0)  # RETURNING


class SqliteHandlerCursor(sqlite3.Cursor):
    """A handler's cursor: it cannot end the transaction."""

    def execute(self, sql: str, *parameters: Any) -> Self:
        """Execute a statement; refuse one that would end the transaction."""
        refuse_end(sql)
        return super().execute(sql, *parameters)


class SqliteConnection(HandlerConnection, FileConnection):
    """Our connection; while a handler has it as `record.tx`, it cannot end the transaction."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """Execute a statement; refuse one of a handler that would end the transaction."""
        if self.guarded:
            refuse_end(sql)
        return super().execute(sql, *parameters)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute; refuse to a handler those whose change makes the driver commit."""
        if name in ("isolation_level", "autocommit"):
            self.refuse(f"a change of {name}")
        super().__setattr__(name, value)

    def restore(self) -> None:
        """Read rows and texts as before: a caller may have set other factories."""
        if self.row_factory is not None:
            self.row_factory = None
        if self.text_factory is not str:
            self.text_factory = str

    def executescript(self, script: str) -> sqlite3.Cursor:
        """Execute statements; refuse it to a handler, because the driver commits first."""
        self.refuse("executescript(), which commits first,")
        return super().executescript(script)

    def cursor(self, factory: Any = None) -> Any:
        """Return a cursor; a handler's cannot end the transaction."""
        return super().cursor(factory or (SqliteHandlerCursor if self.guarded else sqlite3.Cursor))

    def __enter__(self) -> Self:
        self.refuse("`with`, which commits at its end,")
        return super().__enter__()


class SqliteDialect(Dialect):
    """One SQLite file. Nothing notifies or serializes migrations: there is one writer, and its writes are seen."""

    name = "sqlite"
    lacks: frozenset[str] = frozenset({"writing_with"})
    reports_writes = can_watch()
    writers: int | None = 1

    def __init__(self, path: str, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path, self._busy_seconds = path, busy_seconds
        self._file = shared_file(path)

    def connect(self) -> SqliteConnection:
        before = self._file.before_opening()
        make_private(self.path)
        conn = self._connect()
        self._file.opened(conn, before)
        return conn

    def _connect(self) -> SqliteConnection:
        conn = sqlite3.connect(
            self.path,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
            factory=SqliteConnection,
        )
        try:
            conn.execute("PRAGMA journal_mode=WAL")
            conn.execute("PRAGMA synchronous=FULL")
        except BaseException:
            conn.close()
            raise
        return conn

    def missing_file(self) -> str | None:
        is_missing = os.path.isdir(os.path.dirname(self.path)) and not os.path.exists(self.path)
        return self.path if is_missing else None

    def may_keep(self, conn: SqliteConnection) -> bool:
        return self._file.may_keep(conn)

    def may_use(self, conn: SqliteConnection) -> bool:
        return self._file.may_use(conn)

    def still_answers(self, conn: sqlite3.Connection) -> bool:
        """Return True: there is no server."""
        return True

    def serialize_migrations(self, conn: sqlite3.Connection) -> None:
        """Nothing to do: BEGIN IMMEDIATE allows one writer."""

    @property
    def is_read_only(self) -> bool:
        """Whether a write to the file has failed, and none has succeeded since."""
        return self._file.is_read_only

    def when_renewed(self, drop: Callable[[], None]) -> None:
        self._file.when_renewed(drop)

    def renew(self) -> None:
        self._file.refuse_writes()

    def begin(
        self,
        conn: SqliteConnection,
        *,
        bounded: bool,
        guarded: bool = False,
        lock_ms: int | None = None,
        first: Sequence[tuple[str, Params]] = (),
    ) -> list[Result]:
        """Begin and take the write lock at once, in turn with the other threads of this process."""
        self._file.writers.join(conn, self._busy_seconds)
        conn.guarded = guarded
        conn.execute("BEGIN IMMEDIATE")
        self._file.is_read_only = False
        if guarded:
            conn.execute("SAVEPOINT penstock_unit")
        return self.execute_all(conn, first)

    def seal(self, conn: SqliteConnection) -> bool:
        """Look for the savepoint, which ends with the transaction that set it."""
        conn.guarded = False
        conn.restore()
        try:
            conn.execute("RELEASE penstock_unit")
        except sqlite3.OperationalError as exc:
            if "no such savepoint" not in str(exc):
                raise
            return False
        return True

    def state(self, conn: sqlite3.Connection) -> TransactionState:
        """Ask the driver; SQLite rolls a transaction back on some errors."""
        try:
            return TransactionState.OPEN if conn.in_transaction else TransactionState.ENDED
        except sqlite3.ProgrammingError:  # it is closed
            return TransactionState.ENDED

    def sever(self, conn: sqlite3.Connection) -> None:
        """Roll back and close it; closing alone keeps the lock while a cursor of the connection is alive."""
        with suppress(sqlite3.Error):
            conn.set_authorizer(_only_transactions)
            sqlite3.Connection.rollback(conn)
        self.close(conn)

    def begin_looking(self, conn: sqlite3.Connection) -> None:
        """Begin without the write lock; the first statement takes the snapshot."""
        conn.execute("BEGIN")

    def read_only(self, conn: SqliteConnection, text: str) -> list[Row]:
        """Run it while the connection is query-only; the driver accepts a single statement."""
        conn.execute("PRAGMA query_only = ON")
        try:
            return conn.execute(text).fetchall()
        finally:
            self.rollback(conn)
            conn.execute("PRAGMA query_only = OFF")

    def commit(self, conn: SqliteConnection) -> None:
        conn.restore()
        conn.execute("COMMIT")
        self._file.writers.leave(conn)

    def rollback(self, conn: SqliteConnection) -> None:
        """Roll back if a transaction is still open; SQLite rolls back on some errors."""
        conn.guarded = False
        try:
            conn.restore()
            if conn.in_transaction:
                conn.execute("ROLLBACK")
        finally:
            self._file.writers.leave(conn)

    def close(self, conn: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):
            conn.close()
        self._file.writers.leave(conn)

    def execute(self, conn: sqlite3.Connection, sql: str, params: Params) -> Result:
        cursor = conn.cursor()
        try:
            cursor.row_factory = None  # a caller of `outbox.transaction` may have set another one
            cursor.execute(sql, {name: _as_json(value) for name, value in params.items()})
            return Result(cursor.fetchall(), cursor.rowcount)
        finally:
            cursor.close()  # a cursor kept alive by an error would keep the file open

    def execute_all(self, conn: sqlite3.Connection, calls: Sequence[tuple[str, Params]]) -> list[Result]:
        return [self.execute(conn, sql, params) for sql, params in calls]

    def bulk(self, conn: sqlite3.Connection, sql: str, rows: Rows) -> None:
        conn.executemany(sql, zip(*rows.columns.values(), strict=True))

    def run_script(self, conn: sqlite3.Connection, script: str) -> None:
        """Run several statements; not by `executescript`, which would commit first."""
        for statement in _split(script):
            conn.execute(statement)

    def listen(self, channel: str) -> "SqliteListener":
        return SqliteListener(self)

    def is_held(self) -> bool:
        """Try to take the write lock, for longer than our own transactions take, and release it at once."""
        conn = self.connect()
        try:
            conn.execute(f"PRAGMA busy_timeout = {_HELD_MS}")
            conn.execute("BEGIN IMMEDIATE")
            conn.execute("ROLLBACK")
        except sqlite3.OperationalError as exc:
            return self.is_conflict(exc)
        finally:
            self.close(conn)
        return False

    def is_conflict(self, error: Exception) -> bool:
        return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

    def is_away(self, error: Exception) -> bool:
        return _primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR)

    def translate(self, error: Exception) -> Error | None:
        code = _primary_code(error)
        if code == sqlite3.SQLITE_IOERR and self._is_full():
            return StoreFull(self.path)  # the files beside it could not grow
        if self.is_away(error):
            return StoreUnreachable(self.path, self._why_away(error))
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return StoreDamaged(self.path, str(error))
        if code == sqlite3.SQLITE_FULL:
            return StoreFull(self.path)
        if code == sqlite3.SQLITE_READONLY:
            return StoreReadOnly(self.path)
        return missing_table(error)

    def _is_full(self) -> bool:
        try:
            return not disk_usage(os.path.dirname(self.path)).free
        except OSError:
            return False

    def _why_away(self, error: Exception) -> str:
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):
            return f"there is no folder {folder}; create it first"
        if os.path.isdir(self.path):
            return "it is a folder; name a file in it"
        if os.path.exists(self.path) and not os.access(self.path, os.R_OK):
            return (
                "it belongs to another user; run as that user, or let its group in: chmod g+rw, also of "
                "-wal and -shm beside it"
            )
        return str(error)


class SqliteListener(NotificationListener):
    """Polls SQLite's counter of writes by other connections, which is in shared memory.

    A write to the write-ahead log is a sign, where the system reports it: the commit becomes visible some
    time later, when it is on disk. So it polls often after a sign, then with growing pauses, and after a
    while not at all. Without signs it polls all the time.
    """

    def __init__(self, dialect: SqliteDialect) -> None:
        self._dialect, self._conn = dialect, dialect.connect()
        self._version, self._pause, self._longest = self._read(), _FIRST_LOOK_SECONDS, _LOOK_SECONDS
        self._writes = WriteWatch(f"{dialect.path}-wal")
        self._has_reported = False  # the last write, just now
        self._is_seen = True  # the counter has changed since the last sign
        self._is_woken = False

    def wait(self, seconds: float) -> list[str]:
        """Wait for a write of another connection. Its own one is closed together with the others of this process."""
        if not self._dialect.may_keep(self._conn):
            self._dialect.close(self._conn)
            if self._dialect.is_read_only:
                self._writes.wait(seconds)
                return []
            self._conn = self._dialect.connect()
            self._version = self._read()
            former, self._writes = self._writes, WriteWatch(f"{self._dialect.path}-wal")  # it may be another file
            former.close()
            return [""]
        if self._has_reported:
            self._has_reported = False
            self._writes.rest(_REST_SECONDS)
        end = SYSTEM.monotonic() + seconds
        while (left := end - SYSTEM.monotonic()) > 0 and not self._is_woken:
            version = self._read()
            if version != self._version:
                self._version, self._longest, self._has_reported = version, _LOOK_SECONDS, True
                self._pause, self._is_seen = _LOOK_SECONDS, True
                return [""]
            self._await_sign(min(left, self._pause if self._writes.sees else min(self._pause, self._longest)))
            self._pause = min(self._pause, seconds)
        if not self._is_woken:
            self._longest = _IDLE_LOOK_SECONDS
        self._is_woken = False
        return []

    def _await_sign(self, seconds: float) -> None:
        """Wait until the next check is due, and compute the pause after it, in which further writes cause no check."""
        sign = self._writes.wait(seconds)
        is_first = self._is_seen or self._pause > _LOOK_SECONDS
        if sign is Sign.CALLED or (sign is Sign.WRITTEN and is_first):
            self._pause, self._is_seen = _FIRST_LOOK_SECONDS, False
        if sign is Sign.WRITTEN:
            self._writes.rest(self._pause)
        if sign is not Sign.CALLED:  # also after a change: the sign may belong to another write
            self._pause *= _LONGER

    def wake(self) -> None:
        self._is_woken = True
        self._writes.wake()

    def expect_write(self) -> None:
        """Poll often for a while: the driver reports the end of a transaction before it is on disk."""
        self._writes.wake()

    def close(self) -> None:
        self._writes.close()
        self._dialect.close(self._conn)

    def _read(self) -> int:
        return int(self._conn.execute("PRAGMA data_version").fetchone()[0])


def _only_transactions(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_DENY


def _as_json(value: Any) -> Any:
    if isinstance(value, Rows):
        return _encode(list(zip(*value.columns.values(), strict=True))).decode()
    return _encode(value).decode() if isinstance(value, list) else value


def missing_table(error: Exception) -> SchemaMissing | None:
    """Return SchemaMissing for SQLite's error of a missing table."""
    _, found, table = str(error).partition("no such table: ")
    return SchemaMissing(table) if found and isinstance(error, sqlite3.OperationalError) else None


def _primary_code(error: Exception) -> int | None:
    code: Any = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _split(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
