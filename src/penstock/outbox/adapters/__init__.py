"""One adapter per kind of connection, found by the connection's class without importing its driver."""

from importlib import import_module
from typing import Any

from penstock.errors import UnsupportedConnection

from ..contract import Adapter

# The class a connection is or derives from, and the module here that knows it.
_KINDS = {
    ("sqlite3", "Connection"): "sqlite",
    ("psycopg", "Connection"): "psycopg",
    ("sqlalchemy", "Connection"): "sqlalchemy",
    ("sqlalchemy", "Session"): "sqlalchemy",
}
_found: dict[type, Adapter] = {}


def adapter_for(conn: Any, dialect: str) -> Adapter:
    """Return the adapter for a connection to a database of that dialect. Raises UnsupportedConnection."""
    cls = type(conn)
    adapter = _found.get(cls) or _find(cls, conn)
    if adapter.dialect_of(conn) != dialect:
        raise UnsupportedConnection(conn, f"this outbox is on {dialect}: pass a connection to that database")
    return adapter


def _find(cls: type, conn: Any) -> Adapter:
    for base in cls.__mro__:
        kind = _KINDS.get((base.__module__.partition(".")[0], base.__name__))
        if kind is not None:
            adapter: Adapter = import_module(f"{__name__}.{kind}").ADAPTER
            _found[cls] = adapter
            return adapter
    known = ", ".join(".".join(kind) for kind in _KINDS)
    raise UnsupportedConnection(conn, f"pass the connection of your own transaction: {known}")
