"""Django's models in the transaction of a handler: `with models_on(record.tx): …`.

For the length of the block, `connections[alias]` of this thread is `record.tx`: all statements of the models
go there, and Django begins, ends and closes nothing. The block works in a savepoint, so that one that raises
undoes its own work and nothing else.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn
from weakref import WeakSet

from django.db import connections
from django.db.backends.sqlite3._functions import register as register_functions
from django.db.backends.sqlite3.base import SQLiteCursorWrapper
from django.db.transaction import TransactionManagementError, atomic

from penstock.errors import TransactionEnded, UnsupportedConnection
from penstock.model.connections import Tx
from penstock.outbox.adapters.driver import vendor_of_handler

_equipped: WeakSet[Any] = WeakSet()  # connections of SQLite that have Django's functions
_known: set[tuple[Any, ...]] = set()  # pairs found to be the same
_lock = Lock()
# The start of the server, the database, and the schemas of names without one.
_IDENTITY = (
    "SELECT extract(epoch FROM pg_postmaster_start_time())::text, current_database(), current_setting('search_path')"
)


@contextmanager
def models_on(tx: Tx, *, using: str = "default") -> Iterator[Any]:
    """Make Django's models, in this thread and on the database `using`, write through `record.tx`.

    Yields Django's connection. Raises UnsupportedConnection when `record.tx` is in another database,
    NoTransaction, and, from `close` on that connection, TransactionEnded.
    """
    vendor = vendor_of_handler(tx, "models_on")
    _check_same_database(tx, vendor, using)
    kind, prepared = _WAYS[vendor]
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
    connection: Any

    def create_cursor(self, name: str | None = None) -> Any:
        """Return a cursor that gives plain rows, whatever the connection's row factory."""
        cursor = self.connection.cursor(factory=SQLiteCursorWrapper)
        cursor.row_factory = None
        return cursor


class _PostgresCursors:
    """Django's cursors on a psycopg connection: they write and read values as its own do."""

    connection: Any
    get_connection_params: Callable[[], dict[str, Any]]

    def create_cursor(self, name: str | None = None) -> Any:
        """Return a cursor of Django's own class; with a name, one that stays on the server."""
        from django.db.backends.postgresql.base import ServerSideCursor
        from psycopg.adapt import AdaptersMap
        from psycopg.rows import tuple_row

        params = self.get_connection_params()
        if name is None:
            cursor = params["cursor_factory"](self.connection, row_factory=tuple_row)
        else:
            cursor = ServerSideCursor(self.connection, name=name, scrollable=False, row_factory=tuple_row)
        cursor._adapters = AdaptersMap(params["context"].adapters)
        return cursor


@contextmanager
def _with_time_zone(tx: Any, joined: Any) -> Iterator[None]:
    """Set PostgreSQL's time zone to Django's for the block: Django assumes values in that zone."""
    before, wanted = tx.info.parameter_status("TimeZone"), joined.timezone_name
    if before == wanted:
        yield
        return
    setting = "SELECT set_config('TimeZone', %s, true)"  # until the transaction ends, at the latest
    tx.execute(setting, (wanted,))
    try:
        yield
    finally:
        with suppress(Exception):  # the rollback of a failed transaction restores it, too
            tx.execute(setting, (before,))


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


# By kind of database: the cursors, and the context manager that prepares a block.
_WAYS: dict[str, tuple[type, Callable[[Any, Any], AbstractContextManager[None]]]] = {
    "sqlite": (_SqliteCursors, _with_functions),
    "postgresql": (_PostgresCursors, _with_time_zone),
}


def _check_same_database(tx: Any, vendor: str, alias: str) -> None:
    """Refuse a transaction in another database, found once by a query: addresses do not tell, for there are poolers."""
    own = connections.create_connection(alias)
    if own.vendor != vendor:
        raise _refusal(tx, alias, f"Django's is {own.vendor}")
    if vendor == "sqlite":
        _check_file(tx, own, alias)
        return
    if "assume_role" in own.settings_dict["OPTIONS"]:
        raise _refusal(tx, alias, 'its "assume_role" gives it another role than the worker\'s')
    if not hasattr(own.Database, "ClientCursor"):
        raise _refusal(tx, alias, "Django uses psycopg 2; install psycopg 3")
    given = own.settings_dict
    pair = (alias, *(repr(given[name]) for name in ("HOST", "PORT", "NAME", "USER", "OPTIONS")), tx.info.dsn)
    with _lock:
        if pair in _known:
            return
    cursor = tx.cursor(row_factory=own.Database.rows.tuple_row)  # whatever the handler's row factory
    if cursor.execute(_IDENTITY).fetchone() != _identity_there(own):
        raise _refusal(tx, alias, "Django's is another one, or has another search_path")
    with _lock:
        _known.add(pair)


def _check_file(tx: Any, own: Any, alias: str) -> None:
    cursor = tx.cursor()
    cursor.row_factory = None  # plain rows, whatever the handler's row factory
    here = next((row[2] for row in cursor.execute("PRAGMA database_list") if row[1] == "main"), "")
    there = Path(str(own.settings_dict["NAME"]))
    if own.is_in_memory_db() or not here or not there.exists() or not there.samefile(here):
        raise _refusal(tx, alias, f"Django's is {there}, and record.tx is in {here or 'memory'}")


def _identity_there(own: Any) -> tuple[Any, ...]:
    try:
        with own.cursor() as cursor:
            cursor.execute(_IDENTITY)
            found: tuple[Any, ...] = tuple(cursor.fetchone())
            return found
    finally:
        own.close()


def _refusal(tx: Any, alias: str, why: str) -> UnsupportedConnection:
    wanted = (
        f"its transaction is not in Django's database {alias!r}: {why}; create the outbox with "
        f'Outbox(database_url("{alias}")), or name the database of the outbox: using='
    )
    return UnsupportedConnection(tx, wanted, asked="models_on")
