"""The contract of a log, kept by every engine and used by every room.

Topics of records, appended and never changed: an offset is assigned once, dense from 0 in each partition.
Keys, values and headers are bytes in the log (`Entry`), and text where people and handlers see them
(`Record`). `tests/suites/log_suite.py` tests all of it, on every engine.

Safe from any thread. Times are milliseconds since 1970. A call with a `Topic` that was deleted meanwhile
finds it empty: a read returns nothing, a write raises UnknownTopic.

The seam: an engine implements the abstract methods. The others have a default, right for most engines, and are for

| purpose                                  | methods                                                         |
|------------------------------------------|-----------------------------------------------------------------|
| a transaction of the `database` room     | `within`: a log in the same database takes part in it, one in   |
|                                          | files reads tables by it and writes on its own; `pinned_topic`  |
| one query, however many topics or ranges | `bounds_of`, `times_at`, `holds_of`, `find_key_in`              |
| a log beside its tables, which can part  | `check_parts`, `skip_to`, `shortened`                           |
| a log with one writing process           | `claim`, `trims_here`, `append_at_once`, `close`                |
| offsets without records, and compaction  | `voids`, `compaction`, `compact`, `tend`                        |

Only the doctor and the listing of damage ask which engine it is: what they look for differs.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import (
    OffsetOutOfRange,
    OutOfSequence,
    ProducerFenced,
    StoreUnsupported,
    UnknownPartition,
    UnknownTopic,
)
from penstock.model.limits import ERASED
from penstock.model.partition import MURMUR3, SLOTS
from penstock.model.record import Record

from .entry import Content, Entry, content_of, record_of

if TYPE_CHECKING:
    from penstock.database.database import Transaction

OUTBOX_PARTITIONS = SLOTS  # partitions of a topic that is created by publishing to it
DEFAULT_MAX_BYTES = 16 * 1024 * 1024
LAST_OFFSET = (1 << 63) - 1
_LOOK = 100  # least number of offsets in each query of `read` after the first


class Keep(NamedTuple):
    """A topic's own retention limits; None: as in the settings, -1: without limit."""

    age_ms: int | None = None
    bytes: int | None = None
    records: int | None = None


class Compaction(NamedTuple):
    """Keep the last record of each key, and a tombstone for at least this time."""

    tombstone_ms: int


class Topic(NamedTuple):
    """A named log. `id` is never reused, not even for a topic of the same name."""

    id: int
    name: str
    partitions: int
    partitioner: str
    created_ms: int = 0
    keep: Keep = Keep()
    generation: int = 0  # number of its growths


class Growth(NamedTuple):
    """One growth of a topic: the end of each former partition at that time."""

    ends: tuple[int, ...]


class Bounds(NamedTuple):
    """The offsets a partition holds: from `start` to before `end`."""

    start: int
    end: int


class Position(NamedTuple):
    """The place of a record in its topic."""

    partition: int
    offset: int


class OffsetRange(NamedTuple):
    """Offsets of one partition: from `low` to before `high`."""

    partition: int
    low: int
    high: int


class Producer(NamedTuple):
    """A producer. `sequence` is that of the batch's first record; the same one again returns its first positions."""

    id: str
    epoch: int
    sequence: int


class Batch(NamedTuple):
    """Records for one topic; without a partition, the topic's partitioner places each by its key."""

    topic: str
    contents: Sequence[Content]
    partition: int | None = None
    producer: Producer | None = None


class Appended(NamedTuple):
    """The last batch of a producer: positions and ids of its records, in its order, even of those trimmed since."""

    epoch: int
    sequence: int
    topic_id: int
    positions: tuple[Position, ...]
    ids: tuple[str, ...]


class Chunk(NamedTuple):
    """The result of a read of ranges. `cut`: it ended early because it reached its byte limit."""

    entries: Sequence[Entry]
    cut: bool


class Search(NamedTuple):
    """The result of a search. `cut`: it stopped at its limit. `gone`: retention may have deleted the record."""

    found: Entry | None
    cut: bool
    gone: bool


class LogIdentity(NamedTuple):
    """The identity of a log. The incarnation rises when history is rolled back, as by a restored backup."""

    id: str
    incarnation: int


class Log(ABC):
    """Topics of records. Methods that take a name raise InvalidTopic. `compacts`: topics can be compacted by key."""

    compacts = False

    def within(self, tx: "Transaction") -> "Log":
        """Return this log for use inside a transaction of the database that holds its tables."""
        return self

    def close(self) -> None:  # noqa: B027  # most have nothing to close
        """Release what this log opened in this process; a later call opens it again or is refused."""

    # -- topics

    def check_parts(self) -> None:  # noqa: B027  # most have one part
        """Check that records and tables belong to one log and one point in time. Raises LogMismatch."""

    def check_files(self) -> None:  # noqa: B027  # most have no files of their own
        """Raise FileUnreadable while a file that was needed cannot be read; looks for no others."""

    @abstractmethod
    def identity(self) -> LogIdentity:
        """Return the log's id, assigned when it was created, and its incarnation."""

    @abstractmethod
    def raise_incarnation(self, above: int) -> LogIdentity:
        """Record that history was rolled back since an incarnation; return the present one, never used before."""

    def skip_to(self, topic: Topic, offsets: Mapping[int, int]) -> None:
        """Never assign an offset below these, by partition: readers passed them before history was rolled back."""
        return None

    def shortened(self, topic: Topic) -> "dict[int, OffsetRange]":
        """Return lost offsets at the ends that a group had passed: it is stopped until an operator accepts the loss."""
        return {}

    @abstractmethod
    def create_topic(self, name: str, *, partitions: int = OUTBOX_PARTITIONS, partitioner: str = MURMUR3) -> Topic:
        """Create a topic, or return the existing one.

        Raises InvalidTopic, InvalidPartitions, InvalidPartitioner, PartitionsDiffer, PartitionerDiffers.
        """

    @abstractmethod
    def topics(self) -> list[Topic]:
        """Return all topics, by name."""

    @abstractmethod
    def topic(self, name: str) -> Topic:
        """Return a topic by name. Raises UnknownTopic."""

    def pinned_topic(self, name: str, *, alone: bool = False) -> Topic:
        """Return a topic by name; inside a transaction of the log, it cannot be deleted until the end.

        `alone`: nor pinned or appended to by others. Lock it first, or transactions may deadlock. Raises UnknownTopic.
        """
        return self.topic(name)

    @abstractmethod
    def grow(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions, a multiple of its present count; the same count changes nothing.

        A lock keeps others from appending meanwhile: earlier records are placed by the old map, later ones by
        the new. A reader's hold on the topic extends to the new partitions from their start. Groups need more
        than that: see `penstock.operate.topics.grow`. Raises UnknownTopic, InvalidPartitions, InvalidGrowth.
        """

    @abstractmethod
    def growths(self, topic: Topic) -> list[Growth]:
        """Return the growths of a topic, the first one first."""

    @abstractmethod
    def retain(self, topic: Topic, keep: Keep, *, only: Collection[str] = Keep._fields) -> None:
        """Set a topic's retention limits, or `only` some; others may be changed meanwhile. Raises UnknownTopic."""

    @abstractmethod
    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records. Raises UnknownTopic."""

    # -- appending

    @abstractmethod
    def append_all(self, batches: Sequence[Batch]) -> list[list[Position]]:
        """Add batches, all or none, and return the positions of their records, in the given order.

        Raises UnknownTopic, UnknownPartition; for a batch with a producer, ProducerFenced when a later epoch
        has appended, OutOfSequence when the batch neither follows the producer's last one nor repeats it.
        """

    @property
    def appends_at_once(self) -> bool:
        """Whether `append_at_once` can succeed at all; checked before preparing a call."""
        return False

    def append_at_once(self, batches: Sequence[Batch]) -> list[list[Position]] | None:
        """Add batches without a producer as `append_all` does, but never wait, as in an event loop: None then."""
        return None

    @abstractmethod
    def last_batch(self, producer: str) -> Appended | None:
        """Return the last batch that a producer appended, if any."""

    @abstractmethod
    def trim_producers(self, prefix: str, epoch: int, *, limit: int = 1000) -> int:
        """Forget producers of an id prefix with an earlier last epoch; return how many. Repetitions are then new."""

    def durable(self, topic: Topic, position: Position) -> None:  # noqa: B027  # `append_all` itself waits for it
        """Return once the record at a position, and all before it, is as durable as the engine's settings demand."""

    def append(self, topic: str, records: Sequence[Record], *, partition: int | None = None) -> list[Position]:
        """Add records at the end of a topic and return their positions, once they are durable.

        Without a partition, each is placed by its key (no key: by its id). Raises UnknownTopic, UnknownPartition.
        """
        found = self.topic(topic)
        if not records:
            return []
        contents = [content_of(record) for record in records]
        (positions,) = self.append_all([Batch(topic, contents, partition)])
        for each in dict(positions).items():
            self.durable(found, Position(*each))
        return positions

    # -- reading

    @abstractmethod
    def ends(self, topic: Topic) -> dict[int, int]:
        """Return the next offset of every partition that ever held a record; workers call it all the time."""

    @abstractmethod
    def all_bounds(self, topic: Topic, *, pinned: Collection[int] = ()) -> dict[int, Bounds]:
        """Return the bounds of all partitions, none if deleted. `pinned`: not trimmed before the transaction ends."""

    def bounds_of(self, topics: Sequence[Topic]) -> dict[int, dict[int, Bounds]]:
        """Return the bounds of every partition of several topics, by topic id, as `all_bounds` does."""
        return {each.id: self.all_bounds(each) for each in topics}

    @abstractmethod
    def read_ranges(self, topic: Topic, ranges: Sequence[OffsetRange], *, max_bytes: int, bare: bool = False) -> Chunk:
        """Return the records of several ranges, in the order of the ranges.

        About `max_bytes` at most, but at least one record; a record counts as key, value, headers and `ENTRY_BYTES`.
        Offsets that the log does not hold are left out. Bare: all records, without values and headers.
        """

    @abstractmethod
    def at(self, topic: Topic, positions: Collection[Position], *, bare: bool = False) -> list[Entry]:
        """Return the records at some positions, sorted, with their owner tags; missing ones are left out."""

    def times_at(self, places: Mapping[Topic, Collection[Position]]) -> dict[int, dict[Position, int]]:
        """Return the publishing times of the records at some positions, by topic id; missing ones are left out."""
        return {
            topic.id: {
                Position(each.partition, each.offset): each.timestamp_ms
                for each in self.at(topic, positions, bare=True)
            }
            for topic, positions in places.items()
        }

    @abstractmethod
    def first_offsets(self, topic: Topic, positions: Sequence[Position]) -> dict[int, int]:
        """Return the first offset held at or after each position, by partition, where there is one."""

    def voids(self, topic: Topic, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the void offsets in some ranges: assigned, but with no record for readers, and no damage."""
        return []

    @abstractmethod
    def offsets_at(
        self, topic: Topic, timestamp_ms: int, ranges: Sequence[OffsetRange] | None = None
    ) -> dict[int, int]:
        """Return, for each range (or whole partition), the first offset of a record at or after a time, or its end."""

    @abstractmethod
    def find_id(
        self, topic: Topic, id: str, *, since_ms: int | None, walk: int | None, partition: int | None = None
    ) -> Search:
        """Look for an id in `walk` records of each partition (None: all), from `since_ms` on, else in the last ones."""

    @abstractmethod
    def find_key(self, topic: Topic, within: OffsetRange, key: bytes, *, limit: int, last: bool = False) -> list[Entry]:
        """Return records of a key in a range, bare, in order; with `last`, newest first, with headers."""

    def find_key_in(self, topic: Topic, ranges: Sequence[OffsetRange], key: bytes) -> list[Entry]:
        """Return all records of a key in disjoint ranges, bare, in order of their partitions."""
        return [
            entry
            for within in sorted(ranges)
            for entry in self.find_key(topic, within, key, limit=within.high - within.low)
        ]

    def read(
        self, topic: str, partition: int, offset: int = 0, limit: int = 1000, *, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> list[Record]:
        """Return the records from an offset on: at most `limit`, about `max_bytes`, but at least one.

        At the end of the partition: none. Raises UnknownTopic, UnknownPartition, OffsetOutOfRange, Undecodable.
        """
        found = self.topic(topic)
        check_partition(found, partition)
        entries, at, left, look = list[Entry](), offset, max_bytes, 0
        while len(entries) < limit and 0 <= at <= LAST_OFFSET:
            wanted = OffsetRange(partition, at, min(at + max(limit - len(entries), look), LAST_OFFSET))
            chunk = self.read_ranges(found, [wanted], max_bytes=left)
            entries += [each for each in chunk.entries if each.type != ERASED]
            left -= sum(each.content.size for each in chunk.entries)
            at = chunk.entries[-1].offset + 1 if chunk.entries else at
            if entries and (chunk.cut or left <= 0):
                break
            if at < wanted.high and not chunk.cut:  # the end, or records are missing here
                firsts = self.first_offsets(found, [Position(partition, at)])
                if partition not in firsts:
                    break
                at = firsts[partition]
            look = _LOOK  # erased records are skipped; without this each would cost a query
        del entries[limit:]
        if not entries or entries[0].offset != offset:
            bounds = self.bounds(topic, partition)
            if not bounds.start <= offset <= bounds.end:
                raise OffsetOutOfRange(topic, partition, offset, *bounds)
        return [record_of(topic, each) for each in entries]

    def bounds(self, topic: str, partition: int) -> Bounds:
        """Return the first offset kept and the next to be assigned. Raises UnknownTopic, UnknownPartition."""
        found = self.topic(topic)
        check_partition(found, partition)
        bounds = self.all_bounds(found)
        if partition not in bounds:  # deleted meanwhile
            raise UnknownTopic(topic)
        return bounds[partition]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """Return the first offset whose timestamp is at or after a time; the end when there is none."""
        bounds = self.bounds(topic, partition)
        within = [OffsetRange(partition, *bounds)]
        return self.offsets_at(self.topic(topic), timestamp_ms, within)[partition]

    # -- keeping less

    @abstractmethod
    def sizes(self, topic: Topic, ranges: Sequence[OffsetRange]) -> dict[int, int]:
        """Return the bytes of each range, as a read counts them; reads all of it."""

    @abstractmethod
    def reach(self, topic: Topic, ranges: Sequence[OffsetRange], sizes: Sequence[int]) -> dict[int, int]:
        """Return, for each range, the offset after the record that brings it to that many bytes."""

    @abstractmethod
    def trim(self, topic: Topic, ranges: Sequence[OffsetRange], *, unless: Callable[[], bool] = lambda: False) -> int:
        """Delete the oldest records, one range of each partition from its start on; return how many.

        `unless` is called once the lock keeps others from trimming: if it returns true, StillNeeded is raised
        and nothing is deleted. The new starts are in force on return.
        """

    @abstractmethod
    def clear(self, topic: Topic) -> None:
        """Move the start of every partition to its end: no present record is read again."""

    @abstractmethod
    def sweep(self, topic: Topic) -> None:
        """Free space whose release `delete_topic` or `clear` postponed, after the commit; call again if interrupted."""

    def claim(self) -> None:  # noqa: B027  # most can be changed by any process
        """Make sure that this process may write, before tables and log change together. Raises WriterElsewhere."""

    @property
    def trims_here(self) -> bool | None:
        """Whether this process trims and tends; None: any process may."""
        return None

    def compaction(self, topic: Topic) -> Compaction | None:
        """Return how a topic is compacted; None if it is not."""
        return None

    def compact(self, topic: Topic, compaction: Compaction | None) -> None:
        """Set the compaction of a topic; None turns it off. Raises StoreUnsupported."""
        if compaction is not None:
            raise StoreUnsupported("compaction by key", "a log in files, in a directory")

    def tend(
        self, topic: Topic, below: Mapping[int, int], *, leaving: Callable[[Sequence[OffsetRange]], None], now_ms: int
    ) -> bool:
        """Do a bounded part of the upkeep besides trimming; return whether there is more.

        Compaction removes records that later ones replace, below the given offset of each partition; `leaving` is
        called with the ranges before they are rewritten. Offsets do not change.
        """
        return False

    @abstractmethod
    def erase(self, topic: Topic, positions: Collection[Position], *, owner: str | None = None) -> int:
        """Erase records' content, only of `owner` if given; return how many. Their type becomes `penstock.erased`."""

    @abstractmethod
    def owned(self, owner: str, limit: int) -> list[tuple[int, Entry]]:
        """Return up to `limit` records with an owner tag, bare, each with the id of its topic."""

    @abstractmethod
    def count_owned(self, owner: str) -> int:
        """Return the number of records with an owner tag."""

    @abstractmethod
    def hold(self, reader: str, topic: Topic, offsets: Mapping[int, int]) -> None:
        """Keep records from offsets on for a named reader, no group. It replaces the earlier one; none: releases it."""

    @abstractmethod
    def holds(self, topic: Topic) -> dict[str, dict[int, int]]:
        """Return the holds on a topic, by reader."""

    def holds_of(self, topics: Sequence[Topic]) -> dict[int, dict[str, dict[int, int]]]:
        """Return the holds on several topics, by topic id; topics without holds may be left out."""
        return {each.id: self.holds(each) for each in topics}


def check_partition(topic: Topic, partition: int) -> int:
    """Return the number if the topic has that partition. Raises UnknownPartition."""
    if not isinstance(partition, int) or not 0 <= partition < topic.partitions:
        raise UnknownPartition(topic.name, partition, topic.partitions)
    return partition


def is_repeated(producer: Producer, last: Appended | None) -> bool:
    """Return whether a producer's batch was added before. Raises ProducerFenced, OutOfSequence."""
    if last is None:
        return False
    id, epoch, sequence = producer
    if epoch < last.epoch:
        raise ProducerFenced(id, epoch, last.epoch)
    following = last.sequence + len(last.positions)
    if sequence not in (last.sequence, following):
        raise OutOfSequence(id, sequence, following)
    return sequence == last.sequence
