"""Key compaction: keeps the last record of each key and removes the earlier ones; offsets do not change.

A pass over one partition covers closed segments before the last stable offset, and before the caller's limit. First it
reads those since the last pass and notes each key's last offset; then it rewrites every segment up to there, oldest
first, without the records that a later one replaces. Then it records its progress (`compacted`, beside the segments).

It keeps the last record of each key; records without a key; markers; the header of each producer's last
batch, perhaps without records, so that its sequence is known. Empty batches cover the offsets of removed
records. A tombstone (a record without a value) is kept for the time that the topic sets, counted from the
closing of its segment, by the writer's clock and not by the producer's time.

Crash: a segment is either the old one or the new one. The oldest is rewritten first, so a tombstone never
goes before the records that it deletes. An interrupted pass is done again.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from penstock import points
from penstock.errors import InvalidBatch
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.record_batch import NO_PRODUCER, NO_SEQUENCE, BatchHeader, Compression
from penstock.wire.kafka.records import KafkaRecord, decode_records, emptied, encode_records, resealed

from .disk import read_whole, write_whole
from .partition import PartitionLog
from .segment import Segment
from .small_files import decode_checked, encode_checked

logger = logging.getLogger("penstock.files")

MAPPED = points.declare("compaction.mapped", "The last offset of each key is known; nothing is rewritten.")
SEGMENT_DONE = points.declare("compaction.segment", "One segment of a compaction is in place.")
REWRITTEN = points.declare("compaction.rewritten", "All segments are compacted; the progress is not noted.")
NOTED = points.declare("compaction.noted", "A compaction is done, and its progress is noted.")

NAME = "compacted"
_DIRTY_PART = 0.5  # share of new bytes from which a pass is due
_MOST_OFFSETS = 1 << 30  # that one empty batch covers
_KEY_BYTES = 100  # rough size of a map entry beside its key


class Compacted(msgspec.Struct, frozen=True):
    """How far a partition was compacted, and when the oldest kept tombstone is due."""

    offset: int = 0
    tombstones_due_ms: int = -1


class CompactionPlan(NamedTuple):
    """The plan of one pass: `lasts` are the last offsets of keys before `until`."""

    until: int
    lasts: Mapping[bytes, int]


def read_compacted(partition: PartitionLog) -> Compacted:
    """Return how far a partition was compacted; from the start if the file is missing or damaged."""
    content = read_whole(partition.files.disk, partition.folder.path / NAME)
    try:
        line = decode_checked(content or b"")
        return Compacted() if line is None else msgspec.json.decode(line, type=Compacted)
    except msgspec.MsgspecError:
        return Compacted()


def write_compacted(partition: PartitionLog, done: Compacted) -> None:
    """Record how far a partition was compacted."""
    path = partition.folder.path / NAME
    write_whole(partition.files.disk, path, encode_checked(msgspec.json.encode(done)))


def closed_segments(partition: PartitionLog, below: int) -> list[Segment]:
    """Return the closed segments that end before an offset, and before the last stable one."""
    below = min(below, partition.stable)
    return [each for each in partition.segments[:-1] if each.end_offset <= below]


def is_due(partition: PartitionLog, below: int, now_ms: int) -> bool:
    """Return whether there is enough new data since the last pass, or tombstones are due."""
    closed, done = closed_segments(partition, below), read_compacted(partition)
    dirty = sum(each.end_position for each in closed if each.end_offset > done.offset)
    if dirty and dirty >= _DIRTY_PART * sum(each.end_position for each in closed):
        return True
    return bool(closed) and 0 <= done.tombstones_due_ms <= now_ms


def planned(partition: PartitionLog, below: int, map_bytes: int) -> CompactionPlan:
    """Read the data since the last pass, up to the size limit of the key map. Raises Damaged."""
    done, lasts, size = read_compacted(partition), dict[bytes, int](), 0
    until = done.offset
    producers = partition.producers
    for segment in closed_segments(partition, below):
        if segment.end_offset <= done.offset:
            continue
        if lasts and size >= map_bytes:
            break
        for _, header, batch in segment.batches():
            if header.is_control or producers.is_aborted(header) or producers.undecided_of(header):
                continue
            for record in _decoded(batch) or ():
                if record.key is not None and record.offset >= done.offset:
                    if record.key not in lasts:
                        size += len(record.key) + _KEY_BYTES
                    lasts[record.key] = record.offset
        until = segment.end_offset
    points.reach(MAPPED)
    return CompactionPlan(until, lasts)


class SegmentCompaction:
    """The new content of one segment. `removed` and `tombstones` count records that `batches` left out and kept."""

    def __init__(
        self, partition: PartitionLog, segment: Segment, plan: CompactionPlan, *, drop_tombstones: bool
    ) -> None:
        self._segment, self._plan, self._drop_tombstones = segment, plan, drop_tombstones
        self._producers = partition.producers
        states = list(self._producers.states.values())
        self._last_batches = {each.batches[-1].base_offset for each in states if each.batches}
        self.removed = self.tombstones = 0

    def changes(self) -> bool:
        """Return whether any record is removed; this resets `removed` and `tombstones`. Raises Damaged."""
        for _, header, batch in self._segment.batches():
            if header.record_count and self._kept(header, batch) is not batch:
                self.removed = self.tombstones = 0
                return True
        return False

    def batches(self) -> Iterator[Buffer]:
        """Yield the batches of the new segment, over the same offsets. Raises Damaged."""
        hole: BatchHeader | None = None
        for _, header, batch in self._segment.batches():
            kept = self._kept(header, batch)
            if kept is None and hole is None:
                hole = header
            elif kept is None and hole is not None and header.last_offset - hole.base_offset < _MOST_OFFSETS:
                hole = _joined(hole, header)
            else:
                if hole is not None:
                    yield _covering(hole)
                hole = header if kept is None else None
                if kept is not None:
                    yield kept
        if hole is not None:
            yield _covering(hole)

    def _kept(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        if header.is_control:
            return batch
        if not header.record_count:  # from an earlier pass: it covers a hole, or was a producer's last
            return batch if header.base_offset in self._last_batches else None
        records = [] if self._producers.is_aborted(header) else _decoded(batch)
        if records is None:
            return batch
        kept = [each for each in records if self._stays(each)]
        self.removed += header.record_count - len(kept)
        if len(kept) == header.record_count:
            return batch
        if not kept:
            return emptied(header) if header.base_offset in self._last_batches else None
        return resealed(header, encode_records(kept, header.base_offset, codec=Compression(header.codec)))

    def _stays(self, record: KafkaRecord) -> bool:
        if record.key is None:
            return True
        if record.offset < self._plan.lasts.get(record.key, -1):
            return False
        if record.value is not None:
            return True
        self.tombstones += not self._drop_tombstones
        return not self._drop_tombstones


def _decoded(batch: Buffer) -> list[KafkaRecord] | None:
    """Return the records of a batch; None where they cannot be decoded: such a batch is kept unchanged."""
    try:
        return list(decode_records(batch))
    except InvalidBatch:
        return None


def _joined(hole: BatchHeader, following: BatchHeader) -> BatchHeader:
    return hole._replace(
        last_offset_delta=following.last_offset - hole.base_offset,
        max_timestamp=max(hole.max_timestamp, following.max_timestamp),
    )


def _covering(hole: BatchHeader) -> Buffer:
    """Return an empty batch without a producer over the offsets of a hole."""
    covering = hole._replace(attributes=0, producer_id=NO_PRODUCER, producer_epoch=-1, base_sequence=NO_SEQUENCE)
    return emptied(covering)
