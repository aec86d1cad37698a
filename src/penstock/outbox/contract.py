"""The contract of an adapter: run our statements on the caller's connection, in the caller's transaction.

An adapter never begins, commits or rolls back; it only refuses a connection on which staging would autocommit. A rule
is written once, as a generator that yields steps and receives their results, without I/O; two drivers run the steps,
sync and async.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from penstock.database.contract import Row
from penstock.database.naming import Names
from penstock.model.token import Token

T = TypeVar("T")


class StagedEvent(NamedTuple):
    """One row of `staged`, or of `scheduled` when `due_ms` is set; its token has its own row."""

    slot: int
    key_hash: int
    topic: str
    id: str
    key: bytes | None
    type: str
    value: bytes | None
    headers: bytes | None
    timestamp_ms: int
    owner: str | None
    due_ms: int | None
    token: Token | None = None


class Step(NamedTuple):
    """One request on the caller's connection: the statement's name and its rows of values."""

    statement: str
    rows: Sequence[tuple[Any, ...]]
    counts: bool = False  # the count of changed rows is needed, so the driver waits for the end
    reads: bool = False  # the found rows are needed


Steps = Generator[Step, Any, T]


def run(steps: Generator[Any, Any, T], execute: Callable[[Any], Any]) -> T:
    """Drive steps on a synchronous connection."""
    try:
        request = next(steps)
        while True:
            request = steps.send(execute(request))
    except StopIteration as finished:
        result: T = finished.value
        return result


async def arun(steps: Generator[Any, Any, T], execute: Callable[[Any], Awaitable[Any]]) -> T:
    """Drive steps on an async connection."""
    try:
        request = next(steps)
        while True:
            request = steps.send(await execute(request))
    except StopIteration as finished:
        result: T = finished.value
        return result


class _AnyAdapter(Protocol):
    """One kind of connection, sync or async: what needs no I/O."""

    dialect: str | None  # the dialect of all its connections, if they share one

    def dialect_of(self, conn: Any) -> str:
        """Return the dialect of the database behind the connection."""

    def driver_connection(self, conn: Any) -> Any:
        """Return the driver's own connection, whose transaction the bell can watch."""

    def is_open(self, driver_connection: Any) -> bool:
        """Return whether a transaction is open on it; from another thread, without I/O."""

    def after_commit(self, conn: Any, call: Callable[[], object]) -> bool:
        """Register `call` to run after the commit, if the library has a hook; return whether it has."""


class Adapter(_AnyAdapter, Protocol):
    """One kind of connection."""

    def check(self, conn: Any) -> None:
        """Refuse a connection that would autocommit. Raises NoTransaction."""

    def beneath(self, conn: Any) -> Any:
        """Return the driver's connection if it is sync and known, else this one: it has no query log."""

    def run(self, conn: Any, step: Step, names: Names) -> int:
        """Run one step; return how many rows it changed. Raises SchemaMissing, or the driver's own error unchanged."""

    def rows(self, conn: Any, step: Step, names: Names) -> list[Row]:
        """Run a step that reads and return the rows it finds, as plain tuples. Raises as `run` does."""


class AsyncAdapter(_AnyAdapter, Protocol):
    """One kind of async connection."""

    async def acheck(self, conn: Any) -> None:
        """Refuse a connection that would autocommit. Raises NoTransaction."""

    async def arun(self, conn: Any, step: Step, names: Names) -> int:
        """Run one step and return the number of rows it changed. Raises as `Adapter.run` does."""

    async def arows(self, conn: Any, step: Step, names: Names) -> list[Row]:
        """Run a step that reads and return the rows it finds. Raises as `Adapter.run` does."""


class DriverAdapter:
    """The base of adapters for a driver's own connections, which have no hook for a commit."""

    dialect: str

    def dialect_of(self, conn: Any) -> str:
        """Return the dialect of the driver."""
        return self.dialect

    def driver_connection(self, conn: Any) -> Any:
        """Return the connection itself."""
        return conn

    def beneath(self, conn: Any) -> Any:
        """Return the connection itself."""
        return conn

    def after_commit(self, conn: Any, call: Callable[[], object]) -> bool:
        """Return False: drivers have no hook."""
        return False
