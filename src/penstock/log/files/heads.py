"""What the partitions of one topic hold, published by the writer for everybody: the file `heads` of a topic.

One slot of 64 bytes for each partition, at byte 64 × partition:

| bytes | field           | meaning                                                                       |
|-------|-----------------|-------------------------------------------------------------------------------|
| 0-7   | start           | the first offset that is kept                                                 |
| 8-15  | end             | the offset after the last that readers may see                                |
| 16-23 | stable          | the last stable offset: before it no transaction is undecided                 |
| 24-31 | segment         | base offset of the segment that is written                                    |
| 32-39 | synced_position | up to where the disk has that segment                                         |
| 40-47 | synced_offset   | the offset there                                                              |
| 48-55 | changes         | rises whenever segments are added, removed or replaced                        |
| 56-59 |                 | zero                                                                          |
| 60-63 | crc             | CRC32C of bytes 0-59                                                          |

Invariant: a slot is written after the disk has what it tells of (but for `end` where the log is set to
acknowledge earlier). So a slot may be old, never ahead: recovery begins at it.
Safety: one writer; a reader that meets a slot half written finds a wrong checksum and reads it again.
Crash: the disk has a slot of each segment before anything is in it; later ones reach it when the system
likes. An old one costs a longer look at the last segment. Where none speaks of that segment, the file was
damaged, lost or put back: all that stands there may have been acknowledged (`tail.py`).
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from .disk import Disk, DiskFile

SLOT_BYTES = 64
NAME = "heads"
_FIELDS = struct.Struct(">qqqqqqq4x")
_CRC = struct.Struct(">I")
_TRIES = 20  # to read a slot that is being written


class PartitionHead(NamedTuple):
    """What one partition holds."""

    start: int = 0
    end: int = 0
    stable: int = 0
    segment: int = 0
    synced_position: int = 0
    synced_offset: int = 0
    changes: int = 0

    def encode(self) -> bytes:
        """Return it as the bytes of its slot."""
        body = _FIELDS.pack(*self)
        return body + _CRC.pack(crc32c(body))


def decode_head(slot: bytes) -> PartitionHead | None:
    """Return what a slot says; None if it was never written, or is damaged."""
    if len(slot) < SLOT_BYTES or _CRC.unpack_from(slot, SLOT_BYTES - 4)[0] != crc32c(slot[: SLOT_BYTES - 4]):
        return None
    return PartitionHead._make(_FIELDS.unpack_from(slot))


class HeadsFile:
    """The heads of one topic. Safe from any thread; `put` is for the process that writes."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk, self.path = disk, folder / NAME
        self._lock = RLock()  # a partition is recovered, and so published, by whoever needs it first
        self._file: DiskFile | None = None
        self._is_writing = False

    def get(self, partition: int) -> PartitionHead | None:
        """Return what a partition holds; None if nothing was ever written, or nobody can say."""
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
        """Return what every partition holds that ever held something, in one look."""
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
        """Publish what a partition holds. Raises OSError."""
        with self._lock:
            self._writing().write(partition * SLOT_BYTES, [head.encode()])

    def put_all(self, heads: Mapping[int, PartitionHead]) -> None:
        """Publish what several partitions hold, neighbours with one call. Raises OSError."""
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
        """Return once the disk has all of them."""
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
