"""The offsets that a partition lost although a group has passed them: the file `shortened` of a partition.

The writer makes it when it finds, at its start, a group beyond all offsets that the partition is known to
have assigned. Such a group is stopped by name; new records go behind its position, so it skips none. The file
is removed when an operator accepts the loss (`penstock restored`).

| bytes | field  | meaning                                              |
|-------|--------|------------------------------------------------------|
| 0-7   | low    | end of the partition when the loss was found         |
| 8-15  | high   | position of the foremost group: new records begin here |
| 16-19 | crc    | CRC32C of bytes 0-15                                 |
"""

import struct
from pathlib import Path

from fastcrc.crc32 import iscsi as crc32c

from .disk import Disk, read_whole, write_whole

NAME = "shortened"
_RANGE = struct.Struct(">qq")
_CRC = struct.Struct(">I")


def write_shortened(disk: Disk, folder: Path, low: int, high: int) -> None:
    """Write it durably, merged with an earlier loss. Raises OSError."""
    known = read_shortened(disk, folder)
    if known is not None:
        low, high = min(low, known[0]), max(high, known[1])
    body = _RANGE.pack(low, high)
    write_whole(disk, folder / NAME, body + _CRC.pack(crc32c(body)))


def read_shortened(disk: Disk, folder: Path) -> tuple[int, int] | None:
    """Return the range of lost offsets, its end exclusive; None if there is no loss.

    A damaged file shows a loss of unknown extent: it then concerns all groups.
    """
    content = read_whole(disk, folder / NAME)
    if content is None:
        return None
    if len(content) != _RANGE.size + _CRC.size or _CRC.unpack(content[16:])[0] != crc32c(content[:16]):
        return -1, (1 << 63) - 1
    low, high = _RANGE.unpack(content[:16])
    return int(low), int(high)


def forget_shortened(disk: Disk, folder: Path) -> None:
    """Remove the file: the loss is accepted. Raises OSError."""
    if disk.exists(folder / NAME):
        disk.remove(folder / NAME)
        disk.sync_folder(folder)
