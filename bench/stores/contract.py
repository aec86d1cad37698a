"""What a case needs of a kind of database: stores to make, copy and drop, and whose CPU to count."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from bench.run import Run
from bench.stores.recording import Tape
from penstock import Outbox
from penstock.database.database import Database


class Store(Protocol):
    """One database with Penstock's tables."""

    @property
    def url(self) -> str:
        """Its address, as Penstock takes it."""

    @property
    def outbox(self) -> Outbox:
        """An outbox on it."""

    def connect(self, *, autocommit: bool = False) -> Any:
        """Open a connection as an application does: the driver's defaults, durable."""

    def database(self) -> Database:
        """Return Penstock's own way to it, nothing opened yet."""

    def tidy(self) -> None:
        """Do what the database does by itself long before a store is old: its plans depend on it."""

    def recording(self, tape: Tape) -> AbstractContextManager[None]:
        """Put on a tape what runs on connections that are opened within a block."""

    def play(self, conn: Any, tape: Tape) -> None:
        """Run what is on a tape straight through the driver, reading all rows."""


class Engine(Protocol):
    """Where stores live: a server of our own, or a folder."""

    name: str

    def create(self) -> Store:
        """Make a store with empty tables."""

    def copy(self, store: Store) -> Store:
        """Make a store with the same rows; nobody may be connected to the first."""

    def drop(self, store: Store) -> None:
        """Remove a store."""

    def watch(self, run: Run) -> None:
        """Count the database's own CPU, where it is not in this process."""


EngineOpener = Callable[[Run], AbstractContextManager[Engine]]  # for `run.once`
