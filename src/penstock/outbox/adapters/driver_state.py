"""The transaction state of a driver's own connection, without I/O and from any thread.

For adapters of libraries on top of a driver, which may be any that the program has chosen.
"""

import sqlite3
from typing import Any

from .sqlite import would_commit

_IN_TRANSACTION = (1, 2, 3)  # libpq's status: active, in a transaction, in a failed one


def innermost(raw: Any) -> Any:
    """Return the connection that has the state: beneath aiosqlite that is the standard library's."""
    return raw._conn if type(raw).__module__.partition(".")[0] == "aiosqlite" else raw


def is_known(raw: Any) -> bool:
    """Return whether a driver's connection has its own sync adapter here."""
    return isinstance(raw, sqlite3.Connection) or any(
        (base.__module__, base.__name__) == ("psycopg", "Connection") for base in type(raw).__mro__
    )


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
