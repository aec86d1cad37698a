"""The contract of an adapter: run our statements on the caller's connection, in the caller's transaction.

An adapter never begins, commits or rolls back; it only refuses a connection on which staging would
autocommit. One short file per kind of connection in `adapters/`. It is sync or async like its connections.

A rule is written once, as a generator that yields steps and receives their results; it does no I/O. Two
drivers run the steps, sync and async.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from penstock.database.contract import Row
from penstock.database.naming import Names

T = TypeVar("T")


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


class Adapter(Protocol):
    """One kind of connection."""

    dialect: str | None  # the dialect of all its connections, if they share one

    def dialect_of(self, conn: Any) -> str:
        """Return the dialect of the database behind the connection."""

    def check(self, conn: Any) -> None:
        """Refuse a connection that would autocommit. Raises NoTransaction."""

    def driver_connection(self, conn: Any) -> Any:
        """Return the driver's own connection, whose transaction the bell can watch."""

    def is_open(self, driver_connection: Any) -> bool:
        """Return whether a transaction is open on it; from another thread, without I/O."""

    def after_commit(self, conn: Any, call: Callable[[], object]) -> bool:
        """Register `call` to run after the commit, if the library has a hook; return whether it has."""

    def beneath(self, conn: Any) -> Any:
        """Return the driver's connection, for a statement to keep out of a library's query log.

        If that is async or of an unknown driver, return the connection itself.
        """

    def run(self, conn: Any, step: Step, names: Names) -> int:
        """Run one step and return the number of rows it changed.

        Raises SchemaMissing, or the driver's own error unchanged.
        """

    def rows(self, conn: Any, step: Step, names: Names) -> list[Row]:
        """Run a step that reads and return the rows it finds, as plain tuples. Raises as `run` does."""


class AsyncAdapter(Protocol):
    """One kind of async connection; methods without I/O are as in `Adapter`."""

    dialect: str | None

    def dialect_of(self, conn: Any) -> str:
        """Return the dialect of the database behind the connection."""

    async def acheck(self, conn: Any) -> None:
        """Refuse a connection that would autocommit. Raises NoTransaction."""

    def driver_connection(self, conn: Any) -> Any:
        """Return the driver's own connection, whose transaction the bell can watch."""

    def is_open(self, driver_connection: Any) -> bool:
        """Return whether a transaction is open on it; from another thread, without I/O."""

    def after_commit(self, conn: Any, call: Callable[[], object]) -> bool:
        """Register `call` to run after the commit, if the library has a hook; return whether it has."""

    async def arun(self, conn: Any, step: Step, names: Names) -> int:
        """Run one step and return the number of rows it changed. Raises as `Adapter.run` does."""

    async def arows(self, conn: Any, step: Step, names: Names) -> list[Row]:
        """Run a step that reads and return the rows it finds. Raises as `Adapter.run` does."""


class NoCommitHook:
    """The base of adapters for drivers."""

    def after_commit(self, conn: Any, call: Callable[[], object]) -> bool:
        """Return False: drivers have no hook."""
        return False
