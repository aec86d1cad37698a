"""What a database must be able to do for Penstock: the contract of a dialect.

A dialect is a folder with this class in `dialect.py`, `schema.sql`, `migrations/` and one file per named
statement. It knows its driver and nothing of what the statements mean. `database.py` builds transactions,
retries and names on top of it, the same for all.
"""

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


class Dialect(Protocol):
    """One kind of database, reached through its driver."""

    name: str  # also the name of the folders with its SQL

    def connect(self) -> Any:
        """Open a connection of ours. Raises the driver's error."""

    def begin(self, conn: Any) -> None:
        """Begin a transaction that may write."""

    def commit(self, conn: Any) -> None:
        """Commit it."""

    def rollback(self, conn: Any) -> None:
        """Take it back; the connection may be broken already."""

    def close(self, conn: Any) -> None:
        """Close a connection, in whatever state."""

    def execute(self, conn: Any, sql: str, params: Params) -> Result:
        """Run one statement."""

    def run_script(self, conn: Any, script: str) -> None:
        """Run several statements without parameters inside the open transaction."""

    def serialize_migrations(self, conn: Any) -> None:
        """Make a second migration wait, inside the open transaction, until this one has ended."""

    def has_table(self, conn: Any, table: str) -> bool:
        """Return whether a table of that full name is there."""

    def is_conflict(self, error: Exception) -> bool:
        """Return whether the transaction failed only because of others, so that it may be run again."""

    def is_away(self, error: Exception) -> bool:
        """Return whether the error means that the database cannot be reached now."""

    def translate(self, error: Exception) -> Error | None:
        """Return what the error means in Penstock's words, or None to let it stand."""
