"""Finds the end of an unclosed segment: which of its last bytes are valid, torn or damaged.

A batch is torn if some of its sectors never reached the disk. Such sectors are zero, because every byte of a segment is
written once, into zeroed space; so a broken batch without a zero sector was once whole and is damaged. It also counts
as damaged if the synced position of the segment is unknown: all of it may have been acknowledged then. Batches behind
damage stay valid; nothing is cut, and no offset that may have been assigned is reused.
"""

import struct
from typing import NamedTuple

from penstock.errors import InvalidBatch
from penstock.wire.kafka.record_batch import HEADER_BYTES as BATCH_HEADER_BYTES
from penstock.wire.kafka.record_batch import MAGIC, BatchHeader, check_batch, read_header

from .segment import CHUNK_BYTES, HEADER_BYTES, Segment

SECTOR_BYTES = 512  # written by a disk whole or not at all
_ZEROS = bytes(CHUNK_BYTES)
_UNKNOWN_OFFSETS = 1 << 16  # skipped behind unreadable bytes, in addition to one for each byte
_NO_END = 1 << 62


class Tail(NamedTuple):
    """The end of a segment. `given`: all offsets before it may have been assigned."""

    position: int
    offset: int
    given: int
    damaged: str = ""  # describes the damage before the end
    torn: bool = False  # bytes behind the end were never acknowledged


def find_tail(
    segment: Segment, position: int = HEADER_BYTES, offset: int | None = None, *, synced: bool = False
) -> Tail:
    """Find the end of a segment. `synced`: all bytes before that place are known to have been on disk."""
    begin = segment.base_offset if offset is None else offset
    place = whole_until(segment, position, begin)
    filled = filled_until(segment, place[0])
    if filled <= place[0]:
        return Tail(*place, place[1])
    behind = _sound_behind(segment, place)
    if behind is None:
        header = _plausible(segment, place)
        if synced and (header is None or _may_be_unwritten(segment, place[0], place[0] + header.size)):
            return Tail(*place, place[1], torn=True)
        return _damaged(segment, place, place if header is None else _after(place, header), filled)
    first, last = behind
    if synced and _may_be_unwritten(segment, place[0], first):
        return Tail(*place, last[1], torn=True)
    return _damaged(segment, place, last, filled)


def _damaged(segment: Segment, place: tuple[int, int], last: tuple[int, int], filled: int) -> Tail:
    """Return an end behind all readable batches and all other non-zero bytes."""
    position, offset = last
    if filled > position:  # unknown bytes
        position, offset = filled, offset + filled - position + _UNKNOWN_OFFSETS
    return Tail(position, offset, offset, f"a batch at byte {place[0]}, offset {place[1]}, is damaged")


def _sound_behind(segment: Segment, place: tuple[int, int]) -> tuple[int, tuple[int, int]] | None:
    """Return where whole batches resume behind damage, and where the last of them ends."""
    first, last = -1, place
    while True:
        header = _plausible(segment, last)
        found = None if header is None else _after(last, header)
        if found is not None and whole_until(segment, *found, most=1)[0] == found[0]:
            found = None  # no whole batch begins there
        found = found or segment.resync(last[0] + 1, last[1], (_NO_END, _NO_END))
        if found is None:
            return None if first < 0 else (first, last)
        first = found[0] if first < 0 else first
        last = whole_until(segment, *found)


def _after(place: tuple[int, int], header: BatchHeader) -> tuple[int, int]:
    """Return the place behind a batch, from its sizes alone: no checksum covers its offset."""
    return place[0] + header.size, place[1] + header.last_offset_delta + 1


def _plausible(segment: Segment, place: tuple[int, int]) -> BatchHeader | None:
    """Return the header at a place: of a batch that continues the chain, or is whole apart from that."""
    with segment.files.use(segment.path) as file:
        size = file.size - place[0]
        try:
            header = read_header(file.read(place[0], BATCH_HEADER_BYTES))
            if header.last_offset_delta < 0 or not BATCH_HEADER_BYTES <= header.size <= size:
                return None
            known = header.base_offset, header.leader_epoch, header.magic
            if known != (place[1], segment.header.leader_epoch, MAGIC):
                check_batch(file.read(place[0], header.size))
        except InvalidBatch:
            return None
    return header


def _may_be_unwritten(segment: Segment, start: int, stop: int) -> bool:
    """Return whether a sector of a range, or its last byte, is zero: it may never have reached the disk."""
    with segment.files.use(segment.path) as file:
        if stop > start and not any(file.read(stop - 1, 1)):
            return True
        while start < stop:
            following = min(stop, start - start % SECTOR_BYTES + SECTOR_BYTES)
            if not any(file.read(start, following - start)):
                return True
            start = following
    return False


def whole_until(segment: Segment, position: int, offset: int, *, most: int = -1) -> tuple[int, int]:
    """Return position and offset after the last of consecutive whole batches from a place on."""
    expected = offset
    with segment.files.use(segment.path) as file:
        chunk, base = b"", position
        while most:
            at = position - base
            if at + BATCH_HEADER_BYTES > len(chunk):
                chunk, base, at = file.read(position, CHUNK_BYTES), position, 0
            try:
                header = read_header(chunk, at)
                if header.size > len(chunk) - at and header.size >= BATCH_HEADER_BYTES:
                    size = min(header.size, max(0, file.size - position))
                    if size == header.size:
                        chunk, base, at = file.read(position, max(size, CHUNK_BYTES)), position, 0
                header = check_batch(chunk, at)
            except (InvalidBatch, struct.error):
                break
            known = segment.header.leader_epoch, expected
            if (header.leader_epoch, header.base_offset) != known or header.last_offset_delta < 0:
                break
            position, expected, most = position + header.size, header.next_offset, most - 1
    return position, expected


def filled_until(segment: Segment, position: int) -> int:
    """Return the position after the last non-zero byte of a segment's file, at least the given one."""
    filled = position
    with segment.files.use(segment.path) as file:
        while chunk := file.read(position, CHUNK_BYTES):
            if chunk != (_ZEROS if len(chunk) == CHUNK_BYTES else _ZEROS[: len(chunk)]):
                filled = position + len(chunk.rstrip(b"\0"))
            position += len(chunk)
    return filled
