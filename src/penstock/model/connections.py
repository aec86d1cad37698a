"""The types of the connections that callers pass and receive. Types only: nothing here opens or calls one.

A connection is typed by its methods, so that no driver has to be installed to check a program's types.
`adapters/` of the outbox lists the supported classes; any other is refused when it is used.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

TxParams: TypeAlias = Sequence[Any] | Mapping[str, Any]
TxRow: TypeAlias = tuple[Any, ...]


class TxCursor(Protocol):
    """The cursor of a statement on a `Tx`: the common part of sqlite3's and psycopg's cursors."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the statement changed or found; -1 if unknown."""

    @property
    def description(self) -> Sequence[Any] | None:
        """The columns of its rows; None for a statement that returns no rows."""

    def execute(self, sql: Any, params: Any = ..., /) -> "TxCursor":
        """Run a statement."""

    def executemany(self, sql: Any, params: Iterable[Any], /) -> object:
        """Run a statement once for each of several parameters."""

    def fetchone(self) -> TxRow | None:
        """Return the next row, or None after the last."""

    def fetchmany(self, size: int = ..., /) -> list[TxRow]:
        """Return some more rows."""

    def fetchall(self) -> list[TxRow]:
        """Return the remaining rows."""

    def close(self) -> None:
        """Close the cursor."""

    def __iter__(self) -> Iterator[TxRow]: ...


class Tx(Protocol):
    """A connection of Penstock's in an open transaction: `record.tx`, `outbox.transaction()`.

    It is a `sqlite3.Connection` or a `psycopg.Connection`; use `isinstance` if that matters. Penstock commits
    it, so its type has neither `commit` nor `rollback`.
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
    """A connection of asyncpg, whose transactions are separate objects."""

    def is_in_transaction(self) -> bool: ...

    def transaction(self) -> Any: ...


class _DjangoProxy(Protocol):
    """`django.db.connection`, for type checkers that read Django's source instead of stubs: it delegates."""

    def __getattr__(self, item: Any, /) -> Any: ...

    def __contains__(self, key: Any, /) -> Any: ...


class _AsyncpgProxy(Protocol):
    """A proxy of asyncpg's pool, for type checkers that read its source: its methods are made at import."""

    _con: Any
    _holder: Any

    def __getattr__(self, attr: Any, /) -> Any: ...


Connection: TypeAlias = _Commits | Tx | _DjangoProxy
"""A connection for the sync methods, as `publish`: a `Tx`, or of sqlite3, psycopg, SQLAlchemy or Django."""

AsyncConnection: TypeAlias = _CommitsAsync | _Asyncpg | _AsyncpgProxy
"""A connection for the async methods, as `apublish`: of aiosqlite, psycopg, asyncpg or SQLAlchemy."""
