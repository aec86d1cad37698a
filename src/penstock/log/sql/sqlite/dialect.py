"""SQLite through the standard library's driver.

Our transactions begin IMMEDIATE: they wait for the one writer's place at the start, where waiting is safe,
and never fail in the middle because someone else wrote. The file is in WAL mode, so readers do not wait;
`synchronous=FULL`, so a commit survives a power cut.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Event
from typing import Any

import msgspec

from penstock.errors import Error, SchemaMissing, StoreFull, StoreReadOnly, StoreUnreachable

from ..contract import Params, Result, Row, Rows

BUSY_SECONDS = 30.0
_LOOK_SECONDS, _IDLE_LOOK_SECONDS = 0.005, 0.025
_encode = msgspec.json.encode
OLDEST = (3, 35, 0)  # RETURNING


class SqliteDialect:
    """One SQLite file."""

    name = "sqlite"
    deletes_returning = False
    has_schemas = False
    notifies = False

    def __init__(self, path: str) -> None:
        self.path = path

    def connect(self) -> sqlite3.Connection:
        """Open the file, making it if it is not there."""
        conn = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            conn.execute("PRAGMA journal_mode=WAL")
            conn.execute("PRAGMA synchronous=FULL")
        except BaseException:
            conn.close()
            raise
        return conn

    def begin(self, conn: sqlite3.Connection, *, bounded: bool) -> None:
        """Begin, taking the writer's place at once."""
        conn.execute("BEGIN IMMEDIATE")

    def commit(self, conn: sqlite3.Connection) -> None:
        """Commit."""
        conn.execute("COMMIT")

    def rollback(self, conn: sqlite3.Connection) -> None:
        """Roll back if a transaction is still open; SQLite ends it by itself after some errors."""
        if conn.in_transaction:
            conn.execute("ROLLBACK")

    def close(self, conn: sqlite3.Connection) -> None:
        """Close."""
        with suppress(sqlite3.Error):
            conn.close()

    def execute(self, conn: sqlite3.Connection, sql: str, params: Params) -> Result:
        """Run one statement."""
        cursor = conn.cursor()
        cursor.row_factory = None  # a caller of `outbox.transaction` may have set the connection's
        cursor.execute(sql, {name: _as_json(value) for name, value in params.items()})
        return Result(cursor.fetchall(), cursor.rowcount)

    def bulk(self, conn: sqlite3.Connection, sql: str, rows: Sequence[Row]) -> None:
        """Run an INSERT for all rows."""
        conn.executemany(sql, rows)

    def run_script(self, conn: sqlite3.Connection, script: str) -> None:
        """Run several statements; not by `executescript`, which would commit first."""
        for statement in _split(script):
            conn.execute(statement)

    def serialize_migrations(self, conn: sqlite3.Connection) -> None:
        """Nothing to do: BEGIN IMMEDIATE admits one writer."""

    def notify(self, conn: sqlite3.Connection, channel: str) -> None:
        """Nothing to do: whoever listens sees that the file was written."""

    def listen(self, channel: str) -> "SqliteListener":
        """Listen for writes of others."""
        return SqliteListener(self.connect())

    def is_conflict(self, error: Exception) -> bool:
        """Another process held the writer's place for longer than we wait."""
        return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

    def is_away(self, error: Exception) -> bool:
        """The file cannot be opened or read now."""
        return _primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR)

    def translate(self, error: Exception) -> Error | None:
        """Say what a file that is away, full or read-only, or a missing table means."""
        code = _primary_code(error)
        if self.is_away(error) or code == sqlite3.SQLITE_NOTADB:
            return StoreUnreachable(self.path, str(error))
        if code == sqlite3.SQLITE_FULL:
            return StoreFull(self.path)
        if code == sqlite3.SQLITE_READONLY:
            return StoreReadOnly(self.path)
        return missing_table(error)


class SqliteListener:
    """Looks at SQLite's counter of writes by other connections; it stands in shared memory."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn, self._pause = conn, Event()
        self._version, self._seconds = self._read(), _LOOK_SECONDS

    def wait(self, seconds: float) -> bool:
        """Look every few milliseconds until somebody has written, less often when that is long ago."""
        for _ in range(max(1, round(seconds / self._seconds))):
            version = self._read()
            if version != self._version:
                self._version, self._seconds = version, _LOOK_SECONDS
                return True
            self._pause.wait(self._seconds)
        self._seconds = _IDLE_LOOK_SECONDS
        return False

    def close(self) -> None:
        """Close its connection."""
        self._conn.close()

    def _read(self) -> int:
        return int(self._conn.execute("PRAGMA data_version").fetchone()[0])


def _as_json(value: Any) -> Any:
    if isinstance(value, Rows):
        return _encode(list(zip(*value.columns.values(), strict=True))).decode()
    return _encode(value).decode() if isinstance(value, list) else value


def missing_table(error: Exception) -> SchemaMissing | None:
    """Return SchemaMissing if that is what SQLite's error says."""
    _, found, table = str(error).partition("no such table: ")
    return SchemaMissing(table) if found and isinstance(error, sqlite3.OperationalError) else None


def _primary_code(error: Exception) -> int | None:
    code: Any = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _split(script: str) -> Iterator[str]:
    """Yield the statements of a script."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
