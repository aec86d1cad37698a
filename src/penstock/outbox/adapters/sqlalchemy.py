"""Publishing on a SQLAlchemy `Connection` or `Session`, sync.

Our statement goes through SQLAlchemy's own connection, which begins its transaction as for any other
statement and knows that there is something to commit. A session flushes first, as before a query: an event
must come after the statement that locks its row.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError, UnboundExecutionError
from sqlalchemy.orm import Session, scoped_session

from penstock.database.contract import Row
from penstock.database.naming import Names
from penstock.database.sqlite.dialect import missing_table
from penstock.database.statements import statement
from penstock.errors import NoTransaction, UnsupportedConnection

from ..contract import Step
from .driver import commits_alone, dialect_named, innermost, is_known, is_open
from .postgres_calls import missing_relation, numbered_sql, postgres_call, postgres_sql

Conn = Connection | Session | scoped_session[Session]
_AFTER_COMMIT = "penstock.after_commit"  # in a session's `info`
SEVERAL = (
    "it has several engines: pass {}session.connection(bind_arguments={{'mapper': Order}}), with one of your "
    "models in the database of the outbox"
)


class SqlalchemyAdapter:
    """Runs staging through SQLAlchemy, on any driver."""

    dialect = None  # depends on the connection

    def dialect_of(self, conn: Conn) -> str:
        """Return the dialect behind the connection."""
        return dialect_named(conn, _connection(conn).dialect.name)

    def check(self, conn: Conn) -> None:
        """Refuse a connection in autocommit, unless the program's own `begin` event has sent BEGIN."""
        if not isinstance(conn, Connection):
            _flush(_session(conn))
        connection = _connection(conn)
        begun = None if connection.in_transaction() else connection.begin()  # as our statement would
        autocommit = bool(getattr(connection.connection.dbapi_connection, "autocommit", False))
        if commits_alone(self.driver_connection(connection), autocommit=autocommit):
            if begun is not None:
                begun.rollback()
            raise NoTransaction('publish on a connection that is not in isolation level "AUTOCOMMIT"')

    def driver_connection(self, conn: Conn) -> Any:
        """Return the driver's connection beneath SQLAlchemy's pool and its adapters of async drivers."""
        return innermost(_connection(conn).connection.driver_connection)

    def is_open(self, driver_connection: Any) -> bool:
        """Ask the driver, without I/O."""
        return is_open(driver_connection)

    def after_commit(self, conn: Conn, call: Callable[[], object]) -> bool:
        """Register the call on a session; a connection has a hook before the commit, but none after it."""
        if isinstance(conn, Connection):
            return False
        _session(conn).info.setdefault(_AFTER_COMMIT, set()).add(call)
        return True

    def beneath(self, conn: Conn) -> Any:
        """Return the driver's connection, if it is sync and known."""
        connection = _connection(conn)
        driver = connection.connection.driver_connection
        return driver if is_known(driver) and not connection.dialect.is_async else conn

    def run(self, conn: Conn, step: Step, names: Names) -> int:
        """Run the statement for one row or many."""
        connection = _connection(conn)
        sql, params = _call(connection, step, names)
        with _translated():
            return connection.exec_driver_sql(sql, params).rowcount

    def rows(self, conn: Conn, step: Step, names: Names) -> list[Row]:
        """Run the statement once per row of values, or once for all if it takes arrays."""
        connection = _connection(conn)
        once = connection.dialect.name != "sqlite"
        steps = [step] if once else [step._replace(rows=[values]) for values in step.rows]
        with _translated():
            return [tuple(row) for each in steps for row in connection.exec_driver_sql(*_call(connection, each, names))]


@event.listens_for(Session, "after_commit")
def _committed(session: Session) -> None:
    """Make the registered calls, but not after a savepoint, which commits nothing."""
    if not session.in_nested_transaction():
        for call in session.info.pop(_AFTER_COMMIT, ()):
            call()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DBAPIError as exc:
        missing = missing_relation(exc.orig) or missing_table(exc.orig or exc)
        if missing is None:
            raise
        raise missing from exc


def _connection(conn: Conn) -> Connection:
    if isinstance(conn, Connection):
        return conn
    try:
        return conn.connection()
    except UnboundExecutionError as exc:
        raise UnsupportedConnection(_session(conn), SEVERAL.format("")) from exc


def _session(conn: Session | scoped_session[Session]) -> Session:
    return conn() if isinstance(conn, scoped_session) else conn


def _flush(session: Session) -> None:
    if session.autoflush and not session._flushing:
        session.flush()


def _call(connection: Connection, step: Step, names: Names) -> tuple[str, Any]:
    """Return the statement in the driver's form, and its parameters: a list runs it once per row."""
    if connection.dialect.name == "sqlite":
        rows = step.rows[0] if len(step.rows) == 1 else list(step.rows)
        return statement("outbox", "sqlite", step.statement, names), rows
    name, params = postgres_call(step)
    numbered = connection.dialect.paramstyle == "numeric_dollar"  # asyncpg
    return (numbered_sql if numbered else postgres_sql)(name, names), params


ADAPTER = SqlalchemyAdapter()
