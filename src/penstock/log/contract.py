"""What a log is: the contract that every engine keeps and every room uses.

Topics of records, appended and never changed: an offset is given once, dense from 0 in each partition. Keys,
values and headers are bytes in the log (`Entry`), and text where people and handlers see them (`Record`).
`penstock.testing.log_suite` asks all of it, of every engine.

Safe from any thread. Times are milliseconds since 1970. Where a call takes a `Topic`, one that was deleted
meanwhile holds nothing: what reads returns nothing, what writes raises UnknownTopic.
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
from penstock.model.limits import ERASED, check_topic
from penstock.model.partition import MURMUR3, SLOTS
from penstock.model.record import Record

from .entry import Content, Entry, content_of, record_of

if TYPE_CHECKING:
    from .sql.database import Transaction

OUTBOX_PARTITIONS = SLOTS  # of a topic that is created by publishing to it
DEFAULT_MAX_BYTES = 16 * 1024 * 1024
LAST_OFFSET = (1 << 63) - 1
_LOOK = 100  # offsets that a read by hand looks at together, at least


class Keep(NamedTuple):
    """What is kept of a topic, as the topic itself says; None: as the settings say, -1: without limit."""

    age_ms: int | None = None
    bytes: int | None = None
    records: int | None = None


class Compaction(NamedTuple):
    """A topic of which the last record of each key is kept, and a tombstone so long, at least."""

    tombstone_ms: int


class Topic(NamedTuple):
    """A named log. `id` is never given to another topic, also not to one of the same name."""

    id: int
    name: str
    partitions: int
    partitioner: str
    created_ms: int = 0
    keep: Keep = Keep()
    generation: int = 0  # how often it has grown


class Growth(NamedTuple):
    """One growth of a topic: where each of the partitions that it had before ended then."""

    ends: tuple[int, ...]


class Bounds(NamedTuple):
    """The offsets a partition holds: from `start` to before `end`."""

    start: int
    end: int


class Position(NamedTuple):
    """Where a record stands in its topic."""

    partition: int
    offset: int


class OffsetRange(NamedTuple):
    """Offsets of one partition: from `low` to before `high`."""

    partition: int
    low: int
    high: int


class Producer(NamedTuple):
    """Who appends. `sequence` numbers the first record of the batch; the next batch continues after its last.

    The same batch again (same sequence) adds nothing and gives the positions it got before.
    """

    id: str
    epoch: int
    sequence: int


class Batch(NamedTuple):
    """Records for one topic; without a partition each goes where the topic's partitioner puts its key."""

    topic: str
    contents: Sequence[Content]
    partition: int | None = None
    producer: Producer | None = None


class Appended(NamedTuple):
    """The last batch of a producer: where its records stand, and their ids, in the order it gave them.

    Both are remembered, whatever retention deletes.
    """

    epoch: int
    sequence: int
    topic_id: int
    positions: tuple[Position, ...]
    ids: tuple[str, ...]


class Chunk(NamedTuple):
    """What a read of ranges gave. `cut`: it ended early because there were bytes enough."""

    entries: Sequence[Entry]
    cut: bool


class Search(NamedTuple):
    """What a search gave. `cut`: not all was looked at. `gone`: retention may have deleted what is sought."""

    found: Entry | None
    cut: bool
    gone: bool


class LogIdentity(NamedTuple):
    """Which log this is. The incarnation rises when history is taken back, as by a restored backup."""

    id: str
    incarnation: int


class Log(ABC):
    """Topics of records. A name that no topic can have raises InvalidTopic wherever a name is taken.

    `compacts`: whether topics can be compacted by key.
    """

    compacts = False

    def within(self, tx: "Transaction") -> "Log":
        """Return this log for use inside a transaction of the database that it has its tables in."""
        return self

    def close(self) -> None:  # noqa: B027  # most have nothing to end
        """End what this log has begun in this process; another call begins it again or is refused."""

    # -- topics

    def check_parts(self) -> None:  # noqa: B027  # most are of one part
        """Make sure that records and tables are of one log and of one time, before anything is settled.

        Raises LogMismatch.
        """

    @abstractmethod
    def identity(self) -> LogIdentity:
        """Return the log's own id, given when it was made, and its incarnation."""

    @abstractmethod
    def raise_incarnation(self, above: int) -> LogIdentity:
        """Say that history was taken back since an incarnation; return the present one.

        One that is higher already was raised by another. A raised one was never used before, whatever a
        backup says.
        """

    def skip_to(self, topic: Topic, offsets: Mapping[int, int]) -> None:
        """Give no offset below these again, by partition: somebody has passed them already.

        For a log whose history was taken back while that of its readers was not. Nothing where both are one.
        """
        return None

    def shortened(self, topic: Topic) -> "dict[int, OffsetRange]":
        """Return what partitions have lost at their ends while a group that had passed it has not.

        Such a group is stopped, by name, until a person accepts the loss. Nothing where both are one.
        """
        return {}

    @abstractmethod
    def create_topic(
        self, name: str, *, partitions: int = OUTBOX_PARTITIONS, partitioner: str = MURMUR3
    ) -> Topic:
        """Make a topic, or return the one there is.

        Raises InvalidTopic, InvalidPartitions, InvalidPartitioner, PartitionsDiffer, PartitionerDiffers.
        """

    @abstractmethod
    def topics(self) -> list[Topic]:
        """Return all topics, by name."""

    @abstractmethod
    def topic(self, name: str) -> Topic:
        """Return a topic by name. Raises UnknownTopic."""

    def pinned_topic(self, name: str, *, alone: bool = False) -> Topic:
        """Return a topic by name; in a transaction that the log is part of, nobody deletes it until the end.

        Alone: nobody else pins it or appends to it either. It is the first lock that a transaction takes, or
        two of them may wait for each other. Raises UnknownTopic.
        """
        return self.topic(name)

    @abstractmethod
    def grow(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions, a multiple of what it has; the count it has already changes nothing.

        Under a lock that keeps everybody from appending to it: what was appended before stands in the old
        map, what comes later in the new one. Readers that hold some of it hold what is new from its start.
        Groups need more than that: see `penstock.operate.topics.grow`. Raises UnknownTopic,
        InvalidPartitions, InvalidGrowth.
        """

    @abstractmethod
    def growths(self, topic: Topic) -> list[Growth]:
        """Return how a topic has grown, the first growth first."""

    @abstractmethod
    def retain(self, topic: Topic, keep: Keep, *, only: Collection[str] = Keep._fields) -> None:
        """Say what is kept of a topic; with `only` just these fields, the others stay. Raises UnknownTopic.

        Two who change different fields at once both succeed.
        """

    @abstractmethod
    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records. Raises UnknownTopic."""

    # -- appending

    @abstractmethod
    def append_all(self, batches: Sequence[Batch]) -> list[list[Position]]:
        """Add batches, all or none, and return where their records stand, in the given order.

        Raises UnknownTopic, UnknownPartition; for a batch with a producer ProducerFenced when a later epoch
        has appended, OutOfSequence when the batch neither follows its last one nor repeats it.
        """

    @property
    def appends_at_once(self) -> bool:
        """Whether `append_at_once` may add something at all; asked before anything is made ready for it."""
        return False

    def append_at_once(self, batches: Sequence[Batch]) -> list[list[Position]] | None:
        """Add batches without a producer, as `append_all` does, if nothing has to be waited for.

        For an event loop: it asks no table, no disk and no other thread. None: nothing was added, and
        `append_all` has to. Raises as `append_all`.
        """
        return None

    @abstractmethod
    def last_batch(self, producer: str) -> Appended | None:
        """Return the last batch that a producer appended, if there is one."""

    @abstractmethod
    def trim_producers(self, prefix: str, epoch: int, *, limit: int = 1000) -> int:
        """Forget some producers whose ids begin so and whose last epoch is before this one; return how many.

        Their batches, sent again, are new.
        """

    @abstractmethod
    def durable(self, topic: Topic, position: Position) -> None:
        """Return once what stands at a position, and all before it in its partition, survives a crash.

        As durable as the engine is set. Where `append_all` itself waits for that, at once.
        """

    def append(
        self, topic: str, records: Sequence[Record], *, partition: int | None = None
    ) -> list[Position]:
        """Add records at the end of a topic and return where they stand, once they are durable.

        Without a partition each goes where its key belongs (no key: its id). Raises UnknownTopic,
        UnknownPartition.
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
        """Return the next offset of every partition that ever held something.

        Workers ask this again and again: it must be cheap.
        """

    @abstractmethod
    def all_bounds(self, topic: Topic, *, pinned: Collection[int] = ()) -> dict[int, Bounds]:
        """Return what every partition holds; nothing for a topic that is gone.

        In a transaction that the log is part of, pinned partitions are not trimmed until it ends.
        """

    def bounds_of(self, topics: Sequence[Topic]) -> dict[int, dict[int, Bounds]]:
        """Return what every partition of several topics holds, by the topic's id, as `all_bounds` of each.

        An engine that can answers with one look, whatever the number of topics.
        """
        return {each.id: self.all_bounds(each) for each in topics}

    @abstractmethod
    def read_ranges(
        self, topic: Topic, ranges: Sequence[OffsetRange], *, max_bytes: int, bare: bool = False
    ) -> Chunk:
        """Return the records of several ranges, in the order of the ranges.

        No more than about `max_bytes`, but one record at least; a record counts its key, value and headers,
        and `ENTRY_BYTES` more. Offsets that the log does not hold are left out. Bare: without values and
        headers, and all of them, however many bytes that are.
        """

    @abstractmethod
    def at(self, topic: Topic, positions: Collection[Position], *, bare: bool = False) -> list[Entry]:
        """Return the records at some positions, sorted, with their owner tags; those it holds."""

    def times_at(self, places: Mapping[Topic, Collection[Position]]) -> dict[int, dict[Position, int]]:
        """Return when the records at some positions of several topics were published, by the topic's id.

        Those it holds. An engine that can answers with one look, whatever the number of topics.
        """
        return {
            topic.id: {
                Position(each.partition, each.offset): each.timestamp_ms
                for each in self.at(topic, positions, bare=True)
            }
            for topic, positions in places.items()
        }

    @abstractmethod
    def first_offsets(self, topic: Topic, positions: Sequence[Position]) -> dict[int, int]:
        """Return where partitions go on: the first offset that is held at or after a position, if any."""

    def voids(self, topic: Topic, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return what of some ranges was given and is not for readers: it is no fault that nothing is there.

        Marks of transactions, records of transactions that were taken back, offsets of refused batches and of
        batches that a crash has lost before the disk had them, and what compaction has removed.
        """
        return []

    @abstractmethod
    def offsets_at(
        self, topic: Topic, timestamp_ms: int, ranges: Sequence[OffsetRange] | None = None
    ) -> dict[int, int]:
        """Return in each range (or whole partition) the first offset of a record at or after a moment.

        The end of the range where there is none.
        """

    @abstractmethod
    def find_id(
        self, topic: Topic, id: str, *, since_ms: int | None, walk: int | None, partition: int | None = None
    ) -> Search:
        """Look for a record by its id, at up to `walk` records of each partition; None: at all of them.

        From where the records of a moment begin; without a moment among the last ones.
        """

    @abstractmethod
    def find_key(
        self, topic: Topic, within: OffsetRange, key: bytes, *, limit: int, last: bool = False
    ) -> list[Entry]:
        """Return records of a key in a range, bare, in order; or its last, newest first, with headers."""

    def find_key_in(self, topic: Topic, ranges: Sequence[OffsetRange], key: bytes) -> list[Entry]:
        """Return all records of a key in ranges that do not meet, bare, in order of their partitions."""
        return [
            entry
            for within in sorted(ranges)
            for entry in self.find_key(topic, within, key, limit=within.high - within.low)
        ]

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

        At the end: an empty list. Raises UnknownTopic, UnknownPartition, OffsetOutOfRange, Undecodable.
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
            look = _LOOK  # erased records count for nothing, and would cost a look each
        del entries[limit:]
        if not entries or entries[0].offset != offset:
            bounds = self.bounds(topic, partition)
            if not bounds.start <= offset <= bounds.end:
                raise OffsetOutOfRange(topic, partition, offset, *bounds)
        return [record_of(topic, each) for each in entries]

    def bounds(self, topic: str, partition: int) -> Bounds:
        """Return the first offset kept and the next to be given. Raises UnknownTopic, UnknownPartition."""
        found = self.topic(topic)
        check_partition(found, partition)
        bounds = self.all_bounds(found)
        if partition not in bounds:  # deleted since it was found
            raise UnknownTopic(topic)
        return bounds[partition]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """Return the first offset whose timestamp is at or after a moment; the end when there is none."""
        bounds = self.bounds(topic, partition)
        within = [OffsetRange(partition, *bounds)]
        return self.offsets_at(self.topic(topic), timestamp_ms, within)[partition]

    # -- keeping less

    @abstractmethod
    def sizes(self, topic: Topic, ranges: Sequence[OffsetRange]) -> dict[int, int]:
        """Return how many bytes each range has, as a read counts them; reads all of it."""

    @abstractmethod
    def reach(self, topic: Topic, ranges: Sequence[OffsetRange], sizes: Sequence[int]) -> dict[int, int]:
        """Return where each range has held that many bytes: the offset after the last of those records."""

    @abstractmethod
    def trim(
        self,
        topic: Topic,
        ranges: Sequence[OffsetRange],
        *,
        unless: Callable[[], bool] = lambda: False,
    ) -> int:
        """Delete the oldest records, one range of each partition from its start on; return how many.

        `unless` is asked when nobody else can trim there any more: if it says so, StillNeeded is raised and
        nothing is deleted. The new starts are in force when it returns.
        """

    @abstractmethod
    def clear(self, topic: Topic) -> None:
        """Let every partition begin where it ends: nothing that was there is read again."""

    @abstractmethod
    def sweep(self, topic: Topic) -> None:
        """Give back the room of what was deleted or cleared, where that was put off; may take long.

        In a transaction of the database `delete_topic` and `clear` put it off: call this after its commit. It
        may be cut short and called again.
        """

    def claim(self) -> None:  # noqa: B027  # most can be changed by anyone
        """Make sure that this process may change the log: ask before tables and log change together.

        Raises WriterElsewhere where another process writes it.
        """

    @property
    def trims_here(self) -> bool | None:
        """Whether it is this process that trims and tends; None: any may, as they agree."""
        return None

    def compaction(self, topic: Topic) -> Compaction | None:
        """Return how a topic is compacted; None if it is not."""
        return None

    def compact(self, topic: Topic, compaction: Compaction | None) -> None:
        """Say whether, and how, a topic is compacted from now on. Raises StoreUnsupported."""
        if compaction is not None:
            raise StoreUnsupported("compaction by key", "a log in files, in a directory")

    def tend(
        self,
        topic: Topic,
        below: Mapping[int, int],
        *,
        leaving: Callable[[Sequence[OffsetRange]], None],
        now_ms: int,
    ) -> bool:
        """Do a bounded part of what keeps a topic small besides trimming; return whether there is more.

        Compaction leaves records out that later ones replace, before the offsets that are given for
        partitions; `leaving` is told of ranges that it will go through. Offsets stay as they are.
        """
        return False

    @abstractmethod
    def erase(self, topic: Topic, positions: Collection[Position], *, owner: str | None = None) -> int:
        """Take key, value, headers and owner out of records, which keep their offsets; return how many.

        Their type is `penstock.erased` from then on. With an owner: only of those that have that tag.
        """

    @abstractmethod
    def owned(self, owner: str, limit: int) -> list[tuple[int, Entry]]:
        """Return records with an owner tag, bare, each with the id of its topic; up to that many."""

    @abstractmethod
    def count_owned(self, owner: str) -> int:
        """Return how many records have an owner tag."""

    @abstractmethod
    def hold(self, reader: str, topic: Topic, offsets: Mapping[int, int]) -> None:
        """Keep retention back for a named reader that is not a group: from these offsets on all is kept.

        Replaces what the reader held of the topic; no offsets: it holds nothing there any more.
        """

    @abstractmethod
    def holds(self, topic: Topic) -> dict[str, dict[int, int]]:
        """Return what is held of a topic, by reader."""

    def holds_of(self, topics: Sequence[Topic]) -> dict[int, dict[str, dict[int, int]]]:
        """Return what is held of several topics, by the topic's id, as `holds` of each; some may be left out.

        An engine that can answers with one look, whatever the number of topics.
        """
        return {each.id: self.holds(each) for each in topics}


def check_partition(topic: Topic, partition: int) -> int:
    """Return a partition that a topic has. Raises UnknownPartition."""
    if not isinstance(partition, int) or not 0 <= partition < topic.partitions:
        raise UnknownPartition(topic.name, partition, topic.partitions)
    return partition


def checked_topic(name: str, found: Topic | None) -> Topic:
    """Return a topic that was looked for. Raises InvalidTopic, UnknownTopic."""
    check_topic(name)
    if found is None:
        raise UnknownTopic(name)
    return found


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
