"""Django's models in the transaction of a handler: `with models_on(record.tx): …`.

For the length of the block, `connections[alias]` of this thread is `record.tx`: all statements of the models
go there, and Django begins, ends and closes nothing. The block works in a savepoint, so that one that raises
undoes its own work and nothing else.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, NoReturn
from weakref import WeakSet

from django.db import connections
from django.db.backends.sqlite3._functions import register as register_functions
from django.db.backends.sqlite3.base import SQLiteCursorWrapper
from django.db.transaction import TransactionManagementError, atomic

from penstock.errors import NoTransaction, TransactionEnded, UnsupportedConnection
from penstock.model.connections import Tx
from penstock.outbox.adapters.driver import commits_alone

from .sameness import check_same_database

_equipped: WeakSet[Any] = WeakSet()  # connections of SQLite that have Django's functions


@contextmanager
def models_on(tx: Tx, *, using: str = "default") -> Iterator[Any]:
    """Make Django's models, in this thread and on the database `using`, write through `record.tx`.

    Yields Django's connection. Raises UnsupportedConnection when `record.tx` is in another database,
    NoTransaction, and, from `close` on that connection, TransactionEnded.
    """
    vendor = _vendor_of(tx)
    if commits_alone(tx, autocommit=bool(getattr(tx, "autocommit", False))):
        raise NoTransaction("pass record.tx, inside its handler")
    check_same_database(tx, vendor, using)
    kind, prepared = _ways(vendor)
    backend: Any = type(connections.create_connection(using))
    joined = _joined_class(backend, kind)(connections.settings[using], using)
    joined.connection, joined.autocommit, joined.in_atomic_block = tx, False, True
    before = next((each for each in connections.all(initialized_only=True) if each.alias == using), None)
    connections[using] = joined
    try:
        with prepared(tx, joined), atomic(using=using):
            yield joined
    finally:
        joined.connection = None  # a kept reference is useless from now on
        if before is None:
            del connections[using]
        else:
            connections[using] = before


class _JoinedWrapper:
    """The behaviour that differs while a Django connection is `record.tx`."""

    def _close(self) -> NoReturn:
        """Refuse."""
        raise TransactionEnded("connection.close() was called")

    def connect(self) -> NoReturn:
        """Refuse: it is connected, or its block has ended."""
        raise TransactionEnded("Django asked for another connection instead of record.tx")

    def on_commit(self, func: Callable[[], Any], robust: bool = False) -> NoReturn:
        """Refuse: the function would never be called."""
        raise TransactionManagementError(
            "transaction.on_commit() in models_on(record.tx): Penstock commits this transaction and makes no "
            "such calls; publish an event on the connection, whose handler runs after the commit"
        )


class _SqliteCursors:
    """Django's cursors on an SQLite connection."""

    connection: Any

    def create_cursor(self, name: str | None = None) -> Any:
        """Return a cursor that gives plain rows, whatever the connection's row factory."""
        cursor = self.connection.cursor(factory=SQLiteCursorWrapper)
        cursor.row_factory = None
        return cursor


@cache
def _joined_class(backend: type, kind: type) -> Any:
    return type(backend.__name__, (_JoinedWrapper, kind, backend), {})


@contextmanager
def _with_functions(tx: Any, joined: Any) -> Iterator[None]:
    """Register the functions that Django's SQL calls on an SQLite connection."""
    if tx not in _equipped:
        register_functions(tx)
        _equipped.add(tx)
    yield


def _ways(vendor: str) -> tuple[type, Callable[[Any, Any], AbstractContextManager[None]]]:
    """Return the cursor class for a kind of database, and the context manager that prepares a block."""
    if vendor == "sqlite":
        return _SqliteCursors, _with_functions
    from .joining_postgres import PostgresCursors, with_time_zone

    return PostgresCursors, with_time_zone


def _vendor_of(tx: Any) -> str:
    if isinstance(tx, sqlite3.Connection):
        return "sqlite"
    kinds = {(base.__module__.partition(".")[0], base.__name__) for base in type(tx).__mro__}
    if ("psycopg", "Connection") in kinds:
        return "postgresql"
    raise UnsupportedConnection(tx, "pass record.tx of a handler with transaction=True", asked="models_on")
