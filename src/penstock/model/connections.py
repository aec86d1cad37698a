"""The types of the connections that callers bring and are given. Types only: nothing here opens or calls one.

A connection is known by what it can do, so that no driver has to be installed to check a program's types.
`adapters/` of the outbox has the list of the classes that work; any other is refused when it is used.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

TxParams: TypeAlias = Sequence[Any] | Mapping[str, Any]
TxRow: TypeAlias = tuple[Any, ...]


class TxCursor(Protocol):
    """What a statement on a `Tx` gives: the part that the cursors of sqlite3 and psycopg share."""

    @property
    def rowcount(self) -> int:
        """How many rows the statement changed or found; -1 where that is not known."""

    @property
    def description(self) -> Sequence[Any] | None:
        """Its columns; None of a statement that gives no rows."""

    def execute(self, sql: Any, params: Any = ..., /) -> "TxCursor":
        """Run a statement."""

    def executemany(self, sql: Any, params: Iterable[Any], /) -> object:
        """Run a statement once for each of several parameters."""

    def fetchone(self) -> TxRow | None:
        """Return the next row; None: there is no more."""

    def fetchmany(self, size: int = ..., /) -> list[TxRow]:
        """Return some more rows."""

    def fetchall(self) -> list[TxRow]:
        """Return the rest of the rows."""

    def close(self) -> None:
        """Let it go."""

    def __iter__(self) -> Iterator[TxRow]: ...


class Tx(Protocol):
    """A connection of Penstock's in an open transaction: `record.tx`, `outbox.transaction()`.

    It is a `sqlite3.Connection` or a `psycopg.Connection`; `isinstance` tells which, where that matters. Who
    opened it commits it, so its type has neither `commit` nor `rollback`.
    """

    def execute(self, sql: str, params: TxParams = ..., /) -> TxCursor:
        """Run a statement, with the driver's own placeholders: `?` of sqlite3, `%s` of psycopg."""

    def cursor(self) -> TxCursor:
        """Return a new cursor."""


class _Commits(Protocol):
    """A connection or session of sqlite3, psycopg, SQLAlchemy or Django."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...


class _CommitsAsync(Protocol):
    """An async connection or session of aiosqlite, psycopg or SQLAlchemy."""

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...

    async def close(self) -> None: ...


class _Asyncpg(Protocol):
    """A connection of asyncpg, whose transactions are objects of their own."""

    def is_in_transaction(self) -> bool: ...

    def transaction(self) -> Any: ...


class _DjangoProxy(Protocol):
    """`django.db.connection`, for those who read Django's source in place of stubs: it hands all on."""

    def __getattr__(self, item: Any, /) -> Any: ...

    def __contains__(self, key: Any, /) -> Any: ...


class _AsyncpgProxy(Protocol):
    """What a pool of asyncpg gives, for those who read its source: its methods are made when it is loaded."""

    _con: Any
    _holder: Any

    def __getattr__(self, attr: Any, /) -> Any: ...


Connection: TypeAlias = _Commits | Tx | _DjangoProxy
"""What `publish` and its like take: a `Tx`, or one of sqlite3, psycopg, SQLAlchemy or Django."""

AsyncConnection: TypeAlias = _CommitsAsync | _Asyncpg | _AsyncpgProxy
"""What `apublish` and its like take: one of aiosqlite, psycopg, asyncpg or SQLAlchemy."""
