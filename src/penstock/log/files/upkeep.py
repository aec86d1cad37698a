"""Upkeep: compacts and compresses closed segments in the background, a bounded amount in each pass.

It runs in a thread of the writing process; the slow part runs beside the writer, the swap between two of its
rounds. A segment that was rewritten or removed meanwhile (erased, trimmed) is left to the next pass. A
failure (damage, a full disk) is logged, leaves the segment unchanged, and does not stop the others.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from penstock import points
from penstock.errors import Damaged
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.records import compressed

from ..contract import Compaction, OffsetRange
from . import compaction
from .compression import CHOSEN, cold_segments, is_worth_it
from .disk import write_whole
from .partition import PartitionLog
from .rewriting import swap, write_beside
from .segment import Segment
from .settings import FilesSettings
from .writer import LogWriter

logger = logging.getLogger("penstock.files")

Leaving = Callable[[Sequence[OffsetRange]], None]


class Upkeep:
    """The upkeep of one log. For one thread at a time."""

    def __init__(self, settings: FilesSettings) -> None:
        self._settings = settings
        self._left_alone: set[tuple[str, int]] = set()  # segments that compression does not make smaller
        self._room = 0

    def run(
        self,
        writer: LogWriter,
        partitions: Mapping[int, PartitionLog],
        policy: Compaction | None,
        below: Mapping[int, int],
        leaving: Leaving,
        now_ms: int,
    ) -> bool:
        """Do one pass over the partitions of a topic; return whether it stopped before all was done."""
        self._room = self._settings.upkeep_bytes
        for number, partition in sorted(partitions.items()):
            if self._room <= 0:
                return True
            try:
                if policy is not None:
                    self._compact(writer, partition, policy, below.get(number, 0), leaving, now_ms)
                if self._settings.compress_seconds > 0:
                    self._compress(writer, partition, now_ms)
            except (Damaged, OSError) as exc:
                logger.warning("upkeep of partition %s in %s: %s", number, partition.folder.path.parent, exc)
        return self._room <= 0

    # -- compaction

    def _compact(
        self, writer: LogWriter, partition: PartitionLog, policy: Compaction, below: int, leaving: Leaving, now_ms: int
    ) -> None:
        if not compaction.is_due(partition, below, now_ms):
            return
        plan = compaction.planned(partition, below, self._settings.compact_map_bytes)
        leaving([OffsetRange(partition.folder.partition, partition.start, plan.until)])
        due_ms, removed = -1, 0
        for segment in compaction.closed_segments(partition, plan.until):
            keep_until_ms = _closed_ms(partition, segment, now_ms) + policy.tombstone_ms
            work = compaction.SegmentCompaction(partition, segment, plan, drop_tombstones=keep_until_ms <= now_ms)
            self._room -= segment.end_position
            if work.changes():
                if not self._rewrite(writer, partition, segment, work.batches()):
                    return  # it no longer exists; the next pass starts over
                points.reach(compaction.SEGMENT_DONE)
            removed += work.removed
            if work.tombstones:
                due_ms = keep_until_ms if due_ms < 0 else min(due_ms, keep_until_ms)
        points.reach(compaction.REWRITTEN)
        compaction.write_compacted(partition, compaction.Compacted(plan.until, due_ms))
        points.reach(compaction.NOTED)
        if removed:
            logger.info("%s: removed %s replaced records", partition.folder.path, removed)

    # -- compression

    def _compress(self, writer: LogWriter, partition: PartitionLog, now_ms: int) -> None:
        before_ms = now_ms - round(self._settings.compress_seconds * 1000)
        for segment in cold_segments(partition, before_ms):
            known = str(segment.path), segment.header.generation
            if known in self._left_alone:
                continue
            if self._room <= 0:
                return
            if is_worth_it(segment):
                points.reach(CHOSEN)
                self._room -= segment.end_position
                batches = (compressed(header, batch) for _, header, batch in segment.batches())
                if not self._rewrite(writer, partition, segment, batches):
                    continue
                known = str(segment.path), segment.header.generation + 1
            self._left_alone.add(known)

    # -- both

    def _rewrite(self, writer: LogWriter, partition: PartitionLog, old: Segment, batches: Iterable[Buffer]) -> bool:
        new = write_beside(partition, old, batches)
        if not writer.call(partial(_swap_if_there, partition, old, new)):
            return False
        try:  # a failure does no harm
            write_whole(partition.files.disk, new.index_path, new.index.encode(new.end))
        except OSError as exc:
            logger.debug("%s was not kept: %s", new.index_path, exc)
        return True


def _swap_if_there(partition: PartitionLog, old: Segment, new: Segment) -> bool:
    if old in partition.segments:
        swap(partition, old, new)
        return True
    partition.files.forget(new.path)
    partition.files.disk.remove(new.path)
    return False


def _closed_ms(partition: PartitionLog, segment: Segment, now_ms: int) -> int:
    """Return the closing time of a segment: the creation time of the next; now if unknown."""
    segments = partition.segments
    following = next((each for each in segments if each.base_offset >= segment.end_offset), None)
    known = 0 if following is None else following.header.created_ms
    return known or now_ms
