"""The records in a batch, by aiokafka's compiled codec, and their decompression up to a limit.

Only for Python readers and writers of records: batches that pass through are never decoded. A few bytes may
expand to very many, so decompression has a limit:

| codec  | bytes                                                                              |
|--------|------------------------------------------------------------------------------------|
| gzip   | one stream                                                                         |
| snappy | one raw block; or xerial's framing: 16 bytes of head, then blocks, each with an INT32 length |
| lz4    | one frame                                                                          |
| zstd   | one frame                                                                          |
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.errors import InvalidBatch, MissingExtra

from . import Buffer
from .record_batch import (
    CODEC_BITS,
    CRC_START,
    HEADER_BYTES,
    MAGIC,
    NO_PRODUCER,
    NO_SEQUENCE,
    BatchHeader,
    Compression,
    read_header,
    sealed,
)

try:
    import cramjam
    from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
    from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
except ModuleNotFoundError as exc:  # pragma: no cover - as in record_batch
    raise MissingExtra("a log in files, or a Kafka port,", "kafka") from exc

KafkaHeaders = Sequence[tuple[str, bytes | None]]

_NO_LIMIT = (1 << 31) - 1
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_BYTES = 16
_GROWTH = 8  # first guess: a batch expands to this many times its size
_LEAST = 64 * 1024
GAIN = 0.9  # a compressed batch must be below this share of its size
_LEAST_PACKED_BYTES = 512  # least size of a batch's records: a frame has its own header
_ZSTD_LEVEL = 3
_FORMATS = {Compression.GZIP: "gzip", Compression.LZ4: "lz4", Compression.ZSTD: "zstd"}
assert CRC_START < HEADER_BYTES  # the checksum covers the attributes, so an unpacked batch has another one


class KafkaRecord(NamedTuple):
    """One record of a batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: KafkaHeaders


def encode_records(
    records: Iterable[KafkaRecord],
    base_offset: int = 0,
    *,
    codec: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """Return records from an offset on as one batch, which begins at offset 0 until a log places it."""
    builder = DefaultRecordBatchBuilder(
        MAGIC, int(codec), int(transactional), producer_id, producer_epoch, base_sequence, _NO_LIMIT
    )
    for offset, timestamp_ms, key, value, headers in records:
        builder.append(offset - base_offset, timestamp_ms, key, value, headers)
    return bytearray(builder.build())


def decode_records(batch: Buffer) -> Iterator[KafkaRecord]:
    """Yield a checked batch's records; its buffer must stay. Raises InvalidBatch if they contradict the header."""
    try:
        for each in DefaultRecordBatch(batch):
            yield KafkaRecord(each.offset, each.timestamp, each.key, each.value, each.headers)
    except (CorruptRecordException, UnsupportedCodecError, ValueError, OverflowError) as exc:
        raise InvalidBatch(f"its records cannot be decoded: {exc}") from exc


def resealed(header: BatchHeader, batch: Buffer) -> bytearray:
    """Return one batch's records, compression and base time under the header of another, which keeps the rest."""
    new = read_header(batch)
    changed = header._replace(
        attributes=header.attributes & ~CODEC_BITS | new.attributes & CODEC_BITS,
        record_count=new.record_count,
        base_timestamp=new.base_timestamp,
    )
    return sealed(changed, record_bytes(batch))


def emptied(header: BatchHeader, next_offset: int | None = None) -> bytearray:
    """Return an empty batch in place of a batch, or of its part before an offset; offsets and producer stay."""
    delta = header.last_offset_delta if next_offset is None else next_offset - 1 - header.base_offset
    attributes = header.attributes & ~CODEC_BITS
    return sealed(header._replace(attributes=attributes, record_count=0, last_offset_delta=delta), b"")


def record_bytes(batch: Buffer) -> memoryview:
    """Return the bytes of a batch's records, still compressed if they are."""
    return memoryview(batch)[HEADER_BYTES:]


class TooManyBytes(Exception):
    """The decompressed records exceed the limit."""


def unpacked(batch: Buffer, header: BatchHeader, limit: int) -> Buffer:
    """Return a batch with its records uncompressed. Raises InvalidBatch, and TooManyBytes above the limit."""
    if header.codec == Compression.NONE:
        return batch
    packed = record_bytes(batch)
    try:
        codec = Compression(header.codec)
        records = _snappy(packed, limit) if codec is Compression.SNAPPY else _framed(_FORMATS[codec], packed, limit)
    except (cramjam.DecompressionError, ValueError, struct.error, OverflowError) as exc:
        raise InvalidBatch(f"its records cannot be decompressed: {exc}") from exc
    return sealed(header._replace(attributes=header.attributes & ~CODEC_BITS), records)


def compressed(header: BatchHeader, batch: memoryview) -> Buffer:
    """Return a batch with its encoded records as one zstd frame, as Kafka has it; unchanged if that gains little."""
    records = record_bytes(batch)
    if header.codec != Compression.NONE or header.is_control or len(records) < _LEAST_PACKED_BYTES:
        return batch
    packed = bytes(cramjam.zstd.compress(records, _ZSTD_LEVEL))
    if len(packed) >= len(records) * GAIN:
        return batch
    assert bytes(cramjam.zstd.decompress(packed)) == records, "decompression must undo compression"
    return sealed(header._replace(attributes=header.attributes | Compression.ZSTD), packed)


def _framed(name: str, packed: memoryview, limit: int) -> memoryview:
    """Decompress into a buffer of bounded size, retrying with a larger one if it is too small."""
    module = getattr(cramjam, name)
    size = min(max(len(packed) * _GROWTH, _LEAST), limit)
    while True:
        out = bytearray(size)
        try:
            return memoryview(out)[: module.decompress_into(packed, out)]
        except cramjam.DecompressionError as exc:
            if "whole buffer" not in str(exc):
                raise
            if size >= limit:
                raise TooManyBytes from exc
            size = min(size * 4, limit)


def _snappy(packed: memoryview, limit: int) -> bytes | bytearray:
    if bytes(packed[: len(_XERIAL)]) != _XERIAL:
        return _block(packed, limit)
    out, at = bytearray(), _XERIAL_BYTES
    while at < len(packed):
        (length,) = struct.unpack_from(">i", packed, at)
        at += 4
        if length < 0 or at + length > len(packed):
            raise ValueError(f"a block of {length} bytes")
        out += _block(packed[at : at + length], limit - len(out))
        at += length
    return out


def _block(packed: memoryview, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(packed) > limit:
        raise TooManyBytes
    return bytes(cramjam.snappy.decompress_raw(packed))
