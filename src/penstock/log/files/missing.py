"""Offsets of a partition that should stand in a segment and stand in none: a file is gone, or its header is.

Every segment says where the one before it ends. Offsets between that end and its own first one were given and
hold nothing; all before that end must be in the segments before it, from the partition's start on.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.errors import Damaged

from .loading import PartitionFolder
from .segment import Segment


class MissingRun(NamedTuple):
    """Offsets from `low` to before `high` whose segment is not there; `name` is the file they were in."""

    low: int
    high: int
    name: str

    @property
    def why(self) -> str:
        """Return what is to be said of it."""
        return f"the file, or its header, is missing, and offsets {self.low} to before {self.high} with it"

    def error(self, offset: int) -> Damaged:
        """Return the error for a reader that has come to an offset of it, or that stands before it."""
        return Damaged(self.name, 0, max(offset, self.low), self.why, until=self.high)


def missing_runs(folder: PartitionFolder, segments: Sequence[Segment]) -> list[MissingRun]:
    """Return what is missing before the segments and between them; some of it may be before the start."""
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
    """Return what is missing behind the last segment; `base`: of the one that should be there."""
    reached = segments[-1].end_offset if segments else 0
    return MissingRun(reached, end, name_of(folder, base)) if end > reached else None


def name_of(folder: PartitionFolder, base: int) -> str:
    """Return what messages call a segment."""
    return "/".join(folder.segment_path(base).parts[-3:])
