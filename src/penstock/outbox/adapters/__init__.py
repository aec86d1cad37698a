"""One adapter per kind of connection, found by the connection's class without importing its driver."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from penstock.errors import UnsupportedConnection

from ..contract import Adapter, AsyncAdapter

_Kinds = Mapping[tuple[str, str], str]

# The class of a connection, or a base of it, and the module of its adapter.
_KINDS: _Kinds = {
    ("sqlite3", "Connection"): "sqlite",
    ("psycopg", "Connection"): "psycopg",
    ("sqlalchemy", "Connection"): "sqlalchemy",
    ("sqlalchemy", "Session"): "sqlalchemy",
    ("sqlalchemy", "scoped_session"): "sqlalchemy",
    ("django", "ConnectionProxy"): "django",  # django.db.connection
    ("django", "BaseDatabaseWrapper"): "django",  # django.db.connections["default"]
}
_ASYNC_KINDS: _Kinds = {
    ("aiosqlite", "Connection"): "aiosqlite",
    ("psycopg", "AsyncConnection"): "psycopg",
    ("asyncpg", "Connection"): "asyncpg",
    ("asyncpg", "PoolConnectionProxy"): "asyncpg",  # from a pool
    ("sqlalchemy", "AsyncConnection"): "sqlalchemy_async",
    ("sqlalchemy", "AsyncSession"): "sqlalchemy_async",
    ("sqlalchemy", "async_scoped_session"): "sqlalchemy_async",
}
_IS_ASYNC = "it is async: use `await outbox.apublish(…)`, `acancel` and so on"
_IS_SYNC = "it is sync: use `outbox.publish(…)`, `cancel` and so on, without await"

_found: dict[type, Adapter] = {}
_found_async: dict[type, AsyncAdapter] = {}


def adapter_for(conn: Any, dialect: str) -> Adapter:
    """Return the adapter for a connection to a database of that dialect. Raises UnsupportedConnection."""
    cls = type(conn)
    adapter = _found.get(cls)
    if adapter is None:
        adapter = _found[cls] = _load(conn, "ADAPTER", _KINDS, _ASYNC_KINDS, _IS_ASYNC)
    if adapter.dialect != dialect:  # another database, or a library that supports several
        _check_dialect(conn, adapter.dialect_of(conn), dialect)
    return adapter


def async_adapter_for(conn: Any, dialect: str) -> AsyncAdapter:
    """Return the adapter for an async connection. Raises UnsupportedConnection."""
    cls = type(conn)
    adapter = _found_async.get(cls)
    if adapter is None:
        adapter = _found_async[cls] = _load(conn, "ASYNC_ADAPTER", _ASYNC_KINDS, _KINDS, _IS_SYNC)
    if adapter.dialect != dialect:
        _check_dialect(conn, adapter.dialect_of(conn), dialect)
    return adapter


def is_connection(value: object) -> bool:
    """Return whether a sync or async adapter supports this object."""
    cls = type(value)
    return cls in _found or cls in _found_async or _module_of(cls, {**_KINDS, **_ASYNC_KINDS}) is not None


def _check_dialect(conn: Any, found: str, wanted: str) -> None:
    if found != wanted:
        raise UnsupportedConnection(conn, f"this outbox is on {wanted}: pass a connection to that database")


def _load(conn: Any, adapter: str, kinds: _Kinds, others: _Kinds, remedy: str) -> Any:
    module = _module_of(type(conn), kinds)
    if module is not None:
        return getattr(import_module(f"{__name__}.{module}"), adapter)
    if _module_of(type(conn), others) is not None:
        raise UnsupportedConnection(conn, remedy)
    known = ", ".join(".".join(kind) for kind in kinds)
    raise UnsupportedConnection(conn, f"pass the connection of your own transaction: {known}")


def _module_of(cls: type, kinds: _Kinds) -> str | None:
    names = ((base.__module__.partition(".")[0], base.__name__) for base in cls.__mro__)
    return next((kinds[name] for name in names if name in kinds), None)
