"""Offsets without a record: missing ones, whose segment is gone, and void ones, which have none for readers.

The header of every segment names the end of the one before. Offsets between that end and its own first one
were assigned and are void; all offsets before that end must be in earlier segments, from the partition's
start on. The offsets of markers, of aborted transactions and of compacted records are void, too.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import Damaged

from .folder import PartitionFolder
from .producers import Producers
from .segment import Segment

if TYPE_CHECKING:
    from .partition_view import PartitionView


class MissingRun(NamedTuple):
    """Offsets from `low` to before `high` whose segment is missing; `name` is the file they were in."""

    low: int
    high: int
    name: str

    @property
    def why(self) -> str:
        """Return the reason for messages."""
        return f"the file, or its header, is missing, and offsets {self.low} to before {self.high} with it"

    def error(self, offset: int) -> Damaged:
        """Return the error for a reader that has reached an offset of the run, or stops before it."""
        return Damaged(self.name, 0, max(offset, self.low), self.why, until=self.high)


def missing_runs(folder: PartitionFolder, segments: Sequence[Segment]) -> list[MissingRun]:
    """Return the gaps before and between the segments; some may be before the partition's start."""
    runs, reached = [], 0
    for segment in segments:
        header = segment.header
        if header.before_offset > reached:
            base = header.before_base if header.before_base >= 0 else reached
            runs.append(MissingRun(reached, header.before_offset, name_of(folder, base)))
        reached = segment.end_offset
    return runs


def missing_tail(folder: PartitionFolder, segments: Sequence[Segment], end: int, base: int) -> MissingRun | None:
    """Return the gap behind the last segment; `base`: base offset of the segment that should be there."""
    reached = segments[-1].end_offset if segments else 0
    return MissingRun(reached, end, name_of(folder, base)) if end > reached else None


def name_of(folder: PartitionFolder, base: int) -> str:
    """Return the name of a segment in messages."""
    return "/".join(folder.segment_path(base).parts[-3:])


def voids_in(view: "PartitionView", low: int, high: int, *, compacted: bool) -> list[tuple[int, int]]:
    """Return the void offsets of a range as runs with exclusive ends.

    `compacted`: the topic is or was compacted. Only then may a batch lack records: otherwise they are missing.
    """
    runs: list[tuple[int, int]] = []
    before: Segment | None = None
    for segment in view.segments:
        if before is not None and segment.header.before_base == before.base_offset:
            # Refused, or lost in a crash: the header shows it. Behind a lost segment it does not.
            _add(runs, before.end_offset, segment.base_offset, low, high)
        before = segment
        if segment.end_offset <= low or segment.base_offset >= high:
            continue
        try:
            for start, end in _in_segment(view, segment, view.producers, compacted=compacted):
                _add(runs, start, end, low, high)
        except Damaged:
            continue  # later offsets of this segment then count as missing
    return runs


def _in_segment(
    view: "PartitionView", segment: Segment, producers: Producers, *, compacted: bool
) -> Iterator[tuple[int, int]]:
    for position, header in segment.headers():
        if header.is_control or producers.is_aborted(header) or (compacted and not header.record_count):
            yield header.base_offset, header.next_offset
        elif not compacted:
            continue
        elif header.record_count <= header.last_offset_delta:  # compaction has removed some
            batch = memoryview(segment.batch(position, header))
            held = {each.offset for each in view.decoded(header, batch)}
            yield from (
                (offset, offset + 1) for offset in range(header.base_offset, header.next_offset) if offset not in held
            )


def _add(runs: list[tuple[int, int]], start: int, end: int, low: int, high: int) -> None:
    start, end = max(start, low), min(end, high)
    if start >= end:
        return
    if runs and runs[-1][1] == start:
        runs[-1] = (runs[-1][0], end)
    else:
        runs.append((start, end))
