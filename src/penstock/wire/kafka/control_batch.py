"""Control batches: the markers that end a transaction in a log. One record each, hidden from readers.

| bytes | key field | meaning           | | bytes | value field       | meaning                       |
|-------|-----------|-------------------|-|-------|-------------------|-------------------------------|
| 0-1   | version   | 0                 | | 0-1   | version           | 0                             |
| 2-3   | type      | 0 abort, 1 commit | | 2-5   | coordinator_epoch | epoch of its coordinator      |
"""

import struct
from enum import IntEnum

from penstock.errors import InvalidBatch

from .buffer import Buffer
from .record_batch import HEADER_BYTES, NO_SEQUENCE, BatchHeader, sealed

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ATTRIBUTES = 0x30  # transactional, control
# Its record: length, attributes, time delta, offset delta, key length, key, value length, value, no headers.
_RECORD = struct.Struct(f"bbbbb{_KEY.size}sb{_VALUE.size}sb")


class Marker(IntEnum):
    """The outcome of a transaction."""

    ABORT = 0
    COMMIT = 1


def encode_marker(
    marker: Marker, *, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
) -> bytearray:
    """Return the batch that ends a producer's transaction; the log places it."""
    key, value = _KEY.pack(0, marker), _VALUE.pack(0, coordinator_epoch)
    lengths = _zigzag(_RECORD.size - 1), _zigzag(_KEY.size), _zigzag(_VALUE.size)
    record = _RECORD.pack(lengths[0], 0, 0, 0, lengths[1], key, lengths[2], value, 0)
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=_ATTRIBUTES,
        last_offset_delta=0,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        record_count=1,
    )
    return sealed(header, record)


def decode_marker(batch: Buffer) -> Marker:
    """Return the marker in a control batch. Raises InvalidBatch if it is not a marker."""
    try:
        (*_, key_length, key, _, _, _) = _RECORD.unpack_from(batch, HEADER_BYTES)
        version, kind = _KEY.unpack(key)
        if key_length != _zigzag(_KEY.size) or version < 0:
            raise ValueError(f"version {version}, {key_length}")
        return Marker(kind)
    except (struct.error, ValueError) as exc:
        raise InvalidBatch(f"it is a control batch but not a transaction marker ({exc})") from exc


def _zigzag(number: int) -> int:
    return number << 1
