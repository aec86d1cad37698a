"""Finds records in segments by id, key or owner tag, with a Bloom filter of the names in each closed segment.

The file `<base offset>.filter`; segments that it excludes are not read:

| bytes  | field        | meaning                                             |
|--------|--------------|-----------------------------------------------------|
| 0-7    | magic        | `PENSTFLT`                                          |
| 8-15   | base_offset  | of the segment                                      |
| 16-19  | generation   | of the segment                                      |
| 20-23  | hashes       | bits set for each name                              |
| 24-31  | end_position | where the segment ends                              |
| 32-39  | end_offset   | likewise                                            |
| 40-    | bits         | byte n holds bits 8n to 8n + 7, lowest first        |
| last 4 | crc          | CRC32C of all before it                             |

A name's bits come from murmur3 of its kind and bytes. The first search that needs a filter makes it, so that
appends do not pay for it. Crash: a filter that is missing, damaged or of another segment end is rebuilt.
"""

import logging
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum

import mmh3

from penstock.errors import Damaged
from penstock.model.partition import partition_for

from ..contract import Bounds, OffsetRange, Position, Search, Topic
from ..entry import Entry
from .disk import read_whole, with_crc, without_crc, write_whole
from .index import SegmentEnd
from .partition_view import PartitionView
from .segment import Segment

logger = logging.getLogger("penstock.files")

SUFFIX = ".filter"
_MAGIC = b"PENSTFLT"
_HEAD = struct.Struct(">8sqIIqq")
_HASHES = 7
_BITS_PER_NAME = 10  # about 1 % false positives


class NameKind(Enum):
    """The kind of a name."""

    ID = b"i"
    KEY = b"k"
    OWNER = b"o"


class SegmentFilter:
    """The names of one segment."""

    def __init__(self, bits: bytes, hashes: int = _HASHES) -> None:
        self._bits, self._hashes = bits, hashes

    @classmethod
    def of(cls, names: set[bytes]) -> "SegmentFilter":
        """Return the filter of some names, each prefixed with its kind."""
        bits = bytearray(max(8, len(names) * _BITS_PER_NAME // 8 + 1))
        size = len(bits) * 8
        for name in names:
            for place in _places(name, _HASHES, size):
                bits[place >> 3] |= 1 << (place & 7)
        return cls(bytes(bits))

    def may_hold(self, kind: NameKind, name: bytes) -> bool:
        """Return False if the segment certainly does not hold the name."""
        places = _places(kind.value + name, self._hashes, len(self._bits) * 8)
        return all(self._bits[place >> 3] & 1 << (place & 7) for place in places)

    def encode(self, end: SegmentEnd) -> bytes:
        """Encode it as the bytes of its file."""
        head = _HEAD.pack(_MAGIC, end.base_offset, end.generation, self._hashes, end.position, end.offset)
        return with_crc(head + self._bits)

    @classmethod
    def decode(cls, content: bytes, end: SegmentEnd) -> "SegmentFilter | None":
        """Return the filter of a file; None if it is damaged, or of another segment end."""
        body = without_crc(content)
        if body is None or len(body) <= _HEAD.size:
            return None
        magic, base, generation, hashes, position, offset = _HEAD.unpack_from(body)
        if magic != _MAGIC or SegmentEnd(base, generation, position, offset) != end:
            return None
        return cls(body[_HEAD.size :], hashes)


def _places(name: bytes, hashes: int, size: int) -> Iterator[int]:
    first, step = mmh3.hash64(name, signed=False)
    return ((first + turn * step) % size for turn in range(hashes))


def may_hold(view: PartitionView, segment: Segment, kind: NameKind, name: bytes) -> bool:
    """Return False if a segment certainly does not hold a name; the last segment may hold any."""
    if segment is view.segments[-1]:
        return True
    disk, path = view.files.disk, segment.path.with_suffix(SUFFIX)
    content = read_whole(disk, path)
    found = None if content is None else SegmentFilter.decode(content, segment.end)
    if found is None:
        try:
            found = SegmentFilter.of(names_in(view, segment))
            write_whole(disk, path, found.encode(segment.end))
        except Damaged:
            return True
        except OSError as exc:
            logger.debug("%s was not kept: %s", path, exc)
    return found is None or found.may_hold(kind, name)


def names_in(view: PartitionView, segment: Segment) -> set[bytes]:
    """Return all names of a segment, each prefixed with its kind. Raises Damaged."""
    names: set[bytes] = set()
    for _, header, batch in segment.batches():
        if header.is_control:
            continue
        for entry in view.decoded(header, batch):
            names.add(NameKind.ID.value + entry.id.encode())
            if entry.key is not None:
                names.add(NameKind.KEY.value + entry.key)
            if entry.owner is not None:
                names.add(NameKind.OWNER.value + entry.owner.encode())
    return names


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
    topic: Topic,
    id: str,
    bounds: Mapping[int, Bounds],
    begins: Mapping[int, int] | None,
    view_of: Callable[[int], PartitionView],
    *,
    walk: int | None,
    partition: int | None,
) -> Search:
    """Look for a record, first in the partition that its id would map to.

    `begins`: the offsets of the time from which on the record is looked for, if one is given.
    """
    own = partition_for(topic.partitioner, None, id, topic.partitions)
    cut = gone = False
    ranges = []
    for number in sorted(bounds, key=lambda each: (each != own, each)):
        if partition not in (None, number):
            continue
        start, end = bounds[number]
        low = start if walk is None else (begins or {}).get(number, max(start, end - walk))
        high = end if walk is None else min(end, low + walk)
        cut |= high < end or (begins is None and low > start)
        gone |= start > 0 and (begins is None or begins[number] == start)
        if low < high:
            ranges.append(OffsetRange(number, low, high))
    for number, low, high in ranges:
        for entry in _matching(view_of(number), low, high, NameKind.ID, id.encode()):
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
    for segment in _segments(view, low, high):
        if may_hold(view, segment, kind, name):
            yield from view.entries(max(low, segment.base_offset), min(high, segment.end_offset))


def _segments(view: PartitionView, low: int, high: int) -> list[Segment]:
    return [each for each in view.segments if each.end_offset > low and each.base_offset < high]
