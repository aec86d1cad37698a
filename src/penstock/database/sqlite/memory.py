"""A store in memory, for tests: SQLite's own memory file system, private to this process.

It has the same SQL, transactions and locks as the file engine, so tests behave like production; only
durability is missing. `memory://` is a new, empty store each time; all users of `memory://name` share one.
The data lives as long as the dialect that holds it.
"""

import sqlite3
from urllib.parse import quote
from uuid import uuid4
from weakref import finalize

from penstock.errors import StoreUnsupported

from .dialect import BUSY_SECONDS, SqliteConnection, SqliteDialect

OLDEST = (3, 36, 0)  # the memory file system can be shared by connections


class MemoryDialect(SqliteDialect):
    """One store in memory."""

    reports_writes = False

    def __init__(self, name: str = "") -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise StoreUnsupported("memory://", f"SQLite 3.36 or later, this Python has {sqlite3.sqlite_version}")
        super().__init__(f"file:/penstock-{quote(name, safe='') or uuid4()}?vfs=memdb")
        anchor = self.connect()  # the store ends with its last connection
        finalize(self, anchor.close)

    def missing_file(self) -> str | None:
        return None

    def connect(self) -> SqliteConnection:
        return sqlite3.connect(
            self.path,
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=SqliteConnection,
        )
