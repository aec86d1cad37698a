"""Whether SQLite's write-ahead log is whole: SQLite takes a damaged frame for its end, and forgets the rest.

After a kill commits stand in that file alone. Each frame has a checksum over itself and all before it, and
SQLite ends the log at the first one that does not follow the frame before. That is right for a transaction
that a crash has torn. It is also right where transactions came to nothing: one that was rolled back after its
pages had left the cache, or whose commit failed, leaves frames with the salt of today, even the one that ends
it, and a shorter transaction is written over the first of them. But nothing was ever written behind those:
the next transaction begins behind the last that is committed, and on disk (`synchronous=FULL`). So where the
log seems to end, and farther on a frame follows, by its checksum, one that ends a transaction, there was a
commit between them; a frame before it is damaged, and the commits would be lost without a word. Damage within
the last transaction cannot be told from a crash. The format: https://www.sqlite.org/walformat.html

| bytes of the header | field    | of a frame | field                                     |
|---------------------|----------|------------|-------------------------------------------|
| 0-3                 | magic    | 0-3        | number of the page                        |
| 8-11                | page size| 4-7        | size of the file if it ends a transaction |
| 16-23               | salt     | 8-15       | salt, as in the header                    |
| 24-31               | checksum | 16-23      | checksum                                  |

The file is read in pieces. It has 4 MB as a rule, but it grows while somebody reads the tables for long.
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
    """Return what is wrong with the file; None for one that is whole, ends in a torn frame, or is not there.

    Others may write it meanwhile: so damage is looked at again, and nothing is said if that does not end.
    """
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
        before = found  # believed when it is found twice: one read is not of one moment
    return None


def _damage(header: bytes, file: BinaryIO) -> str | None:
    """Return what is wrong with a file that is read up to the end of its header."""
    if os.fstat(file.fileno()).st_size < _HEADER_BYTES + _FRAME_BYTES or len(header) < _HEADER_BYTES:
        return None
    magic, _, page_bytes, _, salt, first, second = _HEADER.unpack(header)
    order = ">" if magic & 1 else "<"
    is_known = magic & ~1 == _MAGIC and page_bytes in _PAGE_BYTES
    if not is_known or _sums(header[:24], order, (0, 0)) != (first, second):
        return "its header is damaged, and the commits in it would be lost"
    broken, followed = None, [(first, second)]  # the checksums that a frame here may go on from
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
        # Of the broken one: what it says, or what it should say, if that is what is damaged.
        followed = [(first, second), *made] if size and _is_one_bit_off(own, salt) else []
    return None


def _frames(file: BinaryIO, frame_bytes: int) -> Iterator[bytes]:
    """Yield what is whole of the rest of the file, frame by frame."""
    while piece := file.read(max(1, _PIECE_BYTES // frame_bytes) * frame_bytes):
        for at in range(0, len(piece) - frame_bytes + 1, frame_bytes):
            yield piece[at : at + frame_bytes]


def _is_one_bit_off(own: bytes, salt: bytes) -> bool:
    """Return whether two salts are the same, but for a flipped bit at most; half of it is drawn by chance."""
    return (int.from_bytes(own) ^ int.from_bytes(salt)).bit_count() <= 1


def _frame_sums(frame: bytes, order: str, before: FrameSums) -> FrameSums:
    return _sums(frame[_FRAME_BYTES:], order, _sums(frame[:8], order, before))


def _sums(data: bytes, order: str, before: FrameSums) -> FrameSums:
    """Return SQLite's checksum over some bytes, going on from another."""
    first, second = before
    for one, other in struct.iter_unpack(f"{order}II", data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
