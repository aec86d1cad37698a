"""Publishing on a SQLAlchemy `Connection` or `Session`, sync.

Our statement goes through SQLAlchemy's own connection, so that it begins its transaction as for any other
statement and knows that there is something to commit.
"""

import sqlite3
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from penstock.errors import NoTransaction, SchemaMissing, UnsupportedConnection
from penstock.log.sql.naming import Names, statement

from ..staging import Step
from .sqlite import would_commit

_IDLE = 0  # libpq's transaction status
_DIALECTS = {"sqlite": "sqlite", "postgresql": "postgres"}


class SqlalchemyAdapter:
    """Runs staging through SQLAlchemy, on whatever driver it uses."""

    def dialect_of(self, conn: Connection | Session) -> str:
        """Return the dialect behind the connection."""
        name = _connection(conn).dialect.name
        if name not in _DIALECTS:
            raise UnsupportedConnection(conn, f"its database is {name}; there is {', '.join(_DIALECTS)}")
        return _DIALECTS[name]

    def check(self, conn: Connection | Session) -> None:
        """Refuse a connection in autocommit, unless the program's own `begin` event has said BEGIN."""
        connection = _connection(conn)
        begun = None if connection.in_transaction() else connection.begin()  # as our statement would
        if _would_commit(connection.connection.dbapi_connection):
            if begun is not None:
                begun.rollback()
            raise NoTransaction('publish on a connection that is not in isolation level "AUTOCOMMIT"')

    def driver_connection(self, conn: Connection | Session) -> Any:
        """Return what the driver made, beneath SQLAlchemy's pool."""
        return _connection(conn).connection.dbapi_connection

    def is_open(self, driver_connection: Any) -> bool:
        """Ask as the driver can tell without I/O; libpq's status 1 to 3 is an open transaction."""
        if isinstance(driver_connection, sqlite3.Connection):
            return driver_connection.in_transaction
        return getattr(getattr(driver_connection, "info", None), "transaction_status", _IDLE) in (1, 2, 3)

    def run(self, conn: Connection | Session, step: Step, names: Names) -> int:
        """Run the statement for one row or many."""
        connection, dialect = _connection(conn), self.dialect_of(conn)
        name, params = _CALLS[dialect](step)
        try:
            sql = statement(f"penstock.outbox.sql.{dialect}", name, names)
            return connection.exec_driver_sql(sql, params).rowcount
        except DBAPIError as exc:
            missing = _missing_table(dialect, exc.orig)
            if missing is None:
                raise
            raise missing from exc


def _connection(conn: Connection | Session) -> Connection:
    return conn.connection() if isinstance(conn, Session) else conn


def _would_commit(raw: Any) -> bool:
    """Return whether the driver's own connection would commit a statement by itself."""
    if isinstance(raw, sqlite3.Connection):
        return would_commit(raw)
    status = getattr(getattr(raw, "info", None), "transaction_status", _IDLE)
    return bool(getattr(raw, "autocommit", False)) and status == _IDLE


def _sqlite_call(step: Step) -> tuple[str, Any]:
    return step.statement, step.rows[0] if len(step.rows) == 1 else list(step.rows)


def _postgres_call(step: Step) -> tuple[str, Any]:
    from .psycopg import postgres_call

    return postgres_call(step)


def _missing_table(dialect: str, error: Any) -> SchemaMissing | None:
    if dialect == "sqlite":
        from penstock.log.sql.sqlite.dialect import missing_table
    else:
        from penstock.log.sql.postgres.dialect import missing_table
    return missing_table(error)


_CALLS = {"sqlite": _sqlite_call, "postgres": _postgres_call}
ADAPTER = SqlalchemyAdapter()
