"""A partition has lost its end, and a group that had passed it has not: the file `shortened` of a partition.

Made by the writer when it finds, at its start, a group behind all that the partition is known to have given.
Such a group is stopped by name; what is appended stands behind where it is, so nothing is passed over. The
file goes when a person accepts the loss (`penstock restored`).

| bytes | field  | meaning                                              |
|-------|--------|------------------------------------------------------|
| 0-7   | low    | where the partition ended when that was found        |
| 8-15  | high   | where the foremost group stood: new records begin here |
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
    """Let the disk have it; what an earlier loss took is part of it. Raises OSError."""
    known = read_shortened(disk, folder)
    if known is not None:
        low, high = min(low, known[0]), max(high, known[1])
    body = _RANGE.pack(low, high)
    write_whole(disk, folder / NAME, body + _CRC.pack(crc32c(body)))


def read_shortened(disk: Disk, folder: Path) -> tuple[int, int] | None:
    """Return the offsets that were lost, from the first to before the last; None where none were.

    A damaged file says that something is lost, and not what: all groups are concerned then.
    """
    content = read_whole(disk, folder / NAME)
    if content is None:
        return None
    if len(content) != _RANGE.size + _CRC.size or _CRC.unpack(content[16:])[0] != crc32c(content[:16]):
        return -1, (1 << 63) - 1
    low, high = _RANGE.unpack(content[:16])
    return int(low), int(high)


def forget_shortened(disk: Disk, folder: Path) -> None:
    """Take the loss as accepted. Raises OSError."""
    if disk.exists(folder / NAME):
        disk.remove(folder / NAME)
        disk.sync_folder(folder)
