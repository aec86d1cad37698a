"""What fetching is: rows of a topic as Arrow, straight from the database's own driver.

A fetcher is opened in a worker of Spark, one per task. It yields batches of a bounded size with the columns
`partition, offset, type, timestamp_ms, key, value, headers`; a column that is not asked for is all null.
Two libraries of SQLite in one process drop each other's locks (`sqlite_drivers.py`): none of ours opens a
SQLite file while a fetcher has it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..offsets import Piece

WANTED = ("key", "value", "headers")  # the columns that cost


@dataclass(frozen=True, slots=True)
class Request:
    """Which records, and which of the costly columns."""

    topic_id: int
    pieces: Sequence[Piece]
    columns: Sequence[str]

    def wants(self, column: str) -> bool:
        """Return whether a column is asked for."""
        return column in self.columns


class Fetcher(Protocol):
    """An open connection of one task."""

    def batches(self, request: Request) -> Iterator[Any]:
        """Yield the records asked for, piece by piece and in order within a piece."""

    def lost(self, request: Request) -> Sequence[Piece]:
        """Return what retention took of a request that was read to its end, and of which rows are missing."""

    def close(self) -> None:
        """Close it."""
