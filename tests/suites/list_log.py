"""A log in plain Python lists: the smallest implementation of the contract, without SQL.

One process, lost at its end. Not an engine for users: it proves, in every suite, that nothing above `log/`
depends on the database's log table.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from uuid import uuid4

from penstock.clock import SYSTEM, Clock
from penstock.errors import PartitionerDiffers, PartitionsDiffer, StillNeeded, UnknownTopic
from penstock.log.contract import (
    LAST_OFFSET,
    OUTBOX_PARTITIONS,
    Appended,
    Batch,
    Bounds,
    Chunk,
    Growth,
    Keep,
    Log,
    LogIdentity,
    OffsetRange,
    Position,
    Search,
    Topic,
    check_partition,
    is_repeated,
)
from penstock.log.entry import Content, Entry
from penstock.log.topics import check_growth
from penstock.model.limits import ERASED, check_topic
from penstock.model.partition import MURMUR3, check_partitioner, check_partitions, partition_for


@dataclass
class _ListPartition:
    start: int = 0
    entries: list[Entry | None] = field(default_factory=list)  # None: lost

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.start, self.start + len(self.entries))

    def between(self, low: int, high: int) -> list[Entry]:
        held = self.entries[max(0, low - self.start) : max(0, high - self.start)]
        return [each for each in held if each is not None]

    def put(self, offset: int, entry: Entry | None) -> None:
        self.entries[offset - self.start] = entry


@dataclass
class _ListTopic:
    """A topic with its partitions and its readers' holds."""

    topic: Topic
    partitions: list[_ListPartition]
    holds: dict[str, dict[int, int]] = field(default_factory=dict)
    growths: list[Growth] = field(default_factory=list)


class ListLog(Log):
    """All topics of one log; every call takes one lock."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock, self._lock = clock, RLock()
        self._identity = LogIdentity(str(uuid4()), 1)
        self._by_id: dict[int, _ListTopic] = {}
        self._ids: dict[str, int] = {}
        self._given = 0
        self._producers: dict[str, Appended] = {}

    # -- topics

    def identity(self) -> LogIdentity:
        """Return its unique id."""
        return self._identity

    def raise_incarnation(self, above: int) -> LogIdentity:
        """Raise the incarnation, unless it is higher already."""
        id, known = self._identity
        self._identity = LogIdentity(id, max(known, above + 1))
        return self._identity

    def create_topic(self, name: str, *, partitions: int = OUTBOX_PARTITIONS, partitioner: str = MURMUR3) -> Topic:
        """Create a topic, or return the existing one."""
        check_topic(name)
        check_partitions(partitions)
        check_partitioner(partitioner)
        with self._lock:
            if name not in self._ids:
                self._given += 1
                self._ids[name] = self._given
                topic = Topic(self._given, name, partitions, partitioner, self._clock.now_ms())
                self._by_id[self._given] = _ListTopic(topic, [_ListPartition() for _ in range(partitions)])
            topic = self.topic(name)
        if topic.partitions != partitions:
            raise PartitionsDiffer(name, topic.partitions, partitions)
        if topic.partitioner != partitioner:
            raise PartitionerDiffers(name, topic.partitioner, partitioner)
        return topic

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        with self._lock:
            return [self._by_id[self._ids[name]].topic for name in sorted(self._ids)]

    def topic(self, name: str) -> Topic:
        """Return a topic by name."""
        with self._lock:
            id = self._ids.get(name) if isinstance(name, str) else None
            return checked_topic(name, None if id is None else self._by_id[id].topic)

    def grow(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions."""
        with self._lock:
            held = self._held(self.topic(name))
            more = check_growth(held.topic, partitions) - held.topic.partitions
            if more:
                held.growths.append(Growth(tuple(each.bounds.end for each in held.partitions)))
                held.partitions += [_ListPartition() for _ in range(more)]
                for offsets in held.holds.values():
                    offsets.update(dict.fromkeys(range(held.topic.partitions, partitions), 0))
                held.topic = held.topic._replace(partitions=partitions, generation=len(held.growths))
            return held.topic

    def growths(self, topic: Topic) -> list[Growth]:
        """Return the growths of a topic."""
        with self._lock:
            held = self._by_id.get(topic.id)
            return [] if held is None else list(held.growths)

    def retain(self, topic: Topic, keep: Keep, *, only: Collection[str] = Keep._fields) -> None:
        """Set the retention limits of a topic."""
        with self._lock:
            held = self._held(topic)
            changed = {name: value for name, value in keep._asdict().items() if name in only}
            held.topic = held.topic._replace(keep=held.topic.keep._replace(**changed))

    def delete_topic(self, name: str) -> None:
        """Remove a topic with all its records."""
        with self._lock:
            self.topic(name)
            del self._by_id[self._ids.pop(name)]

    # -- appending

    def append_all(self, batches: Sequence[Batch]) -> list[list[Position]]:
        """Add batches, all or none: every check is made before the first record is added."""
        with self._lock:
            plans = [self._planned(batch) for batch in batches]
            return [self._added(batch, *plan) for batch, plan in zip(batches, plans, strict=True)]

    def _planned(self, batch: Batch) -> tuple[_ListTopic, list[int] | None]:
        """Return the partition of each record; None for a repeated batch."""
        topic = self.topic(batch.topic)
        if batch.partition is not None:
            check_partition(topic, batch.partition)
        held = self._held(topic)
        if batch.producer is not None and is_repeated(batch.producer, self._producers.get(batch.producer.id)):
            return held, None
        return held, [
            partition_for(topic.partitioner, each.key, each.id, topic.partitions)
            if batch.partition is None
            else batch.partition
            for each in batch.contents
        ]

    def _added(self, batch: Batch, held: _ListTopic, places: list[int] | None) -> list[Position]:
        if places is None:
            assert batch.producer is not None
            return list(self._producers[batch.producer.id].positions)
        positions = []
        for number, content in zip(places, batch.contents, strict=True):
            partition = held.partitions[number]
            position = Position(number, partition.bounds.end)
            partition.entries.append(entry_of(position, content))
            positions.append(position)
        if batch.producer is not None:
            id, epoch, sequence = batch.producer
            ids = tuple(each.id for each in batch.contents)
            self._producers[id] = Appended(epoch, sequence, held.topic.id, tuple(positions), ids)
        return positions

    def last_batch(self, producer: str) -> Appended | None:
        """Return the last batch that a producer appended."""
        with self._lock:
            return self._producers.get(producer)

    def trim_producers(self, prefix: str, epoch: int, *, limit: int = 1000) -> int:
        """Forget producers with a prefix and an older epoch."""
        with self._lock:
            known = sorted(self._producers.items())
            old = [id for id, last in known if id.startswith(prefix) and last.epoch < epoch][:limit]
            for id in old:
                del self._producers[id]
            return len(old)

    def durable(self, topic: Topic, position: Position) -> None:
        """Return at once: nothing here survives the process."""

    # -- reading

    def ends(self, topic: Topic) -> dict[int, int]:
        """Return the next offset of every partition."""
        return {number: bounds.end for number, bounds in self.all_bounds(topic).items()}

    def all_bounds(self, topic: Topic, *, pinned: Collection[int] = ()) -> dict[int, Bounds]:
        """Return the bounds of every partition; lists have no transactions, so nothing is pinned."""
        with self._lock:
            held = self._by_id.get(topic.id)
            return {} if held is None else {n: each.bounds for n, each in enumerate(held.partitions)}

    def read_ranges(self, topic: Topic, ranges: Sequence[OffsetRange], *, max_bytes: int, bare: bool = False) -> Chunk:
        """Return the records of several ranges."""
        entries: list[Entry] = []
        size = 0
        with self._lock:
            for each in self._all(topic, ranges):
                if entries and size >= max_bytes:
                    return Chunk(entries, cut=True)
                entries.append(_shown(each, bare=bare))
                size += 0 if bare else each.size
        return Chunk(entries, cut=size >= max_bytes)

    def at(self, topic: Topic, positions: Collection[Position], *, bare: bool = False) -> list[Entry]:
        """Return the records at some positions."""
        ranges = [OffsetRange(number, offset, offset + 1) for number, offset in sorted(set(positions))]
        with self._lock:
            return [_bared(each) if bare else each for each in self._all(topic, ranges)]

    def first_offsets(self, topic: Topic, positions: Sequence[Position]) -> dict[int, int]:
        """Return the first offset held at or after each position."""
        with self._lock:
            ranges = [OffsetRange(number, offset, LAST_OFFSET) for number, offset in positions]
            firsts = [next(self._all(topic, [each]), None) for each in ranges]
        return {each.partition: each.offset for each in firsts if each is not None}

    def offsets_at(
        self, topic: Topic, timestamp_ms: int, ranges: Sequence[OffsetRange] | None = None
    ) -> dict[int, int]:
        """Return the first offsets at or after a time."""
        with self._lock:
            if ranges is None:
                ranges = [OffsetRange(number, *each) for number, each in self.all_bounds(topic).items()]
            return {
                each.partition: next(
                    (found.offset for found in self._all(topic, [each]) if found.timestamp_ms >= timestamp_ms),
                    each.high,
                )
                for each in ranges
            }

    def find_id(
        self, topic: Topic, id: str, *, since_ms: int | None, walk: int | None, partition: int | None = None
    ) -> Search:
        """Look for a record by its id."""
        ranges, cut, gone = list[OffsetRange](), False, False
        with self._lock:
            bounds = self.all_bounds(topic)
            begins = {} if since_ms is None else self.offsets_at(topic, since_ms)
            for number in bounds if partition is None else bounds.keys() & {partition}:
                start, end = bounds[number]
                low = start if walk is None else max(start, end - walk)
                low = low if since_ms is None or walk is None else begins[number]
                high = end if walk is None else min(end, low + walk)
                cut |= high < end or (since_ms is None and low > start)
                gone |= start > 0 and (since_ms is None or begins[number] == start)
                ranges.append(OffsetRange(number, low, high))
            found = next((each for each in self._all(topic, ranges) if each.id == id), None)
        return Search(None if found is None else _bared(found)._replace(owner=None), cut, gone)

    def find_key(self, topic: Topic, within: OffsetRange, key: bytes, *, limit: int, last: bool = False) -> list[Entry]:
        """Return records of a key in a range."""
        with self._lock:
            found = [_bared(each) for each in self._all(topic, [within]) if each.key == key]
        return (found[::-1] if last else found)[:limit]

    # -- keeping less

    def sizes(self, topic: Topic, ranges: Sequence[OffsetRange]) -> dict[int, int]:
        """Return the bytes in each range."""
        with self._lock:
            return {each.partition: sum(entry.size for entry in self._all(topic, [each])) for each in ranges}

    def reach(self, topic: Topic, ranges: Sequence[OffsetRange], sizes: Sequence[int]) -> dict[int, int]:
        """Return, for each range, the offset after the record that brings it to that many bytes."""
        found = {}
        with self._lock:
            for each, wanted in zip(ranges, sizes, strict=True):
                found[each.partition] = each.high
                size = 0
                for entry in self._all(topic, [each]):
                    size += entry.size
                    if size >= wanted:
                        found[each.partition] = entry.offset + 1
                        break
        return found

    def trim(self, topic: Topic, ranges: Sequence[OffsetRange], *, unless: Callable[[], bool] = lambda: False) -> int:
        """Delete the oldest records."""
        with self._lock:
            held = self._held(topic)
            if unless():
                raise StillNeeded(topic.name)
            deleted = 0
            for number, _, high in ranges:
                partition = held.partitions[number]
                deleted += len(partition.between(0, high))
                count = max(0, min(high, partition.bounds.end) - partition.start)
                del partition.entries[:count]
                partition.start += count
            return deleted

    def clear(self, topic: Topic) -> None:
        """Move the start of every partition to its end."""
        self.trim(topic, [OffsetRange(number, *each) for number, each in self.all_bounds(topic).items()])

    def sweep(self, topic: Topic) -> None:
        """Do nothing: deleted records are removed at once."""

    def erase(self, topic: Topic, positions: Collection[Position], *, owner: str | None = None) -> int:
        """Remove the content of records."""
        count = 0
        with self._lock:
            held = self._held(topic)
            for entry in self.at(topic, positions):
                if entry.type != ERASED and owner in (None, entry.owner):
                    erased = entry._replace(key=None, value=None, headers=None, owner=None, type=ERASED)
                    held.partitions[entry.partition].put(entry.offset, erased)
                    count += 1
        return count

    def owned(self, owner: str, limit: int) -> list[tuple[int, Entry]]:
        """Return records with an owner tag."""
        with self._lock:
            return list(self._owned(owner))[:limit]

    def count_owned(self, owner: str) -> int:
        """Return the number of records with an owner tag."""
        with self._lock:
            return len(list(self._owned(owner)))

    def hold(self, reader: str, topic: Topic, offsets: Mapping[int, int]) -> None:
        """Hold retention back for a named reader."""
        with self._lock:
            held = self._held(topic)
            held.holds.pop(reader, None)
            if offsets:
                held.holds[reader] = dict(offsets)

    def holds(self, topic: Topic) -> dict[str, dict[int, int]]:
        """Return the holds on a topic."""
        with self._lock:
            held = self._by_id.get(topic.id)
            return {} if held is None else {reader: dict(each) for reader, each in held.holds.items()}

    # -- damage, for tests

    def lose(self, topic: Topic, positions: Collection[Position]) -> None:
        """Lose records, as a damaged disk would: their offsets are assigned, but hold nothing."""
        with self._lock:
            for each in self.at(topic, positions):
                self._held(topic).partitions[each.partition].put(each.offset, None)

    def falsify(self, topic: Topic, position: Position, value: bytes | None) -> None:
        """Change the value of a record, which nothing else does."""
        with self._lock:
            for each in self.at(topic, [position]):
                self._held(topic).partitions[each.partition].put(each.offset, each._replace(value=value))

    # -- inside

    def _held(self, topic: Topic) -> _ListTopic:
        if topic.id not in self._by_id:
            raise UnknownTopic(topic.name)
        return self._by_id[topic.id]

    def _all(self, topic: Topic, ranges: Sequence[OffsetRange]) -> Iterator[Entry]:
        held = self._by_id.get(topic.id)
        if held is not None:
            for number, low, high in ranges:
                yield from held.partitions[number].between(low, high)

    def _owned(self, owner: str) -> Iterator[tuple[int, Entry]]:
        for id, held in self._by_id.items():
            for partition in held.partitions:
                entries = partition.between(*partition.bounds)
                yield from ((id, _bared(each)) for each in entries if each.owner == owner)


def _shown(entry: Entry, *, bare: bool) -> Entry:
    """Return an entry in the form of a range read: without the owner tag."""
    return _bared(entry)._replace(owner=None) if bare else entry._replace(owner=None)


def _bared(entry: Entry) -> Entry:
    return entry._replace(value=None, headers=None)


def checked_topic(name: str, found: Topic | None) -> Topic:
    """Return the result of a lookup by name. Raises InvalidTopic, UnknownTopic."""
    check_topic(name)
    if found is None:
        raise UnknownTopic(name)
    return found


def entry_of(position: tuple[int, int], content: Content) -> Entry:
    """Return a content with its position."""
    return Entry._make((*position, *content))
