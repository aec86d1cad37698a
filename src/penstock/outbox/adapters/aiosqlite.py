"""Publishing on an `aiosqlite.Connection`.

It is a `sqlite3.Connection` in its own thread, so the sync adapter runs there too, by `_execute`: the public methods
cost a second trip to close their cursor and cannot read the newer `autocommit`.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

import aiosqlite

from penstock.database.contract import Row
from penstock.database.naming import Names
from penstock.errors import NoTransaction

from ..contract import DriverAdapter, Step
from .sqlite import ADAPTER as SQLITE
from .sqlite import would_commit

T = TypeVar("T")


class AiosqliteAdapter(DriverAdapter):
    """Runs staging on the standard library's driver, in aiosqlite's thread."""

    dialect = "sqlite"

    async def acheck(self, conn: aiosqlite.Connection) -> None:
        """Refuse autocommit without an open transaction."""
        if conn.in_transaction:  # saves a trip to the thread
            return
        if await _in_its_thread(conn, would_commit, conn._conn):
            raise NoTransaction('run `await conn.execute("BEGIN IMMEDIATE")` first')

    def driver_connection(self, conn: aiosqlite.Connection) -> sqlite3.Connection:
        """Return the inner connection, whose flag any thread may read."""
        return conn._conn

    def is_open(self, driver_connection: sqlite3.Connection) -> bool:
        """Read SQLite's own flag."""
        return driver_connection.in_transaction

    async def arun(self, conn: aiosqlite.Connection, step: Step, names: Names) -> int:
        """Run the statement for one row or many."""
        return await _in_its_thread(conn, SQLITE.run, conn._conn, step, names)

    async def arows(self, conn: aiosqlite.Connection, step: Step, names: Names) -> list[Row]:
        """Run the statement once for each row of values."""
        return await _in_its_thread(conn, SQLITE.rows, conn._conn, step, names)


async def _in_its_thread(conn: Any, function: Callable[..., T], *arguments: Any) -> T:
    result: T = await conn._execute(function, *arguments)
    return result


ASYNC_ADAPTER = AiosqliteAdapter()
