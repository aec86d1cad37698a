"""A Bloom filter of the ids, keys and owner tags in a closed segment: the file `<base offset>.filter`.

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
from enum import Enum

import mmh3
from fastcrc.crc32 import iscsi as crc32c

from penstock.errors import Damaged

from .disk import read_whole, write_whole
from .index import SegmentEnd
from .partition_view import PartitionView
from .segment import Segment

logger = logging.getLogger("penstock.files")

SUFFIX = ".filter"
_MAGIC = b"PENSTFLT"
_HEAD = struct.Struct(">8sqIIqq")
_CRC = struct.Struct(">I")
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
            first, step = mmh3.hash64(name, signed=False)
            for turn in range(_HASHES):
                place = (first + turn * step) % size
                bits[place >> 3] |= 1 << (place & 7)
        return cls(bytes(bits))

    def may_hold(self, kind: NameKind, name: bytes) -> bool:
        """Return False if the segment certainly does not hold the name."""
        first, step = mmh3.hash64(kind.value + name, signed=False)
        size = len(self._bits) * 8
        for turn in range(self._hashes):
            place = (first + turn * step) % size
            if not self._bits[place >> 3] & 1 << (place & 7):
                return False
        return True

    def encode(self, end: SegmentEnd) -> bytes:
        """Encode it as the bytes of its file."""
        head = _HEAD.pack(_MAGIC, end.base_offset, end.generation, self._hashes, end.position, end.offset)
        return head + self._bits + _CRC.pack(crc32c(head + self._bits))

    @classmethod
    def decode(cls, content: bytes, end: SegmentEnd) -> "SegmentFilter | None":
        """Return the filter of a file; None if it is damaged, or of another segment end."""
        if len(content) <= _HEAD.size + 4 or _CRC.unpack(content[-4:])[0] != crc32c(content[:-4]):
            return None
        magic, base, generation, hashes, position, offset = _HEAD.unpack_from(content)
        if magic != _MAGIC or SegmentEnd(base, generation, position, offset) != end:
            return None
        return cls(content[_HEAD.size : -4], hashes)


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
