"""What a log is: the contract that every engine keeps (`penstock.testing.log_suite` asks it).

An append-only sequence of records per topic and partition. An offset is given once, dense from 0, and
never changes. Reading changes nothing. Append returns when the records are durable as the engine is set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.model.partition import SLOTS
from penstock.model.record import Record

OUTBOX_PARTITIONS = SLOTS  # of a topic that comes to be by publishing to it
DEFAULT_MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Topic:
    """A named log. `id` is never given to another topic, also not to one of the same name."""

    id: int
    name: str
    partitions: int
    partitioner: str


class Bounds(NamedTuple):
    """The offsets a partition holds: from `start` to before `end`."""

    start: int
    end: int


class Position(NamedTuple):
    """Where a record stands in its topic."""

    partition: int
    offset: int


class Log(Protocol):
    """Topics of records. A name that no topic can have raises InvalidTopic in every call."""

    def create_topic(self, name: str, *, partitions: int = OUTBOX_PARTITIONS) -> Topic:
        """Make a topic, or return the one there is.

        Raises InvalidTopic, InvalidPartitions, PartitionsDiffer.
        """

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""

    def topic(self, name: str) -> Topic:
        """Return a topic by name. Raises UnknownTopic."""

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records and cursors. Raises UnknownTopic."""

    def append(
        self, topic: str, records: Sequence[Record], *, partition: int | None = None
    ) -> list[Position]:
        """Add records at the end and return where they stand, in the given order.

        Without a partition each goes where its key belongs (no key: its id). Raises UnknownTopic,
        UnknownPartition.
        """

    def read(
        self,
        topic: str,
        partition: int,
        offset: int = 0,
        limit: int = 1000,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> list[Record]:
        """Return the records from an offset on: at most `limit`, and about `max_bytes`, but at least one.

        At the end: an empty list. Raises UnknownTopic, UnknownPartition, OffsetOutOfRange.
        """

    def bounds(self, topic: str, partition: int) -> Bounds:
        """Return the first offset kept and the next to be given. Raises UnknownTopic, UnknownPartition."""

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """Return the first offset whose timestamp is at or after a moment; the end when there is none."""
