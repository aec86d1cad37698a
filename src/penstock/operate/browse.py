"""Browsing a topic: pages of its records across partitions, forward or backward.

Partitions are merged by time: of the next record in each, the earliest (backward: the latest) comes first.
A page's `after` holds the offset in every partition, so no record is shown twice or left out. A page reads a
bounded number of records, even if the filter matches none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush
from typing import Final, Literal

from penstock.log.contract import LAST_OFFSET, Log, OffsetRange, Position, Topic, check_partition
from penstock.log.entry import Entry, key_bytes, readable
from penstock.log.sql.held_records import allowing_foreign
from penstock.log.store import Store
from penstock.log.topics import former_places
from penstock.model.limits import ERASED
from penstock.model.partition import MURMUR3, partition_for
from penstock.model.record import Record

from .operation import check_limit, operation, page_mark, place_marked, wrong_mark
from .tail import starts

NEWEST: Final = "newest"
OLDEST: Final = "oldest"
BrowseStart = Literal["newest", "oldest"] | int | datetime
SCANNED = 5_000  # records read for a page, at most
PREVIEW_BYTES = 1 << 20  # of values in a page, about; later records come without their value
_REFILL = 50


@dataclass(frozen=True, slots=True)
class BrowsedRecord:
    """A record of a page. `has_value` False: the page was full of bytes, so the value was not read."""

    record: Record
    has_value: bool


@dataclass(frozen=True, slots=True)
class Browsed:
    """A page of records. `after`: where the next page begins. `is_cut`: the search stopped at its bound."""

    items: list[BrowsedRecord]
    after: str | None
    scanned: int
    is_cut: bool


@operation
def browse(
    store: Store,
    topic: str,
    *,
    start: BrowseStart = NEWEST,
    partition: int | None = None,
    key: str | None = None,
    type: str | None = None,
    after: str | None = None,
    limit: int = _REFILL,
) -> Browsed:
    """Return a page of a topic's records: backward from the newest, or forward from `start`.

    Raises UnknownTopic, UnknownPartition, InvalidPage.
    """
    check_limit(limit)
    log = store.log
    found = log.topic(topic)
    if partition is not None:
        check_partition(found, partition)
    is_back, wanted, has_more = start == NEWEST, key_bytes(key), False
    numbers = _of_key(store, found, key) if partition is None else {partition}
    merged = _Merged(log, found, _places(log, found, start, numbers, after), is_back=is_back)
    entries: list[Entry] = []
    for entry in merged:
        if len(entries) == limit:
            has_more = True
            break
        merged.pass_by(entry)
        if entry.type != ERASED and (key is None or entry.key == wanted) and type in (None, entry.type):
            entries.append(entry)
    following = None
    if has_more or merged.is_cut:  # the next page goes on at the offset reached in each partition
        reached = [(number, each.high if is_back else each.low) for number, each in sorted(merged.places.items())]
        following = page_mark(reached)
    return Browsed(_with_values(log, found, entries), following, merged.scanned, merged.is_cut)


class _Merged:
    """The records of some partition ranges, merged by time; `places`: the ranges still to be passed."""

    def __init__(self, log: Log, topic: Topic, places: dict[int, OffsetRange], *, is_back: bool) -> None:
        self._log, self._topic, self._is_back = log, topic, is_back
        self.places, self._ahead = places, dict(places)
        self.scanned, self.is_cut = 0, False

    def __iter__(self) -> Iterator[Entry]:
        """Yield records until the ranges are exhausted or `SCANNED` records were read."""
        heads: list[tuple[int, int, list[Entry]]] = []
        open_ranges = [each for each in self._ahead.values() if each.low < each.high]
        depth = max(2, 2 * _REFILL // max(1, len(open_ranges)))
        for number, entries in self._read([self._next(each, depth) for each in open_ranges]).items():
            heappush(heads, (self._rank(entries[0]), number, entries))
        while heads:
            _, number, entries = heappop(heads)
            yield entries.pop(0)
            if not entries:
                entries = self._refilled(number)
            if entries:
                heappush(heads, (self._rank(entries[0]), number, entries))
            elif self.is_cut:
                return  # records merged without this partition would be out of order

    def pass_by(self, entry: Entry) -> None:
        number, low, high = self.places[entry.partition]
        kept = (low, entry.offset) if self._is_back else (entry.offset + 1, high)
        self.places[number] = OffsetRange(number, *kept)

    def _refilled(self, number: int) -> list[Entry]:
        while self._ahead[number].low < self._ahead[number].high:
            if self.scanned >= SCANNED:
                self.is_cut = True
                self.places[number] = self._ahead[number]  # the range read since held no records
                return []
            found = self._read([self._next(self._ahead[number], _REFILL)])
            if found:
                return found[number]
        return []

    def _next(self, left: OffsetRange, depth: int) -> OffsetRange:
        """Return the next part of a range to read, and remove it from the range."""
        number, low, high = left
        middle = max(low, high - depth) if self._is_back else min(high, low + depth)
        rest, part = ((low, middle), (middle, high)) if self._is_back else ((middle, high), (low, middle))
        self._ahead[number] = OffsetRange(number, *rest)
        return OffsetRange(number, *part)

    def _read(self, parts: list[OffsetRange]) -> dict[int, list[Entry]]:
        """Read some ranges at once; empty ranges are omitted from the result but counted as scanned."""
        found: dict[int, list[Entry]] = {}
        self.scanned += sum(each.high - each.low for each in parts)
        if not parts:
            return found
        for entry in self._log.read_ranges(self._topic, parts, max_bytes=LAST_OFFSET, bare=True).entries:
            found.setdefault(entry.partition, []).append(entry)
        for entries in found.values():
            entries.sort(key=lambda each: each.offset, reverse=self._is_back)
        for each in parts:  # an empty range must not end its partition
            if each.partition not in found and (more := self._refilled(each.partition)):
                found[each.partition] = more
        return found

    def _rank(self, entry: Entry) -> int:
        return -entry.timestamp_ms if self._is_back else entry.timestamp_ms


def _of_key(store: Store, topic: Topic, key: str | None) -> set[int] | None:
    """Return the partitions that may hold a key: its own, and its former ones if the topic has grown.

    None means any partition: clients of the Kafka port choose the partition, or may do so on this topic.
    """
    if key is None or topic.partitioner != MURMUR3:
        return None
    if store.database.look(lambda tx: allowing_foreign(tx, {topic.id})):
        return None
    number = partition_for(topic.partitioner, key_bytes(key), key, topic.partitions)
    former = former_places(store.log.growths(topic), number) if topic.generation else []
    return {number, *(each.partition for each in former)}


def _with_values(log: Log, topic: Topic, entries: list[Entry]) -> list[BrowsedRecord]:
    ranges = [OffsetRange(each.partition, each.offset, each.offset + 1) for each in entries]
    whole = log.read_ranges(topic, ranges, max_bytes=PREVIEW_BYTES).entries if ranges else []
    by_place = {Position(each.partition, each.offset): each for each in whole}
    found = [(each, by_place.get(Position(each.partition, each.offset))) for each in entries]
    return [BrowsedRecord(readable(topic.name, known or each)[0], known is not None) for each, known in found]


def _places(
    log: Log, topic: Topic, start: BrowseStart, numbers: set[int] | None, after: str | None
) -> dict[int, OffsetRange]:
    bounds = {number: each for number, each in log.all_bounds(topic).items() if numbers is None or number in numbers}
    low = starts(log, topic, bounds, start)
    places = {number: OffsetRange(number, low[number], each.end) for number, each in bounds.items()}
    return places if after is None else _taken_up(places, after, is_back=start == NEWEST)


def _taken_up(places: dict[int, OffsetRange], after: str, *, is_back: bool) -> dict[int, OffsetRange]:
    """Return the ranges without the records of earlier pages; partitions added since are shown whole."""
    marked = place_marked(after, list[tuple[int, int]])
    if any(not 0 <= offset <= LAST_OFFSET or number < 0 for number, offset in marked):
        raise wrong_mark(after)
    reached, left = dict(marked), {}
    for number, low, high in places.values():
        at = reached.get(number, high if is_back else low)
        kept = (low, max(low, min(high, at))) if is_back else (min(high, max(low, at)), high)
        left[number] = OffsetRange(number, *kept)
    return left
