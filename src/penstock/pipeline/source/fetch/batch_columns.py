"""Kafka record batches as Arrow columns, without an object per record.

Only the start of each record is found one by one, by the records' lengths. All else is done for all records
at once: their numbers are read as columns (a varint takes a few reads at a column of positions), and Arrow
takes keys and values out of the bytes, which it sees as one array of pieces between positions.
Headers are read in rounds, one header of every record in each. A chunk with an unusual header (one of ours in
another position than we write it) is decoded record by record instead.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import Damaged, InvalidBatch
from penstock.log.kafka_form import ID, OUR_SOURCE, OWNER, RAW, SOURCE, TYPE, VERSION, entries_of
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.record_batch import HEADER_BYTES, BatchHeader
from penstock.wire.kafka.records import TooManyBytes, unpacked

from ...offsets import Numbers
from .contract import grouped

_CHUNK_BYTES, _CHUNK_RECORDS = 4 << 20, 16_384
_SHORT = 128  # average bytes of a piece, up to which pieces are gathered byte by byte
_MOST_HEADERS = 32  # of a record, for the fast path
_OURS = {name.encode() for name in (ID, TYPE, SOURCE, VERSION, OWNER, RAW)}


HeldBatch = tuple[BatchHeader, Buffer]


class _NotQuick(Exception):
    """A chunk has records that must be decoded one by one."""


class BatchChunk(NamedTuple):
    """Batches to decode together, none a marker. `most_bytes`: of the unpacked records of one batch."""

    batches: Sequence[HeldBatch]
    topic_id: int
    partition: int
    most_bytes: int = 1 << 30


def columns(chunk: BatchChunk, low: int, high: int, *, wants_headers: bool) -> pa.RecordBatch:
    """Return the records of a chunk in a range of offsets. Raises InvalidBatch."""
    try:
        return _quickly(chunk, low, high, wants_headers)
    except _NotQuick:
        return _one_by_one(chunk, low, high)


def checked_columns(
    chunk: BatchChunk, low: int, high: int, where: str, *, wants_headers: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a chunk in a range of offsets, if there are any. Raises Damaged."""
    try:
        found = columns(chunk, low, high, wants_headers=wants_headers)
    except InvalidBatch as exc:
        raise Damaged(where, 0, chunk.batches[0][0].base_offset, exc.why) from exc
    if found.num_rows:
        yield found


def grouped_batches(batches: Iterable[HeldBatch]) -> Iterator[list[HeldBatch]]:
    """Yield batches in groups to decode together."""
    return grouped(batches, lambda each: (each[0].record_count, len(each[1])), _CHUNK_RECORDS, _CHUNK_BYTES)


def _quickly(chunk: BatchChunk, low: int, high: int, wants_headers: bool) -> pa.RecordBatch:
    pieces, starts, counts = _record_places(chunk)
    data = np.frombuffer(pieces, np.uint8)
    walk = _Walk(data, np.asarray(starts, np.int64))
    lengths = walk.number()
    ends = walk.at + lengths
    walk.at = walk.at + 1  # attributes, unused
    of = np.repeat(np.arange(len(counts)), counts)
    times, base_times, appended, bases = (
        np.asarray(each, np.int64)
        for each in zip(
            *((h.max_timestamp, h.base_timestamp, h.has_append_time, h.base_offset) for h, _ in chunk.batches),
            strict=True,
        )
    )
    stamps = np.where(appended[of] == 1, times[of], base_times[of] + walk.number())
    offsets = bases[of] + walk.number()
    keys = walk.span()
    values = walk.span()
    types, headers = _headers(walk, pieces) if wants_headers else (None, None)
    if wants_headers and not np.array_equal(walk.at, ends):
        raise InvalidBatch("a record is not as long as it says")
    if len(ends) and int(ends.max()) > len(data):
        raise InvalidBatch("a record ends behind its batch")
    count = len(offsets)
    first, last = np.searchsorted(offsets, (low, high))
    arrays = [
        pa.array(np.full(count, chunk.partition, np.int32)),
        pa.array(offsets),
        pa.nulls(count, pa.string()) if types is None else _taken(pieces, types).cast(pa.string()),
        pa.array(stamps),
        _taken(pieces, keys),
        _taken(pieces, values),
        pa.nulls(count, pa.binary()) if headers is None else headers,
    ]
    names = ("partition", "offset", "type", "timestamp_ms", "key", "value", "headers")
    return pa.RecordBatch.from_arrays(arrays, names=list(names)).slice(int(first), int(last - first))


def _record_places(chunk: BatchChunk) -> tuple[bytes, list[int], list[int]]:
    """Return the bytes of all records, the start of each record in them, and the count of each batch."""
    pieces = []
    for header, batch in chunk.batches:
        try:
            pieces.append(memoryview(unpacked(batch, header, chunk.most_bytes))[HEADER_BYTES:])
        except TooManyBytes as exc:
            raise InvalidBatch("its records have too many bytes") from exc
    records, starts, counts, base = b"".join(pieces), list[int](), list[int](), 0
    for (header, _), piece in zip(chunk.batches, pieces, strict=True):
        before, end = len(starts), base + len(piece)
        _walk_lengths(records, base, end, header.record_count, starts)
        counts.append(len(starts) - before)
        base = end
    return records, starts, counts


def _walk_lengths(records: bytes, at: int, end: int, count: int, starts: list[int]) -> None:
    """Add the start of each record of a batch: the only loop over records. Raises InvalidBatch."""
    first, add = at, starts.append
    try:
        for _ in range(count):
            add(at)
            byte = records[at]
            if byte < 0x80:
                at += 1 + (byte >> 1)
                continue
            second = records[at + 1]
            if second < 0x80:
                at += 2 + ((byte & 0x7F | second << 7) >> 1)
                continue
            length, place, shift = byte & 0x7F | (second & 0x7F) << 7, at + 2, 14
            while (byte := records[place]) >= 0x80:
                length, place, shift = length | (byte & 0x7F) << shift, place + 1, shift + 7
            at = place + 1 + ((length | byte << shift) >> 1)
    except IndexError:
        raise InvalidBatch("its records end early") from None
    if at != end:
        raise InvalidBatch(f"its records end at byte {at - first} of {end - first}")


class _Walk:
    """A position in every record at once, which advances as fields are read."""

    def __init__(self, data: Any, at: Numbers) -> None:
        self.data, self.at = data, at

    def number(self, where: Any = None) -> Numbers:
        """Read a zigzag varint in every record; with `where` only there, 0 elsewhere. Raises InvalidBatch."""
        short = self._short(where)
        if short is not None:
            return short
        value = np.zeros(len(self.at), np.int64)
        going = np.ones(len(self.at), bool) if where is None else where.copy()
        at, shift = self.at.copy(), 0
        while going.any():
            if shift > 63 or int(at[going].max()) >= len(self.data):
                raise InvalidBatch("a record has a number that does not end")
            bytes_ = self.data[np.minimum(at, len(self.data) - 1)].astype(np.int64)
            value = np.where(going, value | (bytes_ & 0x7F) << shift, value)
            at += going
            going &= bytes_ >= 0x80
            shift += 7
        self.at = at
        return (value.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(value & 1)

    def _short(self, where: Any) -> Numbers | None:
        """Read a varint that is one byte in every record, as most are; None if it is not."""
        if not len(self.at) or int(self.at.max()) >= len(self.data) or not (where is None or where.all()):
            return None
        bytes_ = self.data[self.at]
        if int(bytes_.max()) >= 0x80:
            return None
        self.at = self.at + 1
        value: Numbers = bytes_.astype(np.int64)
        return (value >> 1) ^ -(value & 1)

    def span(self, where: Any = None) -> tuple[Numbers, Numbers]:
        """Read a length and skip that many bytes: return their starts and lengths, -1 for none."""
        lengths = self.number(where)
        begins = self.at
        self.at = begins + np.maximum(lengths, 0)
        return begins, lengths


def _headers(walk: _Walk, pieces: bytes) -> tuple[tuple[Numbers, Numbers], pa.Array]:
    """Return the span of each record's type, and its other headers in Kafka's framing."""
    counts = walk.number()
    rounds = int(counts.max()) if len(counts) else 0
    if rounds > _MOST_HEADERS or (len(counts) and int(counts.min()) < 0):
        raise _NotQuick
    rests, rest_at = counts.copy(), walk.at.copy()
    type_at, type_length = np.zeros_like(counts), np.full_like(counts, -1)
    leading = np.ones(len(counts), bool)
    for turn in range(rounds):
        here = counts > turn
        names, values = walk.span(here), walk.span(here)
        said = _named(walk, pieces, here, names, values)
        if bool((said.ours & ~leading).any()) or said.odd:
            raise _NotQuick
        type_at = np.where(said.types, values[0], type_at)
        if bool((said.types & (type_length >= 0)).any()):
            raise _NotQuick
        type_length = np.where(said.types, values[1], type_length)
        leading &= said.ours | ~here
        rests -= said.ours
        rest_at = np.where(said.ours, walk.at, rest_at)
    return (type_at, type_length), _framed(pieces, rests, rest_at, walk.at)


class _Said(NamedTuple):
    ours: Any
    types: Any
    odd: bool


def _named(walk: _Walk, pieces: bytes, here: Any, names: Any, values: Any) -> _Said:
    """Find the records with one of our headers here; `odd`: one needs decoding record by record."""
    ours, types, odd = np.zeros(len(here), bool), np.zeros(len(here), bool), False
    fixed = {VERSION.encode(): b"1.0", SOURCE.encode(): OUR_SOURCE}
    for name, mine in _by_name(walk.data, pieces, here, names):
        if name not in _OURS:
            continue
        odd |= name == RAW.encode() or bool((values[1][mine] <= 0).any())
        if name in fixed and not _all_are(fixed[name], walk.data, values[0][mine], values[1][mine]):
            odd = True
        ours |= mine
        types |= mine & (name == TYPE.encode())
    return _Said(ours, types, odd)


def _by_name(data: Any, pieces: bytes, here: Any, names: Any) -> Iterator[tuple[bytes, Any]]:
    begin, length = int(names[0][0]), int(names[1][0])
    first = pieces[begin : begin + max(length, 0)]
    if here.all() and _all_are(first, data, *names):
        yield first, here
        return
    taken = _taken(pieces, (names[0], np.where(here, names[1], -1))).dictionary_encode()
    indices = taken.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for number, name in enumerate(taken.dictionary.to_pylist()):
        yield name, indices == number


def _all_are(wanted: bytes, data: Any, begins: Numbers, lengths: Numbers) -> bool:
    size = len(wanted)
    if not size or bool((lengths != size).any()) or int(begins.max()) + size > len(data):
        return False
    every = np.ndarray(len(data) - size + 1, f"V{size}", data, strides=(1,))  # bytes from every position
    return every[begins].tobytes() == wanted * len(begins)


def _framed(pieces: bytes, rests: Numbers, begins: Numbers, ends: Numbers) -> pa.Array:
    """Return the remaining headers, as a count and their bytes; null where there are none."""
    some = rests > 0
    if not some.any():
        return pa.nulls(len(rests), pa.binary())
    counts = pa.array([bytes([each << 1]) for each in range(_MOST_HEADERS + 1)], pa.binary()).take(pa.array(rests))
    return pc.binary_join_element_wise(counts, _taken(pieces, (begins, np.where(some, ends - begins, -1))), b"")


def _taken(pieces: bytes, span: tuple[Numbers, Numbers]) -> pa.Array:
    """Return pieces of bytes as an array; null where the length is negative."""
    begins, lengths = span
    count = len(begins)
    if not count:
        return pa.array([], pa.binary())
    total = int(np.maximum(lengths, 0).sum())
    if total <= _SHORT * count:
        return _gathered(pieces, begins, lengths, total)
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = np.where(lengths < 0, 0, begins)
    bounds[1::2] = np.where(lengths < 0, 0, begins + lengths)
    if int(bounds.max()) > len(pieces) or int(lengths.min()) < -1:
        raise InvalidBatch("a field ends behind its record")
    bounds = np.maximum.accumulate(bounds)  # an absent piece may point anywhere
    both = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(pieces)])
    places = np.arange(0, 2 * count, 2, dtype=np.int32)
    absent = lengths < 0
    return both.take(pa.array(places, mask=absent if absent.any() else None))


def _gathered(pieces: bytes, begins: Numbers, lengths: Numbers, total: int) -> pa.Array:
    """Return short pieces, byte by byte: Arrow would also allocate the bytes between them."""
    sizes = np.maximum(lengths, 0)
    if int((begins + sizes).max()) > len(pieces) or int(lengths.min()) < -1:
        raise InvalidBatch("a field ends behind its record")
    bounds = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    data = np.frombuffer(pieces, np.uint8)[np.repeat(begins - bounds[:-1], sizes) + np.arange(total)]
    absent = lengths < 0
    valid = pa.py_buffer(np.packbits(~absent, bitorder="little")) if absent.any() else None
    return pa.Array.from_buffers(pa.binary(), len(sizes), [valid, pa.py_buffer(bounds), pa.py_buffer(data)])


def _one_by_one(chunk: BatchChunk, low: int, high: int) -> pa.RecordBatch:
    found = [
        (chunk.partition, each.offset, each.type, each.timestamp_ms, each.key, each.value, each.headers)
        for _, batch in chunk.batches
        for each in entries_of(batch, chunk.topic_id, chunk.partition)
        if low <= each.offset < high
    ]
    lists: Iterator[Any] = iter(zip(*found, strict=True)) if found else iter([()] * 7)
    types = pa.int32(), pa.int64(), pa.string(), pa.int64(), pa.binary(), pa.binary(), pa.binary()
    names = ["partition", "offset", "type", "timestamp_ms", "key", "value", "headers"]
    arrays = [pa.array(values, type) for values, type in zip(lists, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=names)
