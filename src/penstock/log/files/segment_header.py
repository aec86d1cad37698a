"""The first 128 bytes of a segment: its identity, and the end of the segment before it.

| bytes   | field           | meaning                                                                |
|---------|-----------------|------------------------------------------------------------------------|
| 0-7     | magic           | `PENSTSEG`                                                             |
| 8-9     | version         | 1                                                                      |
| 10-11   | flags           | 0                                                                      |
| 12-15   | partition       |                                                                        |
| 16-31   | topic           | the topic's UUID                                                       |
| 32-39   | base_offset     | the offset of its first record; also the file's name                   |
| 40-43   | leader_epoch    | the epoch of every batch in it                                         |
| 44-47   | generation      | number of its rewrites: erasure, compaction, compression               |
| 48-55   | created_ms      | time of creation                                                       |
| 56-63   | before_base     | base offset of the segment before it; -1: none                         |
| 64-71   | before_position | where that one ends: its last synced byte; bytes behind it are void    |
| 72-79   | before_offset   | the offset after its last record                                       |
| 80-87   | end_position    | its own end, if it was rewritten; else 0                               |
| 88-95   | end_offset      | likewise                                                               |
| 96-123  |                 | zero                                                                   |
| 124-127 | crc             | CRC32C of bytes 0-123                                                  |

A header is synced before the first batch of its segment is written, and never changes.
"""

import struct
from typing import NamedTuple
from uuid import UUID

from .disk import with_crc, without_crc

HEADER_BYTES = 128
VERSION = 1
_MAGIC = b"PENSTSEG"
_FIELDS = struct.Struct(">8sHHI16sqiIqqqqqq28x")


class SegmentHeader(NamedTuple):
    """The header of a segment."""

    topic: UUID
    partition: int
    base_offset: int
    leader_epoch: int = 0
    generation: int = 0
    created_ms: int = 0
    before_base: int = -1
    before_position: int = 0
    before_offset: int = 0
    end_position: int = 0
    end_offset: int = 0

    def encode(self) -> bytes:
        """Encode it as bytes."""
        topic, partition, *rest = self
        return with_crc(_FIELDS.pack(_MAGIC, VERSION, 0, partition, topic.bytes, *rest))


def decode_header(content: bytes) -> SegmentHeader | str:
    """Decode a header, or return the reason why it cannot be decoded."""
    if len(content) < HEADER_BYTES:
        return f"it has {len(content)} bytes, and its header alone {HEADER_BYTES}"
    if not any(content[:HEADER_BYTES]):
        return "its header was never written"
    if without_crc(content[:HEADER_BYTES]) is None:
        return "the checksum of its header is wrong"
    magic, version, _, partition, topic, *rest = _FIELDS.unpack_from(content)
    if magic != _MAGIC or version != VERSION:
        return f"it is no segment of version {VERSION}"
    return SegmentHeader(UUID(bytes=topic), partition, *rest)
