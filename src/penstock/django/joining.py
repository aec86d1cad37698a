"""Django's models in the transaction of a handler: `with models_on(record.tx): …`.

For the length of the block, `connections[alias]` of this thread is `record.tx`: all that the models do goes
there, and nothing of Django's begins, ends or closes anything. The block works in a savepoint, so that one
that raises takes back what it did and nothing else.
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
from penstock.outbox.adapters.driver_state import commits_alone

from .sameness import check_same_database

_equipped: WeakSet[Any] = WeakSet()  # connections of SQLite that have Django's functions


@contextmanager
def models_on(tx: Tx, *, using: str = "default") -> Iterator[Any]:
    """Let Django's models, in this thread and on the database `using`, write through `record.tx`.

    Gives Django's connection. Raises UnsupportedConnection when `record.tx` is in another database,
    NoTransaction, and from `close` on that connection TransactionEnded.
    """
    vendor = _vendor_of(tx)
    if commits_alone(tx, autocommit=bool(getattr(tx, "autocommit", False))):
        raise NoTransaction("pass record.tx, inside the handler it was given to")
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
        joined.connection = None  # who kept it has nothing
        if before is None:
            del connections[using]
        else:
            connections[using] = before


class _JoinedWrapper:
    """What a connection of Django's does otherwise while it is `record.tx`."""

    def _close(self) -> NoReturn:
        """Refuse."""
        raise TransactionEnded("connection.close() was called")

    def connect(self) -> NoReturn:
        """Refuse: it is connected, or its block has ended."""
        raise TransactionEnded("another connection was asked for in place of record.tx")

    def on_commit(self, func: Callable[[], Any], robust: bool = False) -> NoReturn:
        """Refuse: nobody would call it."""
        raise TransactionManagementError(
            "transaction.on_commit() in models_on(record.tx): Penstock commits this transaction and calls "
            "nothing back; publish an event on the connection, whose handler runs after the commit"
        )


class _SqliteCursors:
    """Cursors of Django's on a connection of SQLite."""

    connection: Any

    def create_cursor(self, name: str | None = None) -> Any:
        """Return a cursor that gives plain rows, whatever the connection's own row factory is."""
        cursor = self.connection.cursor(factory=SQLiteCursorWrapper)
        cursor.row_factory = None
        return cursor


@cache
def _joined_class(backend: type, kind: type) -> Any:
    return type(backend.__name__, (_JoinedWrapper, kind, backend), {})


@contextmanager
def _with_functions(tx: Any, joined: Any) -> Iterator[None]:
    """Give a connection of SQLite the functions that Django's SQL calls."""
    if tx not in _equipped:
        register_functions(tx)
        _equipped.add(tx)
    yield


def _ways(vendor: str) -> tuple[type, Callable[[Any, Any], AbstractContextManager[None]]]:
    """Return what makes cursors on a database of this kind, and what prepares its connection for a block."""
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
