"""Kafka's record batch, version 2: its header and checks, the few fields that a log overwrites, and its markers.

| bytes | field             | meaning                                                                     |
|-------|-------------------|-----------------------------------------------------------------------------|
| 0-7   | base_offset       | offset of the first record; set by the log                                  |
| 8-11  | length            | bytes that follow this field                                                |
| 12-15 | leader_epoch      | set by the log                                                              |
| 16    | magic             | 2                                                                           |
| 17-20 | crc               | CRC32C of bytes 21 to the end                                               |
| 21-22 | attributes        | bits 0-2 compression, 3 append time, 4 transactional, 5 control             |
| 23-26 | last_offset_delta | offset of the last record, counted from the first                           |
| 27-34 | base_timestamp    | of the first record, milliseconds since 1970                                |
| 35-42 | max_timestamp     | the latest of its records                                                   |
| 43-50 | producer_id       | -1: the producer is not idempotent                                          |
| 51-52 | producer_epoch    |                                                                             |
| 53-56 | base_sequence     | the producer's number of the first record                                   |
| 57-60 | record_count      | number of records; fewer than the offsets if some were compacted away       |
| 61-   | records           | one after another, compressed together according to the attributes          |

A control batch is a marker that ends a transaction in a log; readers do not see it. It has one record:

| bytes | key field | meaning           | | bytes | value field       | meaning                       |
|-------|-----------|-------------------|-|-------|-------------------|-------------------------------|
| 0-1   | version   | 0                 | | 0-1   | version           | 0                             |
| 2-3   | type      | 0 abort, 1 commit | | 2-5   | coordinator_epoch | epoch of its coordinator      |

All integers are big-endian. Base offset and leader epoch come before the bytes that the CRC covers, so a log
places a batch without changing anything else. Codec without I/O; nothing here copies a batch.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from penstock.errors import InvalidBatch, InvalidTime, MissingExtra
from penstock.model.limits import LAST_TIME_MS

from . import Buffer

try:
    from fastcrc.crc32 import iscsi
except ModuleNotFoundError as exc:  # pragma: no cover - asked in tests/unit with the module hidden
    raise MissingExtra("a log in files, or a Kafka port,", "kafka") from exc


crc32c = iscsi  # the checksum of batches, and of our own files
MAGIC = 2
HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
LENGTH_END = 12  # start of the bytes that `length` counts
CRC_START = 21  # start of the bytes that the CRC covers
NO_PRODUCER = -1
NO_SEQUENCE = -1
UNKNOWN_CRC = -1  # for a batch that was rewritten since it was sent; no checksum is negative
LAST_SEQUENCE = (1 << 31) - 1  # the next is 0
CODEC_BITS = 0x07  # of the attributes
NO_TIME_MS = -1

_PLACE = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
# Its record: length, attributes, time delta, offset delta, key length, key, value length, value, no headers.
_MARKER = struct.Struct(f"bbbbb{_MARKER_KEY.size}sb{_MARKER_VALUE.size}sb")
_PLACE_AT, _EPOCH_AT, _CRC_AT = 0, 12, 17
_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x08, 0x10, 0x20


class Compression(IntEnum):
    """The compression of a batch's records."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch, field by field."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LENGTH_END + self.length

    @property
    def last_offset(self) -> int:
        """The offset of the last record, even if that was compacted away."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The producer's number of the last record."""
        return next_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        """The compression of the records; in a checked batch a `Compression`."""
        return self.attributes & CODEC_BITS

    @property
    def has_append_time(self) -> bool:
        """Whether all records have the time of their append, the batch's latest time."""
        return bool(self.attributes & _APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the records count only once a marker commits them."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether it is a marker, which readers do not see."""
        return bool(self.attributes & _CONTROL)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch at a position, unchecked. Raises InvalidBatch if it is truncated."""
    try:
        return BatchHeader._make(HEADER.unpack_from(buffer, position))
    except struct.error as exc:
        raise InvalidBatch(f"{len(buffer) - position} bytes are too few for a header of {HEADER_BYTES}") from exc


def check_batch(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch at a position after checking the whole batch. Raises InvalidBatch."""
    header = read_header(buffer, position)
    if header.magic != MAGIC:
        raise InvalidBatch(f"its format is {header.magic}, and only {MAGIC} is supported")
    end = position + header.size
    if header.size < HEADER_BYTES or end > len(buffer):
        raise InvalidBatch(f"its length is {header.length}, with {len(buffer) - position - LENGTH_END} bytes left")
    found = crc32c(memoryview(buffer)[position + CRC_START : end])
    if found != header.crc:
        why = f"its checksum is {header.crc:#010x}, its bytes have {found:#010x}"
        raise InvalidBatch(why, is_damaged=True)
    return header


def check_produced(header: BatchHeader) -> None:
    """Check the header of a complete batch from a producer. Raises InvalidBatch, InvalidTime."""
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        count, last = header.record_count, header.last_offset_delta
        raise InvalidBatch(f"it has {count} records, and the last is number {last}")
    if header.attributes and header.codec > Compression.ZSTD:
        raise InvalidBatch(f"its compression is {header.codec}, which is none of {[*map(int, Compression)]}")
    if header.attributes and header.is_control:
        raise InvalidBatch("it is a control batch, which only the log may write")
    if header.attributes and header.has_append_time:
        raise InvalidBatch("its times are marked as append times, which only the log may set")
    if header.attributes and header.is_transactional and header.producer_id == NO_PRODUCER:
        raise InvalidBatch("it is transactional but has no producer id")
    if header.producer_id != NO_PRODUCER and (header.producer_epoch < 0 or header.base_sequence < 0):
        of = header.producer_id, header.producer_epoch, header.base_sequence
        raise InvalidBatch(f"producer, epoch and sequence are {of}")
    first_ms, last_ms = header.base_timestamp, header.max_timestamp
    if NO_TIME_MS <= first_ms <= LAST_TIME_MS and NO_TIME_MS <= last_ms <= LAST_TIME_MS:
        return
    for time_ms in (first_ms, last_ms):
        if not NO_TIME_MS <= time_ms <= LAST_TIME_MS:
            raise InvalidTime("timestamp", time_ms, "must be milliseconds between the years 1970 and 9999")


def batches_in(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch, in order and checked. Raises InvalidBatch."""
    position, end, view = 0, len(buffer), memoryview(buffer)
    while position < end:
        if position + HEADER_BYTES <= end:  # `check_batch` without a call: this runs for every produced batch
            header = BatchHeader._make(HEADER.unpack_from(view, position))
            following = position + LENGTH_END + header.length
            if (
                header.magic == MAGIC
                and position + HEADER_BYTES <= following <= end
                and crc32c(view[position + CRC_START : following]) == header.crc
            ):
                yield position, header
                position = following
                continue
        check_batch(buffer, position)  # raises the error
        return


def headers_in(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield positions and headers like `batches_in`, by lengths alone, for bytes that were checked before."""
    position, end = 0, len(buffer)
    while position + HEADER_BYTES <= end:
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
        if header.size < HEADER_BYTES or position + header.size > end:
            return
        yield position, header
        position += header.size


def place_batch(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write its place in the log into a batch; the checksum stays valid."""
    _PLACE.pack_into(buffer, position + _PLACE_AT, base_offset)
    _EPOCH.pack_into(buffer, position + _EPOCH_AT, leader_epoch)


def stamp_batch(buffer: bytearray | memoryview, position: int, header: BatchHeader, time_ms: int) -> BatchHeader:
    """Set the append time of all records of a batch, in place; return its new header."""
    stamped = header._replace(attributes=header.attributes | _APPEND_TIME, max_timestamp=time_ms)
    HEADER.pack_into(buffer, position, *stamped)
    crc = crc32c(memoryview(buffer)[position + CRC_START : position + header.size])
    _CRC.pack_into(buffer, position + _CRC_AT, crc)
    return stamped._replace(crc=crc)


def sealed(header: BatchHeader, records: Buffer) -> bytearray:
    """Return a batch of this header and these records' bytes, with length and checksum updated."""
    buffer = bytearray(HEADER_BYTES + len(records))
    length = len(buffer) - LENGTH_END
    HEADER.pack_into(buffer, 0, *header._replace(length=length, magic=MAGIC, crc=0))
    buffer[HEADER_BYTES:] = records
    _CRC.pack_into(buffer, _CRC_AT, crc32c(memoryview(buffer)[CRC_START:]))
    return buffer


def next_sequence(sequence: int, count: int) -> int:
    """Return a producer's sequence number advanced by `count`, wrapping to 0."""
    return (sequence + count) % (LAST_SEQUENCE + 1)


class Marker(IntEnum):
    """The outcome of a transaction."""

    ABORT = 0
    COMMIT = 1


def encode_marker(
    marker: Marker, *, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
) -> bytearray:
    """Return the batch that ends a producer's transaction; the log places it."""
    key, value = _MARKER_KEY.pack(0, marker), _MARKER_VALUE.pack(0, coordinator_epoch)
    # As varints, which are zigzag, lengths are doubled.
    record = _MARKER.pack(2 * (_MARKER.size - 1), 0, 0, 0, 2 * len(key), key, 2 * len(value), value, 0)
    first = 0, 0, -1, MAGIC, 0, _TRANSACTIONAL | _CONTROL, 0  # `sealed` sets length and checksum
    producer = producer_id, producer_epoch, NO_SEQUENCE
    return sealed(BatchHeader(*first, timestamp_ms, timestamp_ms, *producer, record_count=1), record)


def decode_marker(batch: Buffer) -> Marker:
    """Return the marker in a control batch. Raises InvalidBatch if it is not a marker."""
    try:
        (*_, key_length, key, _, _, _) = _MARKER.unpack_from(batch, HEADER_BYTES)
        version, kind = _MARKER_KEY.unpack(key)
        if key_length != 2 * _MARKER_KEY.size or version < 0:
            raise ValueError(f"version {version}, {key_length}")
        return Marker(kind)
    except (struct.error, ValueError) as exc:
        raise InvalidBatch(f"it is a control batch but not a transaction marker ({exc})") from exc
