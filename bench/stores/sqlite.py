"""SQLite: files in a folder of ours, WAL mode, synchronous=FULL."""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.run import Run
from bench.stores.contract import Store
from bench.stores.recording import Call, Tape
from penstock import Outbox
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.database.sqlite.dialect import SqliteConnection, SqliteDialect


class SqliteStore:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self.outbox = Outbox(self.url)
        self._kind: type[SqliteConnection] = SqliteConnection

    def connect(self, *, autocommit: bool = False) -> SqliteConnection:
        """Open the file with the driver's defaults."""
        conn = sqlite3.connect(self.path, timeout=30, factory=self._kind, check_same_thread=False)
        if autocommit:
            conn.isolation_level = None
        sqlite3.Connection.execute(conn, "PRAGMA synchronous=FULL")  # the default; said so that it is seen
        return conn

    def database(self) -> Database:
        """Return Penstock's own way to it."""
        if self._kind is SqliteConnection:
            return open_database(self.url, Names())
        return Database(_RecordedDialect(self), Names())

    def tidy(self) -> None:
        """Vacuum; SQLite gathers no statistics unless it is asked to."""
        with closing(self.connect(autocommit=True)) as conn:
            conn.execute("VACUUM")

    @contextmanager
    def recording(self, tape: Tape) -> Iterator[None]:
        """Record by a class of connections of our own."""
        self._kind = _recording(tape)
        try:
            yield
        finally:
            self._kind = SqliteConnection

    def play(self, conn: sqlite3.Connection, tape: Tape) -> None:
        """Run a tape."""
        for call in tape:
            (conn.executemany if call.many else conn.execute)(call.sql, call.params).fetchall()


class SqliteEngine:
    """The folder; the database works inside our own process, so its CPU is ours."""

    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self) -> SqliteStore:
        """Make a file."""
        store = SqliteStore(self._folder / f"{uuid4().hex}.db")
        store.outbox.migrate()
        store.outbox.close()
        return store

    def copy(self, store: Store) -> SqliteStore:
        """Copy a file; the last connection to it has folded the write-ahead log into it."""
        assert isinstance(store, SqliteStore)
        path = self._folder / f"{uuid4().hex}.db"
        shutil.copyfile(store.path, path)
        return SqliteStore(path)

    def drop(self, store: Store) -> None:
        """Remove a file and what stands beside it."""
        assert isinstance(store, SqliteStore)
        store.outbox.close()
        for path in self._folder.glob(f"{store.path.name}*"):
            path.unlink()

    def watch(self, run: Run) -> None:
        """Nothing to watch."""


@contextmanager
def sqlite(run: Run) -> Iterator[SqliteEngine]:
    """Give the folder of a case."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        yield SqliteEngine(Path(folder))


class _RecordedDialect(SqliteDialect):
    def __init__(self, store: SqliteStore) -> None:
        super().__init__(str(store.path))
        self._store = store

    def connect(self) -> SqliteConnection:
        return self._store.connect(autocommit=True)


def _recording(tape: Tape) -> type[SqliteConnection]:
    class RecordingCursor(sqlite3.Cursor):
        def execute(self, sql: str, params: Any = (), /) -> Any:
            tape.append(Call(sql, params))
            return super().execute(sql, params)

        def executemany(self, sql: str, rows: Any, /) -> Any:
            tape.append(Call(sql, rows, many=True))
            return super().executemany(sql, rows)

    class Recording(SqliteConnection):  # its own `execute` would make a plain cursor
        def cursor(self, factory: Any = RecordingCursor, /) -> Any:
            return super().cursor(factory)

        def execute(self, sql: str, params: Any = (), /) -> Any:
            return self.cursor().execute(sql, params)

        def executemany(self, sql: str, rows: Any, /) -> Any:
            return self.cursor().executemany(sql, rows)

    return Recording
