"""The sparse index of one segment: file positions and times of its batches.

In memory three columns; in the file `<base offset>.index`, written when the segment is closed:

| bytes   | field        | meaning                                                      |
|---------|--------------|--------------------------------------------------------------|
| 0-7     | magic        | `PENSTIDX`                                                   |
| 8-15    | base_offset  | of the segment                                               |
| 16-19   | generation   | of the segment: number of its rewrites                       |
| 20-23   | count        | how many rows follow                                         |
| 24-31   | end_position | where the segment's last batch ends                          |
| 32-39   | end_offset   | the offset after its last record                             |
| 40-     | rows         | offset u64, position u64, latest time i64 of the rows' batches |
| last 4  | crc          | CRC32C of all before it                                      |

Invariant: offsets and positions rise strictly, each row is the start of a batch, and a row's time is the latest of the
batches up to the next row. Safety: one writer appends; readers in other threads see a whole row or none, because its
offset is added last. Crash: the file is written under another name and renamed; if it is missing, torn, damaged or of
another generation or end, it is ignored and the index is rebuilt from the segment.
"""

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from .disk import with_crc, without_crc

_MAGIC = b"PENSTIDX"
_HEAD = struct.Struct(">8sqIIqq")


class Mark(NamedTuple):
    """One row: the batch at `position` begins at `offset`."""

    offset: int
    position: int
    latest_ms: int


class SegmentEnd(NamedTuple):
    """The end of the segment bytes that an index covers."""

    base_offset: int
    generation: int
    position: int
    offset: int


class SparseIndex:
    """Finds the position in a segment from which to search."""

    def __init__(self, distance_bytes: int) -> None:
        self._distance = distance_bytes
        self._offsets, self._positions, self._times = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    def note(self, offset: int, position: int, latest_ms: int) -> None:
        """Add the next batch."""
        if self._offsets and position - self._positions[-1] < self._distance:
            if latest_ms > self._times[-1]:
                self._times[-1] = latest_ms
            return
        self._times.append(latest_ms)
        self._positions.append(position)
        self._offsets.append(offset)

    def before(self, offset: int) -> Mark | None:
        """Return the last mark at or before an offset."""
        place = bisect_right(self._offsets, offset) - 1
        return None if place < 0 else self._mark(place)

    def marks(self, offset: int = 0) -> Iterator[Mark]:
        """Yield the marks, beginning with the last one at or before an offset."""
        place = max(0, bisect_right(self._offsets, offset) - 1)
        while place < len(self._offsets):
            yield self._mark(place)
            place += 1

    def _mark(self, place: int) -> Mark:
        return Mark(self._offsets[place], self._positions[place], self._times[place])

    def encode(self, end: SegmentEnd) -> bytes:
        """Encode it as the bytes of its file."""
        count = len(self._offsets)
        head = _HEAD.pack(_MAGIC, end.base_offset, end.generation, count, end.position, end.offset)
        rows = array("q")
        for each in zip(self._offsets, self._positions, self._times, strict=True):
            rows.extend(each)
        _big_endian(rows)
        return with_crc(head + rows.tobytes())

    @staticmethod
    def is_whole(content: bytes) -> bool:
        """Return whether the bytes are an intact index, of any segment."""
        return len(content) >= _HEAD.size + 4 and content.startswith(_MAGIC) and without_crc(content) is not None

    @classmethod
    def decode(cls, content: bytes, end: SegmentEnd, distance_bytes: int) -> "SparseIndex | None":
        """Return the index of a file; None if it is damaged, or of another segment end."""
        if not cls.is_whole(content):
            return None
        _, base, generation, count, position, offset = _HEAD.unpack_from(content)
        size = _HEAD.size + count * 24 + 4
        if SegmentEnd(base, generation, position, offset) != end or len(content) != size:
            return None
        rows = array("q")
        rows.frombytes(content[_HEAD.size : -4])
        _big_endian(rows)
        index = cls(distance_bytes)
        index._offsets, index._positions, index._times = rows[0::3], rows[1::3], rows[2::3]
        return index


def _big_endian(rows: "array[int]") -> None:
    if sys.byteorder == "little":
        rows.byteswap()
