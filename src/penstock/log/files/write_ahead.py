"""Checks SQLite's write-ahead log for damage: SQLite takes a damaged frame for the end and drops the rest.

After a kill, commits may be in that file alone. Each frame has a checksum over itself and all frames before
it, and SQLite ends the log at the first frame whose checksum does not follow from the one before. That is
right for a transaction that a crash has torn. It is also right for a failed transaction: a rollback after its
pages had left the cache, or a failed commit, leaves frames with the current salt, even a final one, and a
shorter transaction may overwrite the first of them. But nothing was ever written behind those: the next
transaction begins behind the last one that is committed, and on disk (`synchronous=FULL`). So if the log
seems to end, and farther on a frame's checksum follows from a frame that ends a transaction, there was a
commit between them; a frame before it is damaged, and the commits would be lost silently. Damage within the
last transaction cannot be told from a crash. The format: https://www.sqlite.org/walformat.html

| bytes of the header | field    | of a frame | field                                     |
|---------------------|----------|------------|-------------------------------------------|
| 0-3                 | magic    | 0-3        | page number                               |
| 8-11                | page size| 4-7        | file size, if it ends a transaction       |
| 16-23               | salt     | 8-15       | salt, as in the header                    |
| 24-31               | checksum | 16-23      | checksum                                  |

The file is read in pieces. It usually has 4 MB, but grows while another process reads the tables for long.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_HEADER_BYTES, _FRAME_BYTES = 32, 24
_HEADER, _FRAME = struct.Struct(">IIII8sII"), struct.Struct(">II8sII")
_MAGIC = 0x377F0682  # the lowest bit: whether checksums are of big-endian numbers
_PAGE_BYTES = frozenset(1 << power for power in range(9, 17))
_PIECE_BYTES = 256 * 1024
_LOOKS = 3
FrameSums = tuple[int, int]


def write_ahead_damage(path: Path) -> str | None:
    """Return the damage, found twice, to the file; None if it is whole, ends in a torn frame, or does not exist."""
    before = None
    for _ in range(_LOOKS):
        try:
            with path.open("rb") as file:
                header = file.read(_HEADER_BYTES)
                found = _damage(header, file)
            with path.open("rb") as file:
                is_same = file.read(_HEADER_BYTES) == header
        except FileNotFoundError:
            return None
        if found is None or (is_same and found == before):
            return found
        before = found  # reported when found twice: a read is not atomic
    return None


def _damage(header: bytes, file: BinaryIO) -> str | None:
    if os.fstat(file.fileno()).st_size < _HEADER_BYTES + _FRAME_BYTES or len(header) < _HEADER_BYTES:
        return None
    magic, _, page_bytes, _, salt, first, second = _HEADER.unpack(header)
    order = ">" if magic & 1 else "<"
    is_known = magic & ~1 == _MAGIC and page_bytes in _PAGE_BYTES
    if not is_known or _sums(header[:24], order, (0, 0)) != (first, second):
        return "its header is damaged, and the commits in it would be lost"
    broken, followed = None, [(first, second)]  # checksums that the next frame may follow from
    for number, frame in enumerate(_frames(file, _FRAME_BYTES + page_bytes)):
        _, size, own, first, second = _FRAME.unpack_from(frame)
        made = [_frame_sums(frame, order, each) for each in followed] if own == salt else []
        if (first, second) in made:
            if broken is not None:
                return f"frame {broken} is damaged, and the commits behind it would be lost"
            followed = [(first, second)]
            continue
        if broken is None:
            broken = number
        else:
            made = []
        # For the broken frame: its stored checksum, or the right one in case the stored one is damaged.
        followed = [(first, second), *made] if size and _is_one_bit_off(own, salt) else []
    return None


def _frames(file: BinaryIO, frame_bytes: int) -> Iterator[bytes]:
    while piece := file.read(max(1, _PIECE_BYTES // frame_bytes) * frame_bytes):
        for at in range(0, len(piece) - frame_bytes + 1, frame_bytes):
            yield piece[at : at + frame_bytes]


def _is_one_bit_off(own: bytes, salt: bytes) -> bool:
    return (int.from_bytes(own) ^ int.from_bytes(salt)).bit_count() <= 1


def _frame_sums(frame: bytes, order: str, before: FrameSums) -> FrameSums:
    return _sums(frame[_FRAME_BYTES:], order, _sums(frame[:8], order, before))


def _sums(data: bytes, order: str, before: FrameSums) -> FrameSums:
    first, second = before
    for one, other in struct.iter_unpack(f"{order}II", data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
