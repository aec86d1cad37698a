"""The bound of offsets that readers may see before they are on disk: the file `reserved` of a partition.

Used only where the log is set to acknowledge before a sync. It is synced before the first offset below it
becomes visible; after an unclean stop numbering continues at it, so no offset that was visible is assigned to
another record.

| bytes | field  | meaning                                  |
|-------|--------|------------------------------------------|
| 0-7   | offset | the reservation's end                    |
| 8-11  | crc    | CRC32C of bytes 0-7                      |
| 12-23 | copy   | a second copy, in case one is damaged    |
"""

import logging
import struct
from pathlib import Path

from fastcrc.crc32 import iscsi as crc32c

from .disk import Disk, read_whole, write_whole

NAME = "reserved"
_OFFSET = struct.Struct(">q")
_CRC = struct.Struct(">I")
_COPY_BYTES = _OFFSET.size + _CRC.size

logger = logging.getLogger("penstock.files")


def write_reservation(disk: Disk, folder: Path, offset: int) -> None:
    """Write a reservation durably, making its folder if needed. Raises OSError."""
    if not disk.exists(folder):
        disk.make_folder(folder)
        disk.sync_folder(folder.parent)
        disk.sync_folder(folder.parent.parent)  # the topic's own folder may be new, too
    body = _OFFSET.pack(offset)
    write_whole(disk, folder / NAME, (body + _CRC.pack(crc32c(body))) * 2)


def read_reservation(disk: Disk, folder: Path) -> int:
    """Return the reservation's end; 0 where there is none."""
    content = read_whole(disk, folder / NAME)
    if content is None:
        return 0
    found = [_decoded(content[at : at + _COPY_BYTES]) for at in range(0, len(content), _COPY_BYTES)]
    if -1 in found:
        logger.error("%s is damaged; its remaining copy holds offset %s", folder / NAME, max(found))
    return max(0, 0, *found)


def _decoded(copy: bytes) -> int:
    if len(copy) != _COPY_BYTES or _CRC.unpack(copy[8:])[0] != crc32c(copy[:8]):
        return -1
    return int(_OFFSET.unpack(copy[:8])[0])
