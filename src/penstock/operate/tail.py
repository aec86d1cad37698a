"""Tails a topic across its partitions: reads from a start on and follows new records. For people.

Records of one partition come in order; among partitions, earlier records come first as far as they are read
together. The records held per partition are bounded.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from heapq import merge
from threading import Event

from penstock.clock import to_ms
from penstock.log.contract import LAST_OFFSET, Bounds, Log, OffsetRange, Position, Topic, check_partition
from penstock.log.entry import Entry, readable
from penstock.log.store import Store
from penstock.model.limits import ERASED
from penstock.model.record import Record

EARLIEST, LATEST = "earliest", "latest"
StartPlace = str | int | datetime  # EARLIEST, LATEST, an offset of every partition, or a moment
_READ_BYTES = 64 * 1024
_LOOK_SECONDS = 0.3


def starts(log: Log, topic: Topic, bounds: Mapping[int, Bounds], start: StartPlace) -> dict[int, int]:
    """Return the offset in each of some partitions from which on to read, given their bounds."""
    if isinstance(start, datetime):
        found = log.offsets_at(topic, to_ms(start), [OffsetRange(number, *each) for number, each in bounds.items()])
        return {number: found.get(number, each.end) for number, each in bounds.items()}
    if isinstance(start, int):
        return {number: min(max(start, each.start), each.end) for number, each in bounds.items()}
    return {number: each.end if start == LATEST else each.start for number, each in bounds.items()}


class StoreTail:
    """Reads a topic of a store."""

    def __init__(self, store: Store, topic: str, start: StartPlace, *, partition: int | None = None) -> None:
        """`partition`: only this one. Raises UnknownTopic, UnknownPartition."""
        self._log: Log = store.log
        self._name, self._partition = topic, partition
        found = self._log.topic(topic)
        if partition is not None:
            check_partition(found, partition)
        self._next = starts(self._log, found, self._log.all_bounds(found), start)

    @property
    def places(self) -> dict[int, int]:
        """The next offset of each partition, for `go_to` of a tail that continues from here."""
        return dict(self._next)

    def go_to(self, places: Mapping[int, int]) -> None:
        """Continue at these offsets; other partitions begin at their start."""
        self._next = dict(places)

    def records(self) -> Iterator[Record]:
        """Yield the records from the current position to the topic's current end."""
        topic = self._log.topic(self._name)
        parts = [self._entries(topic, each) for each in self._ranges(topic)]
        for entry in merge(*parts, key=lambda each: each.timestamp_ms):
            self._next[entry.partition] = entry.offset + 1
            yield readable(topic.name, entry)[0]

    def wait(self) -> None:
        """Sleep for one poll interval."""
        Event().wait(_LOOK_SECONDS)

    def _ranges(self, topic: Topic) -> list[OffsetRange]:
        """Return the ranges still to be read; partitions added since are read from their start."""
        return [
            OffsetRange(number, max(self._next.get(number, 0), each.start), each.end)
            for number, each in self._log.all_bounds(topic).items()
            if self._partition in (None, number) and self._next.get(number, 0) < each.end
        ]

    def _entries(self, topic: Topic, within: OffsetRange) -> Iterator[Entry]:
        partition, at, end = within
        while at < end:
            chunk = self._log.read_ranges(topic, [OffsetRange(partition, at, end)], max_bytes=_READ_BYTES)
            yield from (each for each in chunk.entries if each.type != ERASED)
            if not chunk.cut:
                return
            if chunk.entries:
                at = chunk.entries[-1].offset + 1
            else:
                at = self._log.first_offsets(topic, [Position(partition, at)]).get(partition, LAST_OFFSET)


def some(records: Iterator[Record], most: int, max_bytes: int) -> list[Record]:
    """Return the next records, at most `most` and about `max_bytes` bytes; none at the end."""
    found, size = list[Record](), 0
    for each in records:
        found.append(each)
        size += len(each.data or b"")
        if len(found) == most or size >= max_bytes:
            break
    return found
