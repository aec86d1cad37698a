"""Observes the commits that a handler makes on its own connections, in any supported driver.

It patches the drivers in this process permanently, so it is only for processes of the laboratory. A driver imported
later is not observed: the laboratory checks the drivers that a run has loaded, and starts over with them.
"""

import sqlite3
import sys
from collections.abc import Callable, Collection, Generator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

Around = Callable[[], AbstractContextManager[None]]
DRIVERS = ("psycopg", "asyncpg")
_ENDS = ("COMMIT", "END")
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "WITH")


def watch(around: Around) -> None:
    """Run each commit of sqlite3, psycopg and asyncpg inside `around`, which may nest."""
    _watch_sqlite(around)
    if "psycopg" in sys.modules:
        _watch_psycopg(around)
    if "asyncpg" in sys.modules:
        _watch_asyncpg(around)


def loaded() -> list[str]:
    """Return the drivers that are imported in this process."""
    return [name for name in DRIVERS if name in sys.modules]


def load(names: Collection[str]) -> None:
    """Import some of the drivers."""
    if "psycopg" in names:
        import psycopg  # noqa: F401
    if "asyncpg" in names:
        import asyncpg  # noqa: F401


def _commits(query: object, *, is_open: bool, autocommit: bool) -> bool:
    """Return whether a statement commits: explicitly, or by a write outside a transaction."""
    text = query.decode("utf-8", "replace") if isinstance(query, bytes) else str(query)
    word = text.lstrip(" \t\r\n(").partition(" ")[0].strip(" \t\r\n;").upper()
    return word in _ENDS if is_open else autocommit and word in _WRITES


# -- sqlite3, and so aiosqlite, SQLAlchemy and Django on SQLite


def _watch_sqlite(around: Around) -> None:
    original = sqlite3.connect

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        base = options.pop("factory", sqlite3.Connection)
        return original(*args, factory=_connection(base, around), **options)

    for module, name in holders():
        setattr(module, name, connect)


@cache
def holders() -> list[tuple[Any, str]]:
    """Return the modules and names that hold `sqlite3.connect`; cached before a fork, once for all children."""
    return [
        (module, name)
        for module in list(sys.modules.values())
        for name, value in list(getattr(module, "__dict__", {}).items())
        if value is sqlite3.connect
    ]


@cache
def _connection(base: Any, around: Around) -> type[sqlite3.Connection]:
    if not isinstance(base, type):
        return base  # type: ignore[no-any-return]  # a factory function: left alone

    class WatchedConnection(base):  # type: ignore[misc]
        """A connection whose commits are observed."""

        def cursor(self, factory: Any = sqlite3.Cursor) -> Any:
            return super().cursor(_cursor(factory, around))

        def execute(self, *args: Any) -> Any:
            return self.cursor().execute(*args)

        def executemany(self, *args: Any) -> Any:
            return self.cursor().executemany(*args)

        def executescript(self, *args: Any) -> Any:
            return self.cursor().executescript(*args)

        def commit(self) -> None:
            with around() if self.in_transaction else nullcontext():
                super().commit()

        def __exit__(self, *error: Any) -> Any:
            with around() if self.in_transaction and error[0] is None else nullcontext():
                return super().__exit__(*error)

    return WatchedConnection


@cache
def _cursor(base: Any, around: Around) -> Any:
    if not isinstance(base, type):
        return base

    class WatchedCursor(base):  # type: ignore[misc]
        """A cursor whose commits are observed; a script is one commit, whatever its content."""

        def execute(self, sql: str, *args: Any) -> Any:
            with self._around(sql):
                return super().execute(sql, *args)

        def executemany(self, sql: str, *args: Any) -> Any:
            with self._around(sql):
                return super().executemany(sql, *args)

        def executescript(self, script: str) -> Any:
            with around():
                return super().executescript(script)

        def _around(self, sql: str) -> AbstractContextManager[None]:
            conn = self.connection
            alone = conn.isolation_level is None or getattr(conn, "autocommit", -1) is True
            return around() if _commits(sql, is_open=conn.in_transaction, autocommit=alone) else nullcontext()

    return WatchedCursor


# -- psycopg, sync and async, and so SQLAlchemy and Django on it


def _watch_psycopg(around: Around) -> None:
    connection = sys.modules["psycopg"]._connection_base.BaseConnection
    cursor = sys.modules["psycopg"]._cursor_base.BaseCursor
    command, execute = connection._exec_command, cursor._execute_gen

    def _exec_command(self: Any, query: Any, *args: Any, **options: Any) -> Generator[Any, Any, Any]:
        with around() if query == b"COMMIT" else nullcontext():
            return (yield from command(self, query, *args, **options))

    def _execute_gen(self: Any, query: Any, *args: Any, **options: Any) -> Generator[Any, Any, Any]:
        is_open = self._conn.info.transaction_status != 0
        seen = _commits(query, is_open=is_open, autocommit=self._conn.autocommit)
        with around() if seen else nullcontext():
            return (yield from execute(self, query, *args, **options))

    connection._exec_command, cursor._execute_gen = _exec_command, _execute_gen


# -- asyncpg, and so SQLAlchemy on it


def _watch_asyncpg(around: Around) -> None:
    transaction = sys.modules["asyncpg"].transaction.Transaction
    connection = sys.modules["asyncpg"].connection.Connection
    commit, execute = transaction._Transaction__commit, connection.execute

    async def _commit(self: Any) -> Any:
        with around() if not self._nested else nullcontext():
            return await commit(self)

    async def _execute(self: Any, query: str, *args: Any, **options: Any) -> Any:
        seen = _commits(query, is_open=self.is_in_transaction(), autocommit=True)
        with around() if seen else nullcontext():
            return await execute(self, query, *args, **options)

    transaction._Transaction__commit, connection.execute = _commit, _execute
