"""Fetchers: rows of a topic as Arrow, straight from the database's own driver.

A fetcher is opened in a worker of Spark, one per task, which imports only the driver it needs. It yields
batches of a bounded size with the columns `partition, offset, type, timestamp_ms, key, value, headers`; a
column that is not requested is all null. Two SQLite libraries in one process drop each other's locks
(`sqlite.py`): no code of ours opens a SQLite file while a fetcher has it open.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.database.address import directory_in
from penstock.database.dialects import dialect_name
from penstock.database.naming import Names
from penstock.errors import StoreUnsupported
from penstock.log.kafka_settings import KafkaSettings

from ...address import is_kafka
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


def open_fetcher(url: str, names: Names, topic: str = "", kafka: KafkaSettings | None = None) -> Fetcher:
    """Open the fetcher of a store or topic. Raises MissingExtra, InvalidUrl, StoreUnreachable, StoreUnsupported."""
    if is_kafka(url):
        from .kafka import KafkaFetcher

        return KafkaFetcher(url, topic, kafka)
    directory = directory_in(url)
    if directory is not None:
        from .files import FilesFetcher

        return FilesFetcher(directory)
    dialect = dialect_name(url)
    if dialect == "postgres":
        from .postgres import PostgresFetcher

        return PostgresFetcher(url, names)
    if dialect == "sqlite":
        from .sqlite import SqliteFetcher

        return SqliteFetcher(url, names)
    raise StoreUnsupported("a pipeline", "a log that other processes can reach: in SQLite, PostgreSQL or files")


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
