"""Compresses cold segments: the records of each batch as one zstd frame, under the same header.

Records are not decoded: Kafka compresses their encoded bytes. A batch that is compressed already, is a
marker, or would not get smaller is kept unchanged; a segment with little gain is left alone.
"""

import logging
from collections.abc import Iterator
from itertools import pairwise

from penstock import points
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.record_batch import BatchHeader, Compression, sealed
from penstock.wire.kafka.records import record_bytes

from .partition import PartitionLog
from .segment import Segment

try:
    import cramjam
except ModuleNotFoundError as exc:  # pragma: no cover - as in record_batch
    from penstock.errors import MissingExtra

    raise MissingExtra("a log in files", "kafka") from exc

logger = logging.getLogger("penstock.files")

CHOSEN = points.declare("compression.chosen", "A cold segment is chosen; nothing is written.")

_SAMPLE_BYTES = 1 << 20
_GAIN = 0.9  # the result must be below this share
_LEAST_BYTES = 512  # least size of a batch's records: a frame has its own header
_LEVEL = 3


def compressed(header: BatchHeader, batch: memoryview) -> Buffer:
    """Return a batch with its records compressed; unchanged if that gains nothing."""
    records = record_bytes(batch)
    if header.codec != Compression.NONE or header.is_control or len(records) < _LEAST_BYTES:
        return batch
    packed = bytes(cramjam.zstd.compress(records, _LEVEL))
    if len(packed) >= len(records) * _GAIN:
        return batch
    assert bytes(cramjam.zstd.decompress(packed)) == records, "decompression must undo compression"
    return sealed(header._replace(attributes=header.attributes | Compression.ZSTD), packed)


def is_worth_it(segment: Segment) -> bool:
    """Return whether the first mebibyte of a segment would get smaller. Raises Damaged."""
    before = after = 0
    for _, header, batch in segment.batches():
        before += len(batch)
        after += len(compressed(header, batch))
        if before >= _SAMPLE_BYTES:
            break
    return after < before * _GAIN


def compressed_batches(segment: Segment) -> Iterator[Buffer]:
    """Yield the batches of a segment, compressed. Raises Damaged."""
    for _, header, batch in segment.batches():
        yield compressed(header, batch)


def cold_segments(partition: PartitionLog, before_ms: int) -> list[Segment]:
    """Return the segments that were closed before a time, oldest first."""
    segments = partition.segments
    return [segment for segment, following in pairwise(segments) if 0 < following.header.created_ms < before_ms]
