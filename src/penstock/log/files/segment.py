"""A segment: one file of whole record batches, and its index.

It does not know its neighbours and does not write: `LogWriter` appends to the last segment of a partition,
and a rewrite makes a new file (`rewriting.py`).

Invariant: from byte 128 to `end_position` batches follow each other without a gap, each at the offset where
the one before ended, all with the header's leader epoch. So every bit is checked on reading: by the batch's
own checksum, and the fields that it leaves out (offset, epoch, length) by this chain. Safety: readers in any
thread; the one writer raises `end_position` and `end_offset` after the sync.
Crash: bytes behind `end_position` are void. The bytes before it never change.

The first 128 bytes are its identity, and the end of the segment before it:

| bytes   | field           | meaning                                                                |
|---------|-----------------|------------------------------------------------------------------------|
| 0-7     | magic           | `PENSTSEG`                                                             |
| 8-9     | version         | 1                                                                      |
| 10-11   | flags           | 0                                                                      |
| 12-15   | partition       |                                                                        |
| 16-31   | topic           | the topic's UUID                                                       |
| 32-39   | base_offset     | the offset of its first record; also the file's name                   |
| 40-43   | leader_epoch    | the epoch of every batch in it                                         |
| 44-47   | generation      | number of its rewrites: erasure, compaction, compression               |
| 48-55   | created_ms      | time of creation                                                       |
| 56-63   | before_base     | base offset of the segment before it; -1: none                         |
| 64-71   | before_position | where that one ends: its last synced byte; bytes behind it are void    |
| 72-79   | before_offset   | the offset after its last record                                       |
| 80-87   | end_position    | its own end, if it was rewritten; else 0                               |
| 88-95   | end_offset      | likewise                                                               |
| 96-123  |                 | zero                                                                   |
| 124-127 | crc             | CRC32C of bytes 0-123                                                  |

A header is synced before the first batch of its segment is written, and never changes.
"""

import struct
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn
from uuid import UUID

from penstock.errors import Damaged, InvalidBatch
from penstock.wire.kafka.record_batch import CRC_START, LENGTH_END, MAGIC, BatchHeader, check_batch, crc32c, read_header
from penstock.wire.kafka.record_batch import HEADER as BATCH_HEADER
from penstock.wire.kafka.record_batch import HEADER_BYTES as BATCH_HEADER_BYTES

from .disk import DiskFile, with_crc, without_crc
from .index import SegmentEnd, SparseIndex
from .open_files import OpenFiles

HEADER_BYTES = 128
VERSION = 1
_MAGIC = b"PENSTSEG"
_FIELDS = struct.Struct(">8sHHI16sqiIqqqqqq28x")
SUFFIX = ".log"
CHUNK_BYTES = 1 << 20
_FRONT = struct.Struct(">qiibIhi")  # of a batch: from its base offset to its last offset delta
_START = struct.Struct(">ib")  # of a batch: leader epoch and magic
_MOST_CACHED = 5 << 18  # bytes; clients usually ask for 1 MB of a partition
_SIGN_AT = 12  # their position in a batch


class SegmentHeader(NamedTuple):
    """The header of a segment."""

    topic: UUID
    partition: int
    base_offset: int
    leader_epoch: int = 0
    generation: int = 0
    created_ms: int = 0
    before_base: int = -1
    before_position: int = 0
    before_offset: int = 0
    end_position: int = 0
    end_offset: int = 0

    def encode(self) -> bytes:
        """Encode it as bytes."""
        topic, partition, *rest = self
        return with_crc(_FIELDS.pack(_MAGIC, VERSION, 0, partition, topic.bytes, *rest))


def decode_header(content: bytes) -> SegmentHeader | str:
    """Decode a header, or return the reason why it cannot be decoded."""
    if len(content) < HEADER_BYTES:
        return f"it has {len(content)} bytes, and its header alone {HEADER_BYTES}"
    if not any(content[:HEADER_BYTES]):
        return "its header was never written"
    if without_crc(content[:HEADER_BYTES]) is None:
        return "the checksum of its header is wrong"
    magic, version, _, partition, topic, *rest = _FIELDS.unpack_from(content)
    if magic != _MAGIC or version != VERSION:
        return f"it is no segment of version {VERSION}"
    return SegmentHeader(UUID(bytes=topic), partition, *rest)


class BatchPiece(NamedTuple):
    """Whole, checked, consecutive batches from one segment; `next_offset` follows the last of them."""

    batches: memoryview
    next_offset: int


class Segment:
    """One segment, as readers see it."""

    def __init__(self, files: OpenFiles, path: Path, header: SegmentHeader, index_bytes: int) -> None:
        self.files, self.path, self.header = files, path, header
        self.end_position, self.end_offset = HEADER_BYTES, header.base_offset
        self._index_bytes = index_bytes
        self.known_index: SparseIndex | None = None  # None: to be loaded or built when needed

    @property
    def base_offset(self) -> int:
        """The offset of its first record."""
        return self.header.base_offset

    @property
    def end(self) -> SegmentEnd:
        """Its end, with base offset and generation."""
        return SegmentEnd(self.base_offset, self.header.generation, self.end_position, self.end_offset)

    @property
    def name(self) -> str:
        """Its name in messages: topic folder, partition and file."""
        return "/".join(self.path.parts[-3:])

    # -- its index

    @property
    def index(self) -> SparseIndex:
        """Its index, from its file or made from the batches."""
        if self.known_index is None:
            self.known_index = self._loaded() or self._made()
        return self.known_index

    @property
    def index_path(self) -> Path:
        """The path of its index."""
        return self.path.with_suffix(".index")

    def _loaded(self) -> SparseIndex | None:
        try:
            file = self.files.disk.open(self.index_path)
        except OSError:
            return None
        with closing(file):
            return SparseIndex.decode(file.read(0, file.size), self.end, self._index_bytes)

    def _made(self) -> SparseIndex:
        index = SparseIndex(self._index_bytes)
        for position, header in self.sound_headers(HEADER_BYTES, self.base_offset):
            index.note(header.base_offset, position, header.max_timestamp)
        return index

    # -- reading

    def is_cached(self, offset: int, max_bytes: int) -> bool:
        """Return whether `read` would find its bytes in memory, and not very many of them."""
        if self.known_index is None:
            return False
        mark = self.known_index.before(offset)
        if mark is None:
            return True
        size = min(max_bytes + self._index_bytes + BATCH_HEADER_BYTES, self.end_position - mark.position)
        following = next(islice(self.known_index.marks(offset), 1, None), None)
        until = self.end_position if following is None else following.position
        if max(size, until - mark.position) > _MOST_CACHED:  # so far apart stand marks of a large batch
            return False
        with self.files.use(self.path) as file:
            return file.is_cached(mark.position, max(size, 1))

    def read(self, offset: int, max_bytes: int, until: int) -> BatchPiece | None:
        """Return batches from an offset on, one at least, about `max_bytes`; later damage ends it. Raises Damaged."""
        if offset >= min(until, self.end_offset):
            return None
        position, expected = self.place_before(offset)
        size = min(max_bytes + self._index_bytes + BATCH_HEADER_BYTES, self.end_position - position)
        with self.files.use(self.path) as file:
            chunk = memoryview(file.read(position, size))
            first = at = 0
            found = False
            own_epoch, end_position, end_offset = self.header.leader_epoch, self.end_position, self.end_offset
            while expected < until and at + BATCH_HEADER_BYTES <= len(chunk):
                base, length, epoch, magic, crc, _, last = _FRONT.unpack_from(chunk, at)
                size, following = LENGTH_END + length, expected + last + 1
                if (  # the checks of `_header` without an object for each batch: the hot path of reading
                    base != expected
                    or magic != MAGIC
                    or epoch != own_epoch
                    or size < BATCH_HEADER_BYTES
                    or position + at + size > end_position
                    or last < 0
                    or following > end_offset
                ):
                    if found:
                        break
                    resumed = self.resync(position + at + 1, expected)
                    if resumed is None or resumed[1] > offset:
                        self._header(chunk, at, position, expected)
                        raise Damaged(self.name, position + at, expected, "a batch that does not follow")
                    return self._read_from(resumed, offset, max_bytes, until)
                if following <= offset:
                    at += size
                    expected = following
                    continue
                if at + size > len(chunk):
                    if found:
                        break
                    chunk = memoryview(file.read(position + at, size))
                    position, at = position + at, 0
                if not found:
                    first, found = at, True
                elif at + size - first > max_bytes:
                    break
                if at + size > len(chunk) or crc32c(chunk[at + CRC_START : at + size]) != crc:
                    if at > first:
                        break
                    self._raise_damage(chunk, at, position, base)
                at += size
                expected = following
                if at - first >= max_bytes:
                    break
        if not found:
            raise Damaged(self.name, position + at, expected, f"the file ends at byte {position + len(chunk)}")
        return BatchPiece(chunk[first:at], expected)

    def place_before(self, offset: int) -> tuple[int, int]:
        """Return position and offset of a batch at or before an offset: a mark, or the first position without one."""
        mark = self.index.before(offset)
        return (HEADER_BYTES, self.base_offset) if mark is None else (mark.position, mark.offset)

    def _raise_damage(self, chunk: memoryview, at: int, position: int, offset: int) -> NoReturn:
        why = "its bytes have changed since"
        try:
            check_batch(chunk, at)
        except InvalidBatch as exc:
            why = exc.why
        raise Damaged(self.name, position + at, offset, why)

    def _read_from(
        self, place: tuple[int, int], offset: int, max_bytes: int, until: int
    ) -> BatchPiece | None:  # behind damage between two marks: rare
        for position, header in self.headers(*place):
            if header.next_offset > offset:
                batch = self.batch(position, header)
                return BatchPiece(memoryview(batch), header.next_offset)
        return None

    def batch(self, position: int, header: BatchHeader) -> bytes:
        """Return one batch, checked. Raises Damaged."""
        with self.files.use(self.path) as file:
            batch = file.read(position, header.size)
        try:
            check_batch(batch)
        except InvalidBatch as exc:
            raise Damaged(self.name, position, header.base_offset, exc.why) from exc
        return batch

    def sound_headers(self, position: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of the batches from a place on; damaged bytes are skipped."""
        place: tuple[int, int] | None = (position, offset)
        while place is not None and place[0] < self.end_position:
            try:
                for at, header in self.headers(*place):
                    place = at + header.size, header.next_offset
                    yield at, header
                return
            except Damaged:
                place = self.resync(place[0] + 1, place[1])

    def headers(self, position: int = HEADER_BYTES, offset: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of the batches from a place on, records unchecked. Raises Damaged."""
        expected = self.base_offset if offset is None else offset
        with self.files.use(self.path) as file:
            while position < self.end_position:
                chunk = file.read(position, min(CHUNK_BYTES, self.end_position - position))
                at = 0
                while at + BATCH_HEADER_BYTES <= len(chunk):
                    header = self._header(chunk, at, position, expected)
                    yield position + at, header
                    at += header.size
                    expected = header.next_offset
                if not at:
                    raise Damaged(self.name, position, expected, f"the file ends at byte {position + len(chunk)}")
                position += at

    def batches(
        self, position: int = HEADER_BYTES, offset: int | None = None
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yield position, header and bytes of the batches from a place on, each checked. Raises Damaged."""
        expected = self.base_offset if offset is None else offset
        while expected < self.end_offset:
            piece = self.read(expected, CHUNK_BYTES, self.end_offset)
            if piece is None:
                return
            at = 0
            while at < len(piece.batches):
                header = BatchHeader._make(BATCH_HEADER.unpack_from(piece.batches, at))
                yield position + at, header, piece.batches[at : at + header.size]
                at += header.size
            position += at
            expected = piece.next_offset

    def _header(self, chunk: bytes | memoryview, at: int, base: int, expected: int) -> BatchHeader:
        """Return the header at a place of a chunk if it continues the chain. Raises Damaged."""
        header = BatchHeader._make(BATCH_HEADER.unpack_from(chunk, at))
        if header.base_offset != expected:
            why = f"a batch begins at offset {header.base_offset}"
        elif header.magic != MAGIC or header.leader_epoch != self.header.leader_epoch:
            why = f"a batch has format {header.magic} and epoch {header.leader_epoch}"
        elif header.size < BATCH_HEADER_BYTES or base + at + header.size > self.end_position:
            why = f"a batch has a length of {header.length}"
        elif header.last_offset_delta < 0 or header.next_offset > self.end_offset:
            why = f"a batch ends at offset {header.last_offset}"
        else:
            return header
        raise Damaged(self.name, base + at, expected, why)

    def present(self) -> "Segment | None":
        """Return the segment of the present file: itself, or its rewritten form. None if the file is gone."""
        self.files.forget(self.path)
        try:
            with self.files.use(self.path) as file:
                header = decode_header(file.read(0, HEADER_BYTES))
        except FileNotFoundError:
            return None
        if isinstance(header, str) or header.generation == self.header.generation:
            return self
        new = Segment(self.files, self.path, header, self._index_bytes)
        new.end_position, new.end_offset = header.end_position, header.end_offset
        return new

    def resync(self, position: int, offset: int, end: tuple[int, int] | None = None) -> tuple[int, int] | None:
        """Return position and offset of the first whole batch behind damage. `end`: bounds, else the segment's."""
        sign = _START.pack(self.header.leader_epoch, MAGIC)
        until, end_offset = end or (self.end_position, self.end_offset)
        with self.files.use(self.path) as file:
            until = min(until, file.size)
            while position + BATCH_HEADER_BYTES <= until:
                window = file.read(position, min(CHUNK_BYTES, until - position))
                at = window.find(sign, _SIGN_AT)
                while at >= 0:
                    start = position + at - _SIGN_AT
                    header = _sound_header(file, start, until)
                    if header is not None and offset <= header.base_offset and header.next_offset <= end_offset:
                        return start, header.base_offset
                    at = window.find(sign, at + 1)
                position += max(1, len(window) - _SIGN_AT - len(sign) + 1)
        return None


def _sound_header(file: DiskFile, position: int, until: int) -> BatchHeader | None:
    """Return the header of the batch at a position if the batch is whole and intact."""
    try:
        header = read_header(file.read(position, BATCH_HEADER_BYTES))
        if header.last_offset_delta < 0 or not BATCH_HEADER_BYTES <= header.size <= until - position:
            return None
        return check_batch(file.read(position, header.size))
    except InvalidBatch:
        return None
