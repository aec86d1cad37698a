"""A driver's own connection: the state of its transaction, what its errors mean, how durable its commits are.

For libraries on top of a driver, which may be any that the program has chosen. The state is known without I/O and from
any thread. PostgreSQL's drivers carry the server's code in an error; one without a code did not come from the server.

`publish` is as durable as the caller's own commit. A session may have given that up, often by a forgotten option of a
pool: `synchronous_commit=off` in PostgreSQL, `synchronous=OFF` in SQLite. So one short query, after the first event
that a connection stages, finds out, and warns. A session that changes the setting later is not checked again.
"""

import logging
import sqlite3
from typing import Any
from weakref import ref

from penstock.database.contract import Dialect
from penstock.errors import NoTransaction, UnsupportedConnection
from penstock.settings import Settings, setting

from ..contract import Step, Steps
from .sqlite import would_commit

_IN_TRANSACTION = (1, 2, 3)  # libpq's status: active, in a transaction, in a failed one


_DIALECTS = {"sqlite": "sqlite", "postgresql": "postgres"}


def dialect_named(conn: object, name: str | None) -> str:
    """Return our name for a dialect of SQLAlchemy or Django. Raises UnsupportedConnection."""
    if name not in _DIALECTS:
        raise UnsupportedConnection(conn, f"its database is {name}; supported are {', '.join(_DIALECTS)}")
    return _DIALECTS[name]


def innermost(raw: Any) -> Any:
    """Return the connection that has the state: beneath aiosqlite that is the standard library's."""
    return raw._conn if type(raw).__module__.partition(".")[0] == "aiosqlite" else raw


def is_known(raw: Any) -> bool:
    """Return whether a driver's connection has its own sync adapter here."""
    return isinstance(raw, sqlite3.Connection) or any(
        (base.__module__, base.__name__) == ("psycopg", "Connection") for base in type(raw).__mro__
    )


def vendor_of_handler(tx: Any, asked: str) -> str:
    """Return the database of `record.tx`, sqlite or postgresql; `asked`: the function that got it.

    Raises UnsupportedConnection, and NoTransaction outside its handler.
    """
    if not is_known(tx):
        raise UnsupportedConnection(tx, "pass record.tx of a handler with transaction=True", asked=asked)
    if commits_alone(tx, autocommit=bool(getattr(tx, "autocommit", False))):
        raise NoTransaction("pass record.tx, inside its handler")
    return "sqlite" if isinstance(tx, sqlite3.Connection) else "postgresql"


def session_of(raw: Any) -> Any:
    """Return the object that lives as long as the session: for a proxy of asyncpg's pool, its connection."""
    return raw._con if type(raw).__name__ == "PoolConnectionProxy" else raw


def is_in_pipeline(raw: Any) -> bool:
    """Return whether statements are sent without waiting for their results, as psycopg can."""
    return bool(getattr(getattr(raw, "pgconn", None), "pipeline_status", 0))


def is_open(raw: Any) -> bool:
    """Return whether a transaction is open on an innermost connection."""
    if isinstance(raw, sqlite3.Connection):
        return raw.in_transaction
    if hasattr(raw, "is_in_transaction"):  # asyncpg
        return bool(raw.is_in_transaction())
    return getattr(getattr(raw, "info", None), "transaction_status", 0) in _IN_TRANSACTION  # psycopg


def commits_alone(raw: Any, *, autocommit: bool) -> bool:
    """Return whether a statement would autocommit."""
    if isinstance(raw, sqlite3.Connection):
        return would_commit(raw)
    return autocommit and not is_open(raw)


# Serialization failure, deadlock, lock time-out: the transaction left nothing behind.
_CONFLICTS = {"40001", "40P01", "55P03"}
# The server is shutting down, has crashed, or has ended the session; class 08: the connection failed.
_AWAY = {"57P01", "57P02", "57P03", "25P03"}
_CONNECTION = "08"


def is_conflict(error: Exception, dialect: Dialect) -> bool:
    """Return whether a transaction failed only because of others, so that it may be retried."""
    beneath = _beneath(error)
    return _code(beneath) in _CONFLICTS or dialect.is_conflict(beneath)


def is_lost(error: Exception, dialect: Dialect) -> bool:
    """Return whether an error leaves the outcome on the server in doubt: no answer, or not in time."""
    beneath = _beneath(error)
    code = _code(beneath)
    if code is not None:
        return code in _AWAY or code.startswith(_CONNECTION)
    driver = type(beneath).__module__.partition(".")[0]
    named = driver == "asyncpg" and type(beneath).__name__ == "InterfaceError"
    return named or isinstance(beneath, OSError | EOFError) or dialect.is_away(beneath)


def _beneath(error: Exception) -> Exception:
    """Return the driver's error beneath those of SQLAlchemy and its adapters of async drivers."""
    while type(error).__module__.partition(".")[0] == "sqlalchemy":
        under = getattr(error, "orig", None) or error.__cause__
        if not isinstance(under, Exception):
            break
        error = under
    return error


def _code(error: Exception) -> str | None:
    code = getattr(error, "sqlstate", None)
    return code if isinstance(code, str) else None


logger = logging.getLogger("penstock.publishing")

_WEAK = {"off": "synchronous_commit=off", "0": "synchronous=OFF"}  # as PostgreSQL and SQLite answer
_MOST_KNOWN = 10_000


class PublishingSettings(Settings, room="publishing"):
    """Checks when events are published."""

    check_durability: bool = setting(
        True,
        "Warn, once for each connection, when its commits may be lost in a crash: synchronous_commit=off in "
        "PostgreSQL, synchronous=OFF in SQLite. Costs one short query on each new connection.",
    )


class DurabilityCheck:
    """Remembers the sessions that were checked. From any thread; a race costs one more query.

    A driver's connection is identified by a weak reference. Python's own SQLite connection supports none: there its
    count of changes, which only grows, distinguishes it from an earlier one at the same address.
    """

    def __init__(self) -> None:
        self._known: dict[int, ref[Any]] = {}
        self._changes: dict[int, int] = {}

    def is_due(self, driver_connection: Any) -> bool:
        """Return whether to check the session behind a connection; in a pipeline the query would wait."""
        known = self._known.get(id(driver_connection))
        if known is not None and known() is driver_connection:
            return False  # the common case
        session = session_of(driver_connection)
        key = id(session)
        changes = getattr(session, "total_changes", None)
        if changes is not None:
            before = self._changes.get(key, changes)
            self._changes[key] = changes
            return bool(before >= changes)
        known = self._known.get(key)
        if known is not None and known() is session:
            return False
        return hasattr(session, "__weakref__") and not is_in_pipeline(session)

    def judge(self, driver_connection: Any, answer: object) -> None:
        """Remember a session, and warn if its setting may lose commits."""
        session = session_of(driver_connection)
        key = id(session)
        if not hasattr(session, "total_changes"):
            self._known[key] = ref(session, lambda _: self._known.pop(key, None))
        elif len(self._changes) > _MOST_KNOWN:
            self._changes.clear()
        setting = _WEAK.get(str(answer))
        if setting is not None:
            logger.warning(
                "a publishing connection has %s: its commits, and the events in them, may be lost when the "
                "database server or its machine fails; leave that setting at its default, or turn this check "
                "off with publishing.check_durability",
                setting,
            )


def durability_steps() -> Steps[object]:
    """Query the durability setting of a session."""
    rows = yield Step("durability", [()], reads=True)
    return rows[0][0]
