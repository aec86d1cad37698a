"""Snapshots of a partition's producer state, so that a restart does not read the whole log.

The file `<offset>.snapshot` holds the state after the batches before that offset, as JSON behind a checksum:

| bytes | field   | meaning                                        |
|-------|---------|------------------------------------------------|
| 0-7   | magic   | `PENSTSNP`                                     |
| 8-11  | crc     | CRC32C of the rest                             |
| 12-   | content | JSON: `Snapshot`, below                        |

Written when a segment is closed and at a clean stop, under another name and renamed. Crash: a snapshot that
is torn, damaged or beyond the recovered end is ignored; an older one, or the whole log, gives the same state.
"""

import struct
from pathlib import Path

import msgspec
from fastcrc.crc32 import iscsi as crc32c

from .disk import Disk, read_whole, write_whole
from .producers import AbortedTransaction, Producers, ProducerState, SentBatch, UndecidedTransaction

SUFFIX = ".snapshot"
_MAGIC = b"PENSTSNP"
_HEAD = struct.Struct(">8sI")


class Snapshot(msgspec.Struct):
    """The state after the batches before `offset`.

    `producers`: id, epoch, open since, time of its last record, time of its last batch here, batches.
    """

    offset: int
    producers: list[tuple[int, int, int | None, int, int, list[SentBatch]]]
    aborted: list[AbortedTransaction]
    undecided: list[UndecidedTransaction]


_decode = msgspec.json.Decoder(Snapshot).decode


def snapshot_name(offset: int) -> str:
    """Return the file name."""
    return f"{offset:020}{SUFFIX}"


def write_snapshot(disk: Disk, folder: Path, producers: Producers) -> None:
    """Write the present state, and remove all snapshots but the last two."""
    rows = [
        (id, each.epoch, each.opened, each.last_ms, each.heard_ms, list(each.batches))
        for id, each in producers.states.items()
    ]
    state = Snapshot(producers.offset, rows, producers.aborted, producers.undecided)
    content = msgspec.json.encode(state)
    write_whole(disk, folder / snapshot_name(producers.offset), _HEAD.pack(_MAGIC, crc32c(content)) + content)
    for offset in snapshot_offsets(disk, folder)[:-2]:
        disk.remove(folder / snapshot_name(offset))


def newest_snapshot(disk: Disk, folder: Path, end: int) -> Producers:
    """Return the state of the newest usable snapshot at or before an end; empty if there is none."""
    for offset in reversed(snapshot_offsets(disk, folder)):
        if offset <= end:
            found = _read(disk, folder / snapshot_name(offset), offset)
            if found is not None:
                return found
    return Producers()


def snapshot_offsets(disk: Disk, folder: Path) -> list[int]:
    """Return the offsets of the snapshots in a folder."""
    stems = [name.removesuffix(SUFFIX) for name in disk.names(folder) if name.endswith(SUFFIX)]
    return sorted(int(each) for each in stems if each.isdecimal())


def _read(disk: Disk, path: Path, offset: int) -> Producers | None:
    content = read_whole(disk, path)
    if content is None or len(content) < _HEAD.size:
        return None
    magic, crc = _HEAD.unpack_from(content)
    if magic != _MAGIC or crc32c(content[_HEAD.size :]) != crc:
        return None
    try:
        found = _decode(content[_HEAD.size :])
    except msgspec.MsgspecError:
        return None
    if found.offset != offset:
        return None
    producers = Producers()
    producers.offset, producers.undecided = offset, found.undecided
    for id, epoch, opened, last_ms, heard_ms, batches in found.producers:
        producers.put(id, ProducerState(epoch, batches, opened, last_ms, heard_ms))
    for each in found.aborted:
        producers.add_aborted(each)
    return producers
