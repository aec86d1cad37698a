"""What a database must be able to do for Penstock: the contract of a dialect.

A dialect is a folder with this class in `dialect.py`, `schema.sql`, `migrations/` and one file per named
statement. It knows its driver and nothing of what the statements mean. `database.py` builds transactions,
retries and names on top of it, the same for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.errors import Error

Row = tuple[Any, ...]
Params = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement gave: its rows, and how many rows it changed."""

    rows: list[Row]
    changed: int


class Rows:
    """A parameter that is a small table: columns of equal length, in the order the statement reads them.

    Each dialect hands it over in its own way: one array a column, or one JSON array of rows.
    """

    __slots__ = ("columns",)

    def __init__(self, **columns: Sequence[Any]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


class Listener(Protocol):
    """Waits for a sign from other connections that something may have come."""

    def wait(self, seconds: float) -> bool:
        """Wait so long; return whether there was a sign. Raises the driver's error."""

    def close(self) -> None:
        """End listening."""


class Dialect(Protocol):
    """One kind of database, reached through its driver."""

    name: str  # also the name of the folders with its SQL
    deletes_returning: bool  # a DELETE can feed an INSERT in one statement
    has_schemas: bool  # tables can live in a named schema
    notifies: bool  # one connection can wake another through the database

    def connect(self) -> Any:
        """Open a connection of ours. Raises the driver's error."""

    def begin(self, conn: Any, *, bounded: bool) -> None:
        """Begin a transaction that may write.

        Bounded: it is ours, and where the database can, it ends one that waits or stands idle too long.
        """

    def commit(self, conn: Any) -> None:
        """Commit it."""

    def rollback(self, conn: Any) -> None:
        """Take it back; the connection may be broken already."""

    def close(self, conn: Any) -> None:
        """Close a connection, in whatever state."""

    def execute(self, conn: Any, sql: str, params: Params) -> Result:
        """Run one statement; lists and `Rows` among the parameters are handed over as the dialect can."""

    def bulk(self, conn: Any, sql: str, rows: Sequence[Row]) -> None:
        """Run an INSERT for all rows, whose values are in the order of the statement."""

    def run_script(self, conn: Any, script: str) -> None:
        """Run several statements without parameters inside the open transaction."""

    def serialize_migrations(self, conn: Any) -> None:
        """Make a second migration wait, inside the open transaction, until this one has ended."""

    def notify(self, conn: Any, channel: str) -> None:
        """Wake whoever listens on a channel; where the database cannot, nothing."""

    def listen(self, channel: str) -> Listener:
        """Begin to listen, on a connection of its own. Raises the driver's error."""

    def is_conflict(self, error: Exception) -> bool:
        """Return whether the transaction failed only because of others, so that it may be run again."""

    def is_away(self, error: Exception) -> bool:
        """Return whether the error means that the database cannot be reached now."""

    def translate(self, error: Exception) -> Error | None:
        """Return what the error means in Penstock's words, or None to let it stand."""
