"""Publishing on a `sqlite3.Connection`.

In the driver's default mode our INSERT opens the transaction that the caller commits. In autocommit mode
it would commit at once, so an open transaction is required.
"""

import sqlite3
from typing import NoReturn

from penstock.database.contract import Row
from penstock.database.naming import Names
from penstock.database.sqlite.dialect import missing_table
from penstock.database.statements import statement
from penstock.errors import NoTransaction

from ..contract import DriverAdapter, Step


class SqliteAdapter(DriverAdapter):
    """Runs staging on the standard library's SQLite driver."""

    dialect = "sqlite"

    def check(self, conn: sqlite3.Connection) -> None:
        """Refuse autocommit without an open transaction."""
        if would_commit(conn):
            raise NoTransaction('run conn.execute("BEGIN IMMEDIATE") first, or use outbox.transaction()')

    def is_open(self, driver_connection: sqlite3.Connection) -> bool:
        """Read SQLite's own flag."""
        return driver_connection.in_transaction

    def run(self, conn: sqlite3.Connection, step: Step, names: Names) -> int:
        """Run the statement for one row or many."""
        sql = statement("outbox", "sqlite", step.statement, names)
        try:
            if len(step.rows) == 1:
                return conn.execute(sql, step.rows[0]).rowcount
            return conn.executemany(sql, step.rows).rowcount
        except sqlite3.OperationalError as exc:
            _raise_translated(exc)

    def rows(self, conn: sqlite3.Connection, step: Step, names: Names) -> list[Row]:
        """Run the statement once for each row of values."""
        sql = statement("outbox", "sqlite", step.statement, names)
        cursor = conn.cursor()
        cursor.row_factory = None  # the caller may have set one on the connection
        try:
            return [found for values in step.rows for found in cursor.execute(sql, values)]
        except sqlite3.OperationalError as exc:
            _raise_translated(exc)


def _raise_translated(error: sqlite3.OperationalError) -> NoReturn:
    missing = missing_table(error)
    if missing is None:
        raise error
    raise missing from error


def would_commit(conn: sqlite3.Connection) -> bool:
    """Return whether a statement would autocommit: autocommit mode, and no transaction is open."""
    if conn.in_transaction:
        return False
    modern = getattr(conn, "autocommit", -1)  # Python 3.12 on; -1 is the older control by isolation_level
    return conn.isolation_level is None if modern == -1 else modern is True


ADAPTER = SqliteAdapter()
