"""Publishing on a SQLAlchemy `Connection` or `Session`, sync.

Our statement goes through SQLAlchemy's own connection, so that it begins its transaction as for any other
statement and knows that there is something to commit.
"""

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from penstock.errors import NoTransaction, UnsupportedConnection
from penstock.log.sql.naming import Names, statement
from penstock.log.sql.sqlite.dialect import missing_table

from ..staging import Step
from .driver_state import commits_alone, innermost, is_open
from .postgres_calls import missing_relation, numbered_sql, postgres_call, postgres_sql

_DIALECTS = {"sqlite": "sqlite", "postgresql": "postgres"}


class SqlalchemyAdapter:
    """Runs staging through SQLAlchemy, on whatever driver it uses."""

    def dialect_of(self, conn: Connection | Session) -> str:
        """Return the dialect behind the connection."""
        return dialect_named(conn, _connection(conn).dialect.name)

    def check(self, conn: Connection | Session) -> None:
        """Refuse a connection in autocommit, unless the program's own `begin` event has said BEGIN."""
        connection = _connection(conn)
        begun = None if connection.in_transaction() else connection.begin()  # as our statement would
        autocommit = bool(getattr(connection.connection.dbapi_connection, "autocommit", False))
        if commits_alone(self.driver_connection(connection), autocommit=autocommit):
            if begun is not None:
                begun.rollback()
            raise NoTransaction('publish on a connection that is not in isolation level "AUTOCOMMIT"')

    def driver_connection(self, conn: Connection | Session) -> Any:
        """Return what the driver made, beneath SQLAlchemy's pool and its adapters of async drivers."""
        return innermost(_connection(conn).connection.driver_connection)

    def is_open(self, driver_connection: Any) -> bool:
        """Ask as the driver can tell without I/O."""
        return is_open(driver_connection)

    def run(self, conn: Connection | Session, step: Step, names: Names) -> int:
        """Run the statement for one row or many."""
        connection = _connection(conn)
        sql, params = _call(connection, step, names)
        try:
            return connection.exec_driver_sql(sql, params).rowcount
        except DBAPIError as exc:
            missing = missing_relation(exc.orig) or missing_table(exc.orig or exc)
            if missing is None:
                raise
            raise missing from exc


def dialect_named(conn: object, name: str) -> str:
    """Return our name for one of SQLAlchemy's dialects. Raises UnsupportedConnection."""
    if name not in _DIALECTS:
        raise UnsupportedConnection(conn, f"its database is {name}; there is {', '.join(_DIALECTS)}")
    return _DIALECTS[name]


def _connection(conn: Connection | Session) -> Connection:
    return conn.connection() if isinstance(conn, Session) else conn


def _call(connection: Connection, step: Step, names: Names) -> tuple[str, Any]:
    """Return the statement as the driver wants it, and its parameters: a list runs it once for each."""
    if connection.dialect.name == "sqlite":
        rows = step.rows[0] if len(step.rows) == 1 else list(step.rows)
        return statement("penstock.outbox.sql.sqlite", step.statement, names), rows
    name, params = postgres_call(step)
    numbered = connection.dialect.paramstyle == "numeric_dollar"  # asyncpg
    return (numbered_sql if numbered else postgres_sql)(name, names), params


ADAPTER = SqlalchemyAdapter()
