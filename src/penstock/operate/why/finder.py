"""Finds the subject of a question: a record by its id, or the records of a key. Only reads; explains nothing.

A log need not have an index on ids. An id of ours contains its creation time, and the log knows the first
offset a record of that time can have; from there `WALK` records of each partition are searched. That finds
every record that was sequenced without delay. A record that reached the log late (scheduled, or from a long
transaction) may be further on: then the search reports that it was cut, and an unbounded one finds it.

A key is in the partition that the topic's partitioner chooses, now or before the topic grew. A client may
have put it elsewhere, on a topic of the Kafka port or on one that accepts foreign keys: there the last `WALK`
records of all partitions are searched. On other topics that is done only if the key was not found otherwise.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.delivery.lane import key_lane
from penstock.log.contract import Bounds, Growth, Log, OffsetRange, Position, Topic
from penstock.log.entry import Entry, key_text
from penstock.log.sql.held_records import allowing_foreign
from penstock.log.topics import former_places
from penstock.model.partition import MURMUR3, key_hash, partition_for, slot

from ..records import joined

WALK = 5_000  # records of a partition searched for an id or a key, by default
STAGED_WALK = 200_000  # staged rows searched for an id or a key
_ALL = 1 << 62

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class UnloggedEvent:
    """An event that is not in the log yet; `due_ms` is set for a scheduled one."""

    topic: str
    id: str
    key: str | None
    type: str
    timestamp_ms: int
    slot: int
    due_ms: int | None


@dataclass(frozen=True, slots=True)
class Logged:
    """A record with a place in the log, even if the log no longer holds it."""

    topic: Topic
    partition: int
    offset: int
    id: str
    key: str | None
    type: str
    timestamp_ms: int

    @property
    def place(self) -> str:
        """The record's place as TOPIC/PARTITION/OFFSET."""
        return f"{self.topic.name}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True)
class Missing:
    """A record that was not found. `cut`: the search was bounded. `gone`: retention deleted its time.

    `trimmed`: retention deleted records, perhaps this one.
    """

    cut: bool
    gone: bool
    trimmed: bool = False


def looks_like_id(text: str) -> bool:
    """Return whether a text is a UUID, like the ids that `publish` returns."""
    return _UUID.fullmatch(text) is not None


def moment_of(id: str) -> int | None:
    """Return when an id of ours was made, in milliseconds since 1970; None for a foreign id."""
    found = _UUID.fullmatch(id)
    return int(id[:8] + id[9:13], 16) if found and found[1] == "7" else None


class Finder:
    """Searches topics on one snapshot; `everything`: without bound."""

    def __init__(
        self, tx: Transaction, log: Log, topics: Iterable[Topic], topic: str | None, *, everything: bool = False
    ) -> None:
        self._tx, self._log, self._everything = tx, log, everything
        self.topics, self._topic = list(topics), topic
        self.walk = _ALL if everything else WALK
        self.staged_walk = _ALL if everything else STAGED_WALK
        self._bounds: dict[int, dict[int, Bounds]] = {}
        self._growths: dict[int, list[Growth]] = {}
        self._read: dict[tuple[int, int, str], tuple[list[OffsetRange], list[Logged]]] = {}
        self._found: dict[tuple[int, str, OffsetRange], list[Logged]] = {}
        self._allowing: set[int] | None = None  # the topics that accept foreign keys
        self._anywhere = everything
        self._seen_at: dict[str, list[Row]] = {}  # by key
        self._strays: dict[tuple[int, str], list[Logged]] = {}

    def by_id(self, id: str, key: str | None) -> UnloggedEvent | Logged | Missing:
        """Return a record by its id; `key` tells its partition."""
        params, walk = {"id": id, "topic": self._topic}, self.staged_walk
        rows = self._tx.rows("operate", "scheduled_by_id", **params)
        rows = rows or self._tx.rows("operate", "staged_by_id", walk=walk, **params)
        if rows:
            return _staged(rows[0])
        is_cut = not self._everything and self._tx.rows("operate", "staged_count", walk=walk)[0][0] >= walk
        missing = Missing(cut=is_cut, gone=False)
        for topic in self.topics:
            found = self._logged(topic, id, key)
            if not isinstance(found, Missing):
                return found
            missing = Missing(missing.cut or found.cut, missing.gone or found.gone)
        return self._kept(id) or replace(missing, trimmed=self.is_trimmed())

    def waiting(self, key: str, topic: str | None) -> Iterator[UnloggedEvent]:
        """Yield the oldest staged and the next scheduled event of a key, on a topic or on all."""
        hashed = key_hash(_bytes(key))
        params = {"key_hash": hashed, "key": _bytes(key), "topic": topic}
        walk = {"slot": slot(hashed), "walk": self.staged_walk}
        rows = self._tx.rows("operate", "staged_by_key", **walk, **params)
        rows += self._tx.rows("operate", "scheduled_by_key", **params)
        yield from map(_staged, rows)

    def waiting_count(self, key: str, topic: str | None) -> tuple[int, int]:
        """Return how many events of a key are staged, and how many scheduled, on a topic or on all."""
        hashed, walk = key_hash(_bytes(key)), {"walk": self.staged_walk, "topic": topic}
        rows = self._tx.rows("operate", "unlogged_of_key", key_hash=hashed, key=_bytes(key), slot=slot(hashed), **walk)
        return rows[0][0], rows[0][1]

    def look_ahead(self, topic: Topic, number: int, key: str, ranges: Iterable[OffsetRange]) -> None:
        """Read the records of a key in ranges needed later, all at once."""
        if self._everything:  # ranges are unbounded, and each caller reads its own
            return
        apart = joined(ranges)
        entries = self._log.find_key_in(topic, apart, _bytes(key))
        self._read[topic.id, number, key] = apart, [_logged(topic, each) for each in entries]

    def of_key(self, topic: Topic, number: int, key: str, start: int, end: int) -> list[Logged]:
        """Return the records of a key between two offsets of a partition, in order."""
        if start >= end:
            return []
        within = OffsetRange(number, start, end)
        ranges, records = self._read.get((topic.id, number, key), ((), ()))
        if any(each.low <= start and end <= each.high for each in ranges):
            return [each for each in records if start <= each.offset < end]
        place = (topic.id, key, within)
        if place not in self._found:
            entries = self._log.find_key(topic, within, _bytes(key), limit=WALK)
            self._found[place] = [_logged(topic, each) for each in entries]
        return self._found[place]

    def before(self, record: Logged, start: int) -> list[Logged]:
        """Return the records of the same key before one, from an offset on."""
        assert record.key is not None
        return self.of_key(record.topic, record.partition, record.key, start, record.offset)

    def last_of_key(self, topic: Topic, key: str) -> Logged | None:
        """Return the last record of a key, if it is among the last of its partition or a former one."""
        found = [*self.strays(topic, key)]
        for number in self._own_partitions(topic, key):
            found += self._last_in(topic, self._last_part(topic, number), key)
            if found:
                break
        return max(found, key=lambda each: each.timestamp_ms, default=None)

    def former_places(self, topic: Topic, number: int) -> list[Position]:
        """Return a partition's former partitions, each with its end before the growth, the last first."""
        if not topic.generation:
            return []
        if topic.id not in self._growths:
            self._growths[topic.id] = self._log.growths(topic)
        return former_places(self._growths[topic.id], number)

    def partitions_of(self, topic: Topic, key: str) -> list[int]:
        """Return the partition of a key, its former ones, and others in which records of it were found."""
        own = self._own_partitions(topic, key)
        if key not in self._seen_at:  # the topics and partitions where a group has a lane or a dead letter of it
            self._seen_at[key] = self._tx.rows("operate", "places_of_key", lane=key_lane(key), key=_bytes(key))
        found = {number for topic_id, number in self._seen_at[key] if topic_id == topic.id}
        found |= {each.partition for each in self.strays(topic, key)}
        return [*own, *sorted(found.difference(own))]

    def look_anywhere(self) -> None:
        """Search all partitions from now on, even of topics that keep a key in its own."""
        self._anywhere = True

    def may_stray(self, topic: Topic) -> bool:
        """Return whether a client may have put a key where the topic's partitioner would not."""
        if self._allowing is None:
            self._allowing = allowing_foreign(self._tx, {each.id for each in self.topics})
        return topic.partitioner != MURMUR3 or topic.id in self._allowing

    def strays(self, topic: Topic, key: str) -> Sequence[Logged]:
        """Return the last record of a key in each partition that is not its own, if those are searched."""
        if not (self._anywhere or self.may_stray(topic)):
            return ()
        place = (topic.id, key)
        if place not in self._strays:
            own = self._own_partitions(topic, key)
            parts = [self._last_part(topic, each) for each in self._all_bounds(topic) if each not in own]
            filled = [each for each in parts if each.low < each.high]
            if self._everything:
                self._strays[place] = [last for each in filled for last in self._last_in(topic, each, key)]
            else:  # bounded ones are read together
                entries = self._log.find_key_in(topic, filled, _bytes(key)) if filled else []
                self._strays[place] = list({each.partition: _logged(topic, each) for each in entries}.values())
        return self._strays[place]

    def is_cut(self, topic: Topic, key: str) -> bool:
        """Return whether a partition that may hold a key has more records than are searched."""
        anywhere = self._anywhere or self.may_stray(topic)
        numbers = self._all_bounds(topic) if anywhere else self._own_partitions(topic, key)
        return any(end - start > self.walk for start, end in (self.bounds(topic, each) for each in numbers))

    def is_gone(self, topic: Topic, key: str) -> bool:
        """Return whether retention has deleted records from a partition that may have held a key."""
        if self.may_stray(topic):
            return self._is_trimmed(topic)
        return any(self.bounds(topic, each).start > 0 for each in self._own_partitions(topic, key))

    def is_trimmed(self) -> bool:
        """Return whether retention has deleted records of any topic."""
        return any(map(self._is_trimmed, self.topics))

    def at(self, topic: Topic, positions: Iterable[Position]) -> dict[Position, Logged]:
        """Return those of the records at some positions that the log still holds."""
        found = self._log.at(topic, set(positions), bare=True)
        return {Position(each.partition, each.offset): _logged(topic, each) for each in found}

    def bounds(self, topic: Topic, number: int) -> Bounds:
        """Return the first offset kept and the next to be given."""
        return self._all_bounds(topic).get(number, Bounds(0, 0))

    def _own_partitions(self, topic: Topic, key: str) -> list[int]:
        number = partition_of(topic, key)
        return [number, *(place.partition for place in self.former_places(topic, number))]

    def _last_part(self, topic: Topic, number: int) -> OffsetRange:
        start, end = self.bounds(topic, number)
        return OffsetRange(number, max(start, end - self.walk), end)

    def _last_in(self, topic: Topic, within: OffsetRange, key: str) -> list[Logged]:
        found = self._log.find_key(topic, within, _bytes(key), limit=1, last=True)
        return [_logged(topic, each) for each in found]

    def _all_bounds(self, topic: Topic) -> dict[int, Bounds]:
        if topic.id not in self._bounds:
            self._bounds[topic.id] = self._log.all_bounds(topic)
        return self._bounds[topic.id]

    def _is_trimmed(self, topic: Topic) -> bool:
        return any(each.start > 0 for each in self._all_bounds(topic).values())

    def _logged(self, topic: Topic, id: str, key: str | None) -> Logged | Missing:
        """Search the log, from the time in the id on."""
        numbers: Sequence[int | None] = (None,)
        if key is not None and not (self._everything or self.may_stray(topic)):
            numbers = self._own_partitions(topic, key)
        walk, missing = None if self._everything else self.walk, Missing(cut=False, gone=False)
        for number in numbers:
            search = self._log.find_id(topic, id, since_ms=moment_of(id), walk=walk, partition=number)
            if search.found is not None:
                return _logged(topic, search.found)
            missing = Missing(missing.cut or search.cut, missing.gone or search.gone)
        return missing

    def _kept(self, id: str) -> Logged | None:
        """Return a record that only a lane or a dead letter still holds."""
        by_id = {topic.id: topic for topic in self.topics}
        only = next(iter(by_id)) if self._topic is not None and by_id else None
        rows = self._tx.rows("operate", "kept_records", id=id, topic_id=only)
        for topic_id, partition, offset, _, key, type, timestamp_ms, *_ in rows:
            if topic_id in by_id:
                return Logged(by_id[topic_id], partition, offset, id, key_text(key), type, timestamp_ms)
        return None


def partition_of(topic: Topic, key: str) -> int:
    """Return the partition of a key, or of the id of a record without a key."""
    return partition_for(topic.partitioner, _bytes(key), key, topic.partitions)


def _staged(row: Row) -> UnloggedEvent:
    topic, id, key, type, timestamp_ms, at_slot, due_ms = row
    return UnloggedEvent(topic, id, key_text(key), type, timestamp_ms, at_slot, due_ms)


def _logged(topic: Topic, entry: Entry) -> Logged:
    place = entry.partition, entry.offset
    return Logged(topic, *place, entry.id, key_text(entry.key), entry.type or "", entry.timestamp_ms)


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")
