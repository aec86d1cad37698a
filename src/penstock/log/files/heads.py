"""The bounds of a topic's partitions, published by the writer for all readers: the file `heads` of a topic.

One slot of 64 bytes for each partition, at byte 64 × partition:

| bytes | field           | meaning                                                                       |
|-------|-----------------|-------------------------------------------------------------------------------|
| 0-7   | start           | the first offset kept                                                         |
| 8-15  | end             | the offset after the last visible one                                         |
| 16-23 | stable          | the last stable offset: before it no transaction is undecided                 |
| 24-31 | segment         | base offset of the active segment                                             |
| 32-39 | synced_position | up to where that segment is on disk                                           |
| 40-47 | synced_offset   | the offset at that position                                                   |
| 48-55 | changes         | rises whenever segments are added, removed or replaced                        |
| 56-59 |                 | zero                                                                          |
| 60-63 | crc             | CRC32C of bytes 0-59                                                          |

Invariant: a slot is written after the bytes it describes are on disk (except `end` where the log is set to
acknowledge earlier). So a slot may be old, never ahead: recovery begins at it.
Safety: one writer; a reader that finds a half-written slot sees a wrong checksum and reads it again.
Crash: a slot that names a segment is on disk before the first batch of that segment; later slots are written
back by the system. An old slot makes recovery read more of the last segment. If no slot names that segment,
the file was damaged, lost or restored: all its bytes may have been acknowledged (`tail.py`).
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from .disk import Disk, DiskFile, with_crc, without_crc

SLOT_BYTES = 64
NAME = "heads"
_FIELDS = struct.Struct(">qqqqqqq4x")
_TRIES = 20  # attempts to read a slot that is being written


class PartitionHead(NamedTuple):
    """The bounds of one partition."""

    start: int = 0
    end: int = 0
    stable: int = 0
    segment: int = 0
    synced_position: int = 0
    synced_offset: int = 0
    changes: int = 0

    def encode(self) -> bytes:
        """Encode it as the bytes of its slot."""
        return with_crc(_FIELDS.pack(*self))


def decode_head(slot: bytes) -> PartitionHead | None:
    """Decode a slot; None if it was never written or is damaged."""
    body = without_crc(slot)
    return None if body is None or len(body) != _FIELDS.size else PartitionHead._make(_FIELDS.unpack(body))


class HeadsFile:
    """The heads of one topic. Safe from any thread; only the writing process calls `put`."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk, self.path = disk, folder / NAME
        self._lock = RLock()  # any thread may be the first to need a partition, and so recover and publish it
        self._file: DiskFile | None = None
        self._is_writing = False

    def get(self, partition: int) -> PartitionHead | None:
        """Return the head of a partition; None if it was never written or cannot be read."""
        with self._lock:
            file = self._opened()
            if file is None:
                return None
            for _ in range(_TRIES):
                slot = file.read(partition * SLOT_BYTES, SLOT_BYTES)
                head = decode_head(slot)
                if head is not None or not any(slot):
                    return head
            return None

    def all(self) -> dict[int, PartitionHead]:
        """Return the head of every partition that ever held a record, with one read."""
        with self._lock:
            file = self._opened()
            content = b"" if file is None else file.read(0, file.size)
        found = {}
        for at in range(0, len(content) - SLOT_BYTES + 1, SLOT_BYTES):
            slot = content[at : at + SLOT_BYTES]
            if any(slot):
                head = decode_head(slot) or self.get(at // SLOT_BYTES)
                if head is not None:
                    found[at // SLOT_BYTES] = head
        return found

    def put(self, partition: int, head: PartitionHead) -> None:
        """Publish the head of a partition. Raises OSError."""
        with self._lock:
            self._writing().write(partition * SLOT_BYTES, [head.encode()])

    def put_all(self, heads: Mapping[int, PartitionHead]) -> None:
        """Publish the heads of several partitions, adjacent ones with one write. Raises OSError."""
        with self._lock:
            file, slots, following = self._writing(), list[bytes](), -1
            for partition in sorted(heads):
                if partition != following and slots:
                    file.write((following - len(slots)) * SLOT_BYTES, slots)
                    slots = []
                slots.append(heads[partition].encode())
                following = partition + 1
            if slots:
                file.write((following - len(slots)) * SLOT_BYTES, slots)

    def _writing(self) -> DiskFile:
        if self._file is None or not self._is_writing:
            self.close()
            self._disk.make_folder(self.path.parent)
            try:
                self._file = self._disk.open(self.path, write=True)
            except FileNotFoundError:
                self._file = self._disk.create(self.path)
                self._disk.sync_folder(self.path.parent)
            self._is_writing = True
        return self._file

    def sync(self) -> None:
        """Return once all heads are on disk."""
        with self._lock:
            if self._file is not None and self._is_writing:
                self._file.sync()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file, self._is_writing = None, False

    def _opened(self) -> DiskFile | None:
        if self._file is None:
            try:
                self._file = self._disk.open(self.path)
            except OSError:
                return None
        return self._file
