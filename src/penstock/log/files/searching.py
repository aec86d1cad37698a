"""Finds records in segments by id, key or owner tag.

A closed segment has a filter of the names it may hold (`filter.py`); segments that it excludes are not read.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from penstock.model.partition import partition_for

from ..contract import OffsetRange, Position, Search, Topic
from ..entry import Entry
from .filter import NameKind, may_hold
from .partition_view import PartitionView
from .segment import Segment

if TYPE_CHECKING:
    from .log import FileLog


def runs(positions: Collection[Position]) -> list[OffsetRange]:
    """Return positions as sorted ranges; positions close to each other share one."""
    found: list[OffsetRange] = []
    for number, offset in sorted(set(positions)):
        last = found[-1] if found else None
        if last is not None and last.partition == number and offset - last.high < 64:
            found[-1] = last._replace(high=offset + 1)
        else:
            found.append(OffsetRange(number, offset, offset + 1))
    return found


def find_id(
    log: "FileLog", topic: Topic, id: str, *, since_ms: int | None, walk: int | None, partition: int | None
) -> Search:
    """Look for a record, first in the partition that its id would map to."""
    bounds = log.all_bounds(topic)
    begins = {} if since_ms is None else log.offsets_at(topic, since_ms)
    own = partition_for(topic.partitioner, None, id, topic.partitions)
    cut = gone = False
    ranges = []
    for number in sorted(bounds, key=lambda each: (each != own, each)):
        if partition not in (None, number):
            continue
        start, end = bounds[number]
        low = start if walk is None else max(start, end - walk)
        low = low if since_ms is None or walk is None else begins[number]
        high = end if walk is None else min(end, low + walk)
        cut |= high < end or (since_ms is None and low > start)
        gone |= start > 0 and (since_ms is None or begins[number] == start)
        if low < high:
            ranges.append(OffsetRange(number, low, high))
    for number, low, high in ranges:
        for entry in _matching(log.view(topic, number), low, high, NameKind.ID, id.encode()):
            if entry.id == id:
                return Search(entry._replace(value=None, headers=None, owner=None), cut, gone)
    return Search(None, cut, gone)


def find_key(view: PartitionView, within: OffsetRange, key: bytes, *, limit: int, last: bool) -> list[Entry]:
    """Return records of a key in a range, bare, in order; with `last`, newest first, with headers."""
    found: list[Entry] = []
    segments = _segments(view, within.low, within.high)
    for segment in reversed(segments) if last else segments:
        if len(found) >= limit:
            break
        if may_hold(view, segment, NameKind.KEY, key):
            low, high = max(within.low, segment.base_offset), min(within.high, segment.end_offset)
            some = [each for each in view.entries(low, high) if each.key == key]
            found += some[::-1] if last else some
    kept = found[:limit]
    return [each._replace(value=None, headers=each.headers if last else None, owner=None) for each in kept]


def owned(view: PartitionView, owner: str) -> Iterator[Entry]:
    """Yield records with an owner tag."""
    for entry in _matching(view, view.start, view.end, NameKind.OWNER, owner.encode()):
        if entry.owner == owner:
            yield entry


def _matching(view: PartitionView, low: int, high: int, kind: NameKind, name: bytes) -> Iterator[Entry]:
    """Yield all records of the segments that may hold a name."""
    for segment in _segments(view, low, high):
        if may_hold(view, segment, kind, name):
            yield from view.entries(max(low, segment.base_offset), min(high, segment.end_offset))


def _segments(view: PartitionView, low: int, high: int) -> list[Segment]:
    return [each for each in view.segments if each.end_offset > low and each.base_offset < high]
