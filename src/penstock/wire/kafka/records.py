"""The records in a batch, by aiokafka's compiled codec.

Only for Python readers and writers of records: batches that pass through are never decoded.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.errors import InvalidBatch, MissingExtra

from .buffer import Buffer
from .record_batch import (
    CODEC_BITS,
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
    from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
    from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
except ModuleNotFoundError as exc:  # pragma: no cover - as in record_batch
    raise MissingExtra("a log in files, or a Kafka port,", "kafka") from exc

KafkaHeaders = Sequence[tuple[str, bytes | None]]

_NO_LIMIT = (1 << 31) - 1


class KafkaRecord(NamedTuple):
    """One record of a batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: KafkaHeaders


class NewRecord(NamedTuple):
    """One record for a new batch; `delta` is its offset relative to the first one of the batch."""

    delta: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: KafkaHeaders


def encode_records(
    records: Iterable[NewRecord],
    *,
    codec: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """Return records as one batch, which begins at offset 0 until a log places it."""
    builder = DefaultRecordBatchBuilder(
        MAGIC, int(codec), int(transactional), producer_id, producer_epoch, base_sequence, _NO_LIMIT
    )
    for delta, timestamp_ms, key, value, headers in records:
        builder.append(delta, timestamp_ms, key, value, headers)
    return bytearray(builder.build())


def decode_records(batch: Buffer) -> Iterator[KafkaRecord]:
    """Yield the records of one complete, checked batch; its buffer must not change meanwhile.

    Raises InvalidBatch when they contradict the header: a producer may send anything with a correct checksum.
    """
    try:
        for each in DefaultRecordBatch(batch):
            yield KafkaRecord(each.offset, each.timestamp, each.key, each.value, each.headers)
    except (CorruptRecordException, UnsupportedCodecError, ValueError, OverflowError) as exc:
        raise InvalidBatch(f"its records cannot be decoded: {exc}") from exc


def resealed(header: BatchHeader, batch: Buffer) -> bytearray:
    """Return the records of one batch under the header of another, for rewriting a batch.

    Offsets, producer and the other attributes stay; length, checksum, count, compression and the first
    record's time, the base of the other times, are the new ones.
    """
    new = read_header(batch)
    changed = header._replace(
        attributes=header.attributes & ~CODEC_BITS | new.attributes & CODEC_BITS,
        record_count=new.record_count,
        base_timestamp=new.base_timestamp,
    )
    return sealed(changed, record_bytes(batch))


def emptied(header: BatchHeader, next_offset: int | None = None) -> bytearray:
    """Return a batch without records that replaces a batch, or its part before an offset.

    It keeps the offsets and the producer's fields.
    """
    delta = header.last_offset_delta if next_offset is None else next_offset - 1 - header.base_offset
    attributes = header.attributes & ~CODEC_BITS
    return sealed(header._replace(attributes=attributes, record_count=0, last_offset_delta=delta), b"")


def record_bytes(batch: Buffer) -> memoryview:
    """Return the bytes of a batch's records, still compressed if they are."""
    return memoryview(batch)[HEADER_BYTES:]
