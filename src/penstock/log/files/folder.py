"""Loads the segments of a partition from its folder, and finds the end of each.

The header of the next segment gives the end of a segment, or, in a rewritten one, its own. Its batches are
walked only if neither can be read. Nothing is removed here: a file that does not belong to the partition is
skipped and named in the log.

Offsets without a record are missing, their segment being gone, or void, with none for readers. The header of every
segment names the end of the one before. Offsets between that end and its own first one were assigned and are void; all
offsets before that end must be in earlier segments, from the partition's start on. The offsets of markers, of aborted
transactions and of compacted records are void, too.
"""

import logging
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from penstock.errors import Damaged, InvalidBatch
from penstock.wire.kafka.record_batch import check_batch, read_header

from .disk import DiskFile
from .open_files import OpenFiles
from .segment import CHUNK_BYTES, HEADER_BYTES, SUFFIX, Segment, SegmentHeader, decode_header
from .tail import find_tail, whole_until

logger = logging.getLogger("penstock.files")


class PartitionFolder(NamedTuple):
    """The folder of a partition, and its topic and number."""

    path: Path
    topic: UUID
    partition: int
    topic_name: str = ""

    @property
    def label(self) -> str:
        """Its name in messages."""
        where = f"of topic {self.topic_name}" if self.topic_name else f"in {self.path.parent}"
        return f"partition {self.partition} {where}"

    def segment_path(self, base_offset: int) -> Path:
        """Return the path of the segment that begins at an offset."""
        return self.path / f"{base_offset:020}{SUFFIX}"


def segment_bases(files: OpenFiles, folder: PartitionFolder) -> list[int]:
    """Return the base offsets of the segments in a folder."""
    names = [name for name in files.disk.names(folder.path) if name.endswith(SUFFIX)]
    return sorted(int(stem) for name in names if (stem := name.removesuffix(SUFFIX)).isdecimal() and len(stem) == 20)


def load_segments(files: OpenFiles, folder: PartitionFolder, index_bytes: int) -> list[Segment]:
    """Return the segments, oldest first; the end of the last one is not known yet."""
    segments: list[Segment] = []
    for base in segment_bases(files, folder):
        header = _header(files, folder, base)
        if header is not None:
            segments.append(Segment(files, folder.segment_path(base), header, index_bytes))
    for segment, following in pairwise(segments):
        _set_end(segment, following.header)
    return segments


def _set_end(segment: Segment, following: SegmentHeader) -> None:
    own = segment.header
    if own.end_position:
        segment.end_position, segment.end_offset = own.end_position, own.end_offset
    elif following.before_base == segment.base_offset:
        segment.end_position, segment.end_offset = following.before_position, following.before_offset
    else:
        logger.error("%s: the segment that follows is missing, or its header is damaged", segment.name)
        tail = find_tail(segment, synced=True)  # a later one exists, so its own tail may be torn
        if tail.offset <= following.base_offset:
            segment.end_position, segment.end_offset = tail.position, tail.offset
        else:
            whole = whole_until(segment, HEADER_BYTES, segment.base_offset)
            segment.end_position, segment.end_offset = whole


def set_end(segment: Segment) -> None:
    """Set the end of a segment: from its header, or else behind its last batch."""
    header = segment.header
    if header.end_position:
        segment.end_position, segment.end_offset = header.end_position, header.end_offset
    else:
        segment.end_position, segment.end_offset, *_ = find_tail(segment)


def _header(files: OpenFiles, folder: PartitionFolder, base: int) -> SegmentHeader | None:
    """Return the header of a segment; a damaged one is reconstructed from its first batch."""
    path = folder.segment_path(base)
    with files.use(path) as file:
        content = file.read(0, HEADER_BYTES)
        found = decode_header(content)
        first = file.read(HEADER_BYTES, CHUNK_BYTES) if isinstance(found, str) else b""
    if isinstance(found, SegmentHeader):
        if (found.topic, found.partition, found.base_offset) == (folder.topic, folder.partition, base):
            return found
        logger.error(
            "%s belongs to partition %s of topic %s at offset %s; it is ignored",
            path,
            found.partition,
            found.topic,
            found.base_offset,
        )
        return None
    try:
        batch = read_header(first)
        check_batch(first if batch.size <= len(first) else _batch(files, path, batch.size))
    except InvalidBatch:
        return None  # it never held a batch
    if batch.base_offset != base:
        return None
    logger.error("%s: %s; its batches are served, their checksums are right", path, found)
    # As far as is known, all offsets before it were in other segments.
    return SegmentHeader(folder.topic, folder.partition, base, batch.leader_epoch, before_offset=base)


def _batch(files: OpenFiles, path: Path, size: int) -> bytes:
    with files.use(path) as file:
        return file.read(HEADER_BYTES, size)


def write_again(file: DiskFile, position: int, end: int) -> None:
    """Make bytes durable by reading them and writing them once more.

    Raises OSError. A sync alone is not enough: after a failed sync the system may return bytes that it will
    never write.
    """
    while position < end:
        chunk = file.read(position, min(CHUNK_BYTES, end - position))
        if not chunk:
            break
        file.write(position, [chunk])
        position += len(chunk)
    file.sync()


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
