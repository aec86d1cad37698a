"""The interface of fetchers: rows of a topic as Arrow, straight from the database's own driver.

A fetcher is opened in a worker of Spark, one per task. It yields batches of a bounded size with the columns
`partition, offset, type, timestamp_ms, key, value, headers`; a column that is not requested is all null.
Two SQLite libraries in one process drop each other's locks (`sqlite.py`): no code of ours opens a
SQLite file while a fetcher has it open.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...offsets import Piece

WANTED = ("key", "value", "headers")  # the costly columns


@dataclass(frozen=True, slots=True)
class Request:
    """The records to fetch, and the columns to fill."""

    topic_id: int
    pieces: Sequence[Piece]
    columns: Sequence[str]

    def wants(self, column: str) -> bool:
        """Return whether a column is requested."""
        return column in self.columns


class Fetcher(Protocol):
    """An open connection of one task."""

    def batches(self, request: Request) -> Iterator[Any]:
        """Yield the requested records, piece by piece and in order within a piece."""

    def lost(self, request: Request) -> Sequence[Piece]:
        """Return the pieces that retention removed, for a request read to its end with rows missing."""

    def close(self) -> None:
        """Close it."""
