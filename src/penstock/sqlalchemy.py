"""SQLAlchemy: the set-up of an engine, and sessions in the transaction of a handler.

`session_on` and `connection_on` give SQLAlchemy a borrowed connection, `record.tx`: each statement goes
there, and SQLAlchemy begins, ends and closes nothing. A session works in a savepoint, so that its rollback,
or a block that raises, undoes its own work and nothing else.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache, partialmethod
from threading import Lock
from typing import Any, NoReturn, cast
from weakref import WeakKeyDictionary, WeakSet

from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import Session
from sqlalchemy.pool import PoolProxiedConnection

from penstock.errors import TransactionEnded, UnsupportedConnection
from penstock.model.connections import Tx
from penstock.outbox.adapters.driver import innermost, vendor_of_handler

_DRIVERS = {"sqlite": "pysqlite", "postgresql": "psycopg"}
_URLS = {"pysqlite": "sqlite+pysqlite://", "psycopg": "postgresql+psycopg://"}
# Without this the dialect first queries the server for a type.
_OPTIONS: dict[str, dict[str, Any]] = {"pysqlite": {}, "psycopg": {"use_native_hstore": False}}

_engines: WeakKeyDictionary[Engine, Engine] = WeakKeyDictionary()
_classes: dict[type[Session], type[Session]] = {}
_equipped: WeakSet[Any] = WeakSet()  # connections of SQLite that have SQLAlchemy's functions
_lock = Lock()


def begin_immediate(engine: Engine | AsyncEngine) -> None:
    """Make every transaction of an engine on SQLite begin as a writer; on another database, do nothing.

    A transaction that reads first and writes later then waits for its turn at its beginning, and never fails
    with "database is locked" in the middle. Connections in isolation level AUTOCOMMIT are left unchanged.
    """
    own: Any = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
    if own.dialect.name == "sqlite" and not event.contains(own, "begin", _begin):
        event.listen(own, "begin", _begin)


def _begin(connection: Connection) -> None:
    driver = innermost(connection.connection.driver_connection)
    if driver.isolation_level is not None and not driver.in_transaction:  # None: autocommit
        connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextmanager
def session_on(
    tx: Tx, engine: Engine | None = None, *, class_: type[Session] = Session, **options: Any
) -> Iterator[Session]:
    """Yield a session that writes through `record.tx`; it flushes at the end of the block.

    Pass your own `engine` and `class_` if their settings matter here; `options` are the session's.
    Raises TransactionEnded from its `commit`, `close` and the like, UnsupportedConnection, NoTransaction.
    """
    with connection_on(tx, engine) as connection:
        session = _joined(class_)(bind=connection, join_transaction_mode="create_savepoint", **options)
        try:
            yield session
            if not session.is_active:  # a flush failed and rolled everything back, unnoticed: this raises
                session.connection()
            session.flush()
            while (savepoint := connection.get_nested_transaction()) is not None:
                savepoint.commit()
        finally:
            with suppress(Exception):  # the connection may be gone; the earlier error tells the reason
                class_.close(session)  # rolls back unreleased savepoints


@contextmanager
def connection_on(tx: Tx, engine: Engine | None = None) -> Iterator[Connection]:
    """Yield an SQLAlchemy connection that wraps `record.tx`, in its open transaction.

    Raises TransactionEnded from its `commit`, `rollback` and `close`, UnsupportedConnection, NoTransaction.
    """
    borrowed = _Borrowed(tx, own := _engine_for(_DRIVERS[vendor_of_handler(tx, "session_on")], engine))
    connection = _Joined(own, borrowed)
    connection.begin()
    try:
        if own.dialect.server_version_info is None:  # the dialect has not inspected this database yet
            own.dialect.initialize(connection)
        yield connection
    finally:
        borrowed.is_ended = True
        Connection.rollback(connection)  # for SQLAlchemy's own state alone
        Connection.close(connection)


class _Borrowed(PoolProxiedConnection):
    """`record.tx` in the form of a pooled connection. It refuses to end until the block has ended."""

    def __init__(self, tx: Any, engine: Engine) -> None:
        self.dbapi_connection = self.driver_connection = self._tx = tx
        self._dialect = cast(Any, engine.dialect)
        self._info: dict[Any, Any] = {}
        self._is_valid, self.is_ended = True, False
        if isinstance(tx, sqlite3.Connection) and tx not in _equipped:
            with suppress(sqlite3.Error, TypeError):  # a running statement; a caller's own connection class
                self._dialect.on_connect()(tx)
                _equipped.add(tx)

    def cursor(self, *args: Any, **options: Any) -> Any:
        """Return a cursor that gives plain rows, whatever the connection's row factory."""
        tx = self._tx
        if isinstance(tx, sqlite3.Connection):
            cursor: Any = tx.cursor(*args, **options)
            cursor.row_factory = None
            return cursor
        psycopg = self._dialect.dbapi
        cursor = tx.cursor(*args, row_factory=psycopg.rows.tuple_row, **options)
        given = getattr(self._dialect, "_psycopg_adapters_map", None)
        if given is not None:  # for instance, how the engine's own connections write and read JSON
            cursor._adapters = psycopg.adapt.AdaptersMap(given)
        return cursor

    def _end(self, what: str) -> None:
        if not self.is_ended:
            _refuse(what)

    is_valid = property(lambda self: self._is_valid)
    is_detached = property(lambda self: False)  # there is no pool
    info = record_info = property(lambda self: self._info)
    commit = partialmethod(_end, "connection.commit()")
    rollback = partialmethod(_end, "connection.rollback()")
    close = partialmethod(_end, "connection.close()")
    detach = partialmethod(_end, "connection.detach()")

    def invalidate(self, e: BaseException | None = None, soft: bool = False) -> None:
        """Do nothing: the owner of the connection notices its loss."""
        self._is_valid = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


def _refused(what: str) -> Any:
    """Return a method that refuses to end the transaction: its unit of work alone does that."""

    def refuse(self: Any) -> NoReturn:
        _refuse(what)

    return refuse


class _Joined(Connection):
    commit = _refused("connection.commit()")
    rollback = _refused("connection.rollback()")
    close = _refused("connection.close()")


class _JoinedSession(Session):
    commit = _refused("session.commit()")
    close = _refused("session.close()")
    reset = _refused("session.reset()")
    invalidate = _refused("session.invalidate()")


def _joined(class_: type[Session]) -> type[Session]:
    """Return a session class that refuses to commit and close: its block does that."""
    with _lock:
        if class_ not in _classes:
            joined = type(class_.__name__, (_JoinedSession, class_), {})
            event.listen(joined, "before_commit", _refuse_commit)
            _classes[class_] = joined
        return _classes[class_]


def _refuse(what: str) -> NoReturn:
    raise TransactionEnded(f"{what} was called")


def _refuse_commit(session: Session) -> None:
    """Refuse the commit at the end of `with session.begin():`; a savepoint may be released."""
    if not session.in_nested_transaction():
        _refuse("session.commit()")


def _engine_for(driver: str, engine: Engine | None) -> Engine:
    """Return an engine with the same dialect but no listeners: they would begin transactions."""
    if engine is None:
        return _plain(driver)
    if getattr(engine.dialect, "driver", None) != driver:
        wanted = f"record.tx is a connection of {driver}: pass an engine on {_URLS[driver]}, or none"
        raise UnsupportedConnection(engine, wanted, asked="session_on")
    with _lock:
        own = _engines.get(engine)
        if own is None:
            dialect: Any = engine.dialect
            states = dialect.connection_characteristics  # such as the isolation level
            options = {name: value for name, value in engine.get_execution_options().items() if name not in states}
            own = Engine(NullPool(_no_other), engine.dialect, engine.url, execution_options=options)
            _engines[engine] = own
        return own


@cache
def _plain(driver: str) -> Engine:
    return create_engine(_URLS[driver], poolclass=NullPool, creator=_no_other, **_OPTIONS[driver])


def _no_other() -> NoReturn:
    raise TransactionEnded("SQLAlchemy asked for another connection instead of record.tx")
