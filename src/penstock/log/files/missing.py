"""Offsets of a partition whose segment is missing: its file or its header is gone.

The header of every segment names the end of the one before. Offsets between that end and its own first one
were assigned and are void; all offsets before that end must be in earlier segments, from the partition's
start on.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.errors import Damaged

from .loading import PartitionFolder
from .segment import Segment


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


def missing_tail(
    folder: PartitionFolder, segments: Sequence[Segment], end: int, base: int
) -> MissingRun | None:
    """Return the gap behind the last segment; `base`: base offset of the segment that should be there."""
    reached = segments[-1].end_offset if segments else 0
    return MissingRun(reached, end, name_of(folder, base)) if end > reached else None


def name_of(folder: PartitionFolder, base: int) -> str:
    """Return the name of a segment in messages."""
    return "/".join(folder.segment_path(base).parts[-3:])
