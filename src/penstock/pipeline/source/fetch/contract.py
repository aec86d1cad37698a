"""The interface of a fetcher: the request it gets, and the batches it yields."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ...offsets import Piece, before_starts

WANTED = ("key", "value", "headers")  # the costly columns
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """The records to fetch, and the columns to fill."""

    topic_id: int
    pieces: Sequence[Piece]
    columns: Sequence[str]

    def wants(self, column: str) -> bool:
        """Return whether a column is requested."""
        return column in self.columns


class Fetcher:
    """An open connection of one task."""

    def batches(self, request: Request) -> Iterator[Any]:
        """Yield the requested records, piece by piece and in order within a piece."""
        raise NotImplementedError

    def lost(self, request: Request) -> Sequence[Piece]:
        """Return the pieces that retention removed, for a request read to its end with rows missing."""
        return before_starts(request.pieces, self.starts(request.topic_id))

    def starts(self, topic_id: int) -> Mapping[int, int]:
        """Return the first offset kept of each partition."""
        raise NotImplementedError

    def close(self) -> None:
        """Close it."""
        raise NotImplementedError


def grouped(
    items: Iterable[T], sizes: Callable[[T], tuple[int, int]], most_records: int, most_bytes: int
) -> Iterator[list[T]]:
    """Yield items in groups with enough records or bytes; `sizes` returns both of an item."""
    group, records, size = list[T](), 0, 0
    for item in items:
        group.append(item)
        more_records, more_bytes = sizes(item)
        records, size = records + more_records, size + more_bytes
        if records >= most_records or size >= most_bytes:
            yield group
            group, records, size = [], 0, 0
    if group:
        yield group
