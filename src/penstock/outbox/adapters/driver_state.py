"""What a driver's own connection tells about its transaction, without I/O and from any thread.

For adapters of libraries that stand on top of a driver: they meet whichever one the program has chosen.
"""

import sqlite3
from typing import Any

from .sqlite import would_commit

_IN_TRANSACTION = (1, 2, 3)  # libpq's status: active, in a transaction, in a failed one


def innermost(raw: Any) -> Any:
    """Return the connection that knows: beneath aiosqlite that is the standard library's."""
    return raw._conn if type(raw).__module__.partition(".")[0] == "aiosqlite" else raw


def is_known(raw: Any) -> bool:
    """Return whether a driver's connection has an adapter of its own here, a sync one."""
    return isinstance(raw, sqlite3.Connection) or any(
        (base.__module__, base.__name__) == ("psycopg", "Connection") for base in type(raw).__mro__
    )


def session_of(raw: Any) -> Any:
    """Return what lives as long as the session: beneath what asyncpg's pool gives out, its connection."""
    return raw._con if type(raw).__name__ == "PoolConnectionProxy" else raw


def is_in_pipeline(raw: Any) -> bool:
    """Return whether statements are sent without waiting for their answers, as psycopg can."""
    return bool(getattr(getattr(raw, "pgconn", None), "pipeline_status", 0))


def is_open(raw: Any) -> bool:
    """Return whether a transaction is open on an innermost connection."""
    if isinstance(raw, sqlite3.Connection):
        return raw.in_transaction
    if hasattr(raw, "is_in_transaction"):  # asyncpg
        return bool(raw.is_in_transaction())
    return getattr(getattr(raw, "info", None), "transaction_status", 0) in _IN_TRANSACTION  # psycopg


def commits_alone(raw: Any, *, autocommit: bool) -> bool:
    """Return whether a statement would commit by itself."""
    if isinstance(raw, sqlite3.Connection):
        return would_commit(raw)
    return autocommit and not is_open(raw)
