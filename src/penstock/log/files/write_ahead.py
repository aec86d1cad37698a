"""Whether SQLite's write-ahead log is whole: SQLite takes a damaged frame for its end, and forgets the rest.

After a kill commits stand in that file alone. Each frame has a checksum over itself and all before it; a
crash may leave a torn one at the end, which was never acknowledged. What is committed is on disk before the
next transaction writes (`synchronous=FULL`), so a torn frame has no whole transaction and a frame of another
behind it: where there is such a thing, the frame is damaged, and what stands behind it would be lost without
a word. Damage within the last transaction cannot be told from a crash. The format:
https://www.sqlite.org/walformat.html

| bytes of the header | field    | of a frame | field                                     |
|---------------------|----------|------------|-------------------------------------------|
| 0-3                 | magic    | 0-3        | number of the page                        |
| 8-11                | page size| 4-7        | size of the file if it ends a transaction |
| 16-23               | salt     | 8-15       | salt, as in the header                    |
| 24-31               | checksum | 16-23      | checksum                                  |
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HEADER_BYTES, _FRAME_BYTES = 32, 24
_HEADER, _FRAME = struct.Struct(">IIII8sII"), struct.Struct(">II8sII")
_MAGIC = 0x377F0682  # the lowest bit: whether checksums are of big-endian numbers
_LOOKS = 3
FrameSums = tuple[int, int]


class _Frame(NamedTuple):
    ends: bool  # a transaction
    follows: bool  # by its checksum, the frame before


def write_ahead_damage(path: Path) -> str | None:
    """Return what is wrong with the file; None for one that is whole, ends in a torn frame, or is not there.

    Others may write it meanwhile: so damage is looked at again, and nothing is said if that does not end.
    """
    before = None
    for _ in range(_LOOKS):
        try:
            content = path.read_bytes()
            with path.open("rb") as file:
                is_same = file.read(_HEADER_BYTES) == content[:_HEADER_BYTES]
        except FileNotFoundError:
            return None
        found = _damage(content)
        if found is None or (is_same and found == before):
            return found
        before = found  # believed when it is found twice: one read is not of one moment
    return None


def _damage(content: bytes) -> str | None:
    if len(content) < _HEADER_BYTES + _FRAME_BYTES:
        return None
    magic, _, page_bytes, _, salt, first, second = _HEADER.unpack_from(content)
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _MAGIC or _sums(content[:24], order, (0, 0)) != (first, second):
        return "its header is damaged, and the commits in it would be lost"
    frames = list(_frames(content, order, page_bytes, salt, (first, second)))
    broken = next((number for number, each in enumerate(frames) if not each.follows), len(frames))
    ended = next((number for number in range(broken, len(frames)) if frames[number].ends), len(frames))
    if not any(each.follows for each in frames[ended + 1 :]):
        return None
    return f"frame {broken} of {len(frames)} is damaged, and the commits behind it would be lost"


def _frames(content: bytes, order: str, page_bytes: int, salt: bytes, before: FrameSums) -> Iterator[_Frame]:
    """Yield the frames of the present salt; behind the last of them stand older ones."""
    for at in range(_HEADER_BYTES, len(content) - _FRAME_BYTES - page_bytes + 1, _FRAME_BYTES + page_bytes):
        _, size, own, first, second = _FRAME.unpack_from(content, at)
        page, sums = at + _FRAME_BYTES, None
        if own == salt:
            sums = _sums(content[page : page + page_bytes], order, _sums(content[at : at + 8], order, before))
        before = first, second  # what it says, so that those behind a damaged one are told apart
        yield _Frame(bool(size) and _is_one_bit_off(own, salt), sums == before)


def _is_one_bit_off(own: bytes, salt: bytes) -> bool:
    """Return whether two salts are the same, but for a flipped bit at most; half of it is drawn by chance."""
    return (int.from_bytes(own) ^ int.from_bytes(salt)).bit_count() <= 1


def _sums(data: bytes, order: str, before: FrameSums) -> FrameSums:
    """Return SQLite's checksum over some bytes, going on from another."""
    first, second = before
    numbers = struct.unpack(f"{order}{len(data) // 4}I", data)
    for at in range(0, len(numbers), 2):
        first = (first + numbers[at] + second) & 0xFFFFFFFF
        second = (second + numbers[at + 1] + first) & 0xFFFFFFFF
    return first, second
