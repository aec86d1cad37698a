"""The small files beside the segments, each replaced whole: a crash leaves the old or the new content.

| file        | of a        | holds                                                                      |
|-------------|-------------|----------------------------------------------------------------------------|
| `identity`  | log         | a JSON object: log id, incarnation, two marks                              |
| `policy`    | topic       | how it is compacted: a JSON object, and in a second line its CRC32C in hex |
| `reserved`  | partition   | offset i64 and its CRC32C, twice, in case one is damaged                   |
| `shortened` | partition   | two offsets i64 and their CRC32C                                           |

Identity: each start of a writer draws a new mark and writes it here, to the SQLite file, and here again as
confirmed. So a directory or a SQLite file restored from a backup of an earlier start can be told from a crash
in between: its mark is neither the last nor the one before.

Policy: any process may replace it; the writer applies it at its next pass. Without it a topic is not compacted.

Reservation: the bound of offsets that readers may see before they are on disk, used only where the log
acknowledges before a sync. It is synced before the first offset below it becomes visible; after an unclean
stop numbering continues at it, so no offset that was visible is assigned to another record.

Shortened: the offsets that a partition lost although a group has passed them. The writer makes it if a group is, at
its start, beyond all offsets known to be assigned. Such a group is stopped by name; new records go behind its
position, so it skips none. The file is removed when an operator accepts the loss (`penstock restored`).
"""

import logging
import struct
from pathlib import Path

import msgspec

from penstock.wire.kafka.record_batch import crc32c

from ..contract import Compaction
from .disk import Disk, read_whole, with_crc, without_crc, write_whole


def encode_checked(line: bytes) -> bytes:
    """Return the bytes of a file that holds a line."""
    return b"%b\n%08x\n" % (line, crc32c(line))


def decode_checked(content: bytes) -> bytes | None:
    """Return the line of a file; None if it is damaged."""
    line, _, _ = content.partition(b"\n")
    return line if content == encode_checked(line) else None


IDENTITY = "identity"


class DirectoryIdentity(msgspec.Struct, frozen=True):
    """Its content. `mark` is of the last start; the SQLite file may still have `known_mark` instead."""

    log_id: str
    incarnation: int
    mark: str
    known_mark: str


def read_identity(disk: Disk, folder: Path) -> DirectoryIdentity | None:
    """Return the content of the file; None if it does not exist. Raises msgspec.MsgspecError for a damaged file."""
    content = read_whole(disk, folder / IDENTITY)
    return None if content is None else msgspec.json.decode(content, type=DirectoryIdentity)


def write_identity(disk: Disk, folder: Path, identity: DirectoryIdentity) -> None:
    """Replace the file."""
    write_whole(disk, folder / IDENTITY, msgspec.json.encode(identity) + b"\n")


POLICY = "policy"


class _Policy(msgspec.Struct, frozen=True):
    compact: bool = False
    tombstone_ms: int = 0


def read_policy(disk: Disk, folder: Path) -> Compaction | None:
    """Return how a topic is compacted; None if it is not. Raises ValueError for a damaged file."""
    content = read_whole(disk, folder / POLICY)
    if content is None:
        return None
    try:
        found = msgspec.json.decode(decode_checked(content) or b"", type=_Policy)
    except msgspec.MsgspecError as exc:
        raise ValueError(f"{folder / POLICY} is damaged ({exc}): set the topic's compaction again") from exc
    return Compaction(found.tombstone_ms) if found.compact else None


def has_policy(disk: Disk, folder: Path) -> bool:
    """Return whether a topic is or was compacted."""
    return read_whole(disk, folder / POLICY) is not None


def write_policy(disk: Disk, folder: Path, policy: Compaction | None) -> None:
    """Set the compaction of a topic."""
    disk.make_folder(folder)
    stored = _Policy() if policy is None else _Policy(True, policy.tombstone_ms)
    write_whole(disk, folder / POLICY, encode_checked(msgspec.json.encode(stored)))


RESERVED = "reserved"
_OFFSET = struct.Struct(">q")
_COPY_BYTES = _OFFSET.size + 4  # with its checksum

logger = logging.getLogger("penstock.files")


def write_reservation(disk: Disk, folder: Path, offset: int) -> None:
    """Write a reservation durably, making its folder if needed. Raises OSError."""
    if not disk.exists(folder):
        disk.make_folder(folder)
        disk.sync_folder(folder.parent)
        disk.sync_folder(folder.parent.parent)  # the topic's own folder may be new, too
    write_whole(disk, folder / RESERVED, with_crc(_OFFSET.pack(offset)) * 2)


def read_reservation(disk: Disk, folder: Path) -> int:
    """Return the reservation's end; 0 where there is none."""
    content = read_whole(disk, folder / RESERVED)
    if content is None:
        return 0
    found = [_decoded(content[at : at + _COPY_BYTES]) for at in range(0, len(content), _COPY_BYTES)]
    if -1 in found:
        logger.error("%s is damaged; its remaining copy holds offset %s", folder / RESERVED, max(found))
    return max(0, 0, *found)


def _decoded(copy: bytes) -> int:
    body = without_crc(copy)
    return int(_OFFSET.unpack(body)[0]) if body is not None and len(body) == _OFFSET.size else -1


SHORTENED = "shortened"
_RANGE = struct.Struct(">qq")


def write_shortened(disk: Disk, folder: Path, low: int, high: int) -> None:
    """Write it durably, merged with an earlier loss. Raises OSError."""
    known = read_shortened(disk, folder)
    if known is not None:
        low, high = min(low, known[0]), max(high, known[1])
    write_whole(disk, folder / SHORTENED, with_crc(_RANGE.pack(low, high)))


def read_shortened(disk: Disk, folder: Path) -> tuple[int, int] | None:
    """Return the range of lost offsets; None without a loss. If damaged, the extent is unknown: all groups."""
    content = read_whole(disk, folder / SHORTENED)
    if content is None:
        return None
    body = without_crc(content)
    if body is None or len(body) != _RANGE.size:
        return -1, (1 << 63) - 1
    low, high = _RANGE.unpack(body)
    return int(low), int(high)


def forget_shortened(disk: Disk, folder: Path) -> None:
    """Remove the file: the loss is accepted. Raises OSError."""
    if disk.exists(folder / SHORTENED):
        disk.remove(folder / SHORTENED)
        disk.sync_folder(folder)
