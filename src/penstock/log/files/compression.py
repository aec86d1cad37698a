"""Compression of cold segments, batch by batch under the same headers, unless that gains little."""

from itertools import pairwise

from penstock import points
from penstock.wire.kafka.records import GAIN, compressed

from .partition import PartitionLog
from .segment import Segment

CHOSEN = points.declare("compression.chosen", "A cold segment is chosen; nothing is written.")
_SAMPLE_BYTES = 1 << 20


def is_worth_it(segment: Segment) -> bool:
    """Return whether the first mebibyte of a segment would get smaller. Raises Damaged."""
    before = after = 0
    for _, header, batch in segment.batches():
        before += len(batch)
        after += len(compressed(header, batch))
        if before >= _SAMPLE_BYTES:
            break
    return after < before * GAIN


def cold_segments(partition: PartitionLog, before_ms: int) -> list[Segment]:
    """Return the segments that were closed before a time, oldest first."""
    segments = partition.segments
    return [segment for segment, following in pairwise(segments) if 0 < following.header.created_ms < before_ms]
