"""Verifies a directory of a log in files: every batch of every segment, and the files beside them.

It only reads, so it may run beside a writer, without one, and on a damaged directory. It uses no index, only
checked data. Damage is reported by file, byte and offset, and the walk continues at the next whole batch; a
file that a crash has truncated, or that is rebuilt when needed, is only a note.
"""

import os
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import msgspec

from penstock.errors import Damaged, FileUnreadable, InvalidBatch
from penstock.wire.kafka.record_batch import HEADER_BYTES as BATCH_HEADER_BYTES
from penstock.wire.kafka.record_batch import BatchHeader, read_header

from . import tables
from .directory import TOPICS
from .disk import Disk, read_whole
from .folder import MissingRun, PartitionFolder, load_segments, missing_runs, missing_tail, segment_bases, set_end
from .heads import NAME as HEADS
from .heads import HeadsFile, PartitionHead
from .index import SparseIndex
from .open_files import OpenFiles
from .producers import newest_snapshot, snapshot_name, snapshot_offsets
from .segment import HEADER_BYTES, SUFFIX, Segment, SegmentHeader, decode_header
from .small_files import read_identity
from .tail import find_tail

_OPEN_FILES = 16
_INDEX_BYTES = 32 * 1024
Advance = Callable[[int], None]  # called with the number of bytes checked since the last call


class Kind(StrEnum):
    """The severity of a finding."""

    DAMAGE = "damage"
    UNREADABLE = "unreadable"
    NOTE = "note"


class Finding(NamedTuple):
    """One deviation from the written state. Position and offset are -1 where they do not apply."""

    kind: Kind
    file: str
    position: int
    offset: int
    why: str
    topic: UUID | None = None
    partition: int = -1


class Walked(NamedTuple):
    """Counts of a walk."""

    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0

    def __add__(self, other: object) -> "Walked":
        assert isinstance(other, Walked)
        return Walked(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class WalkedBatch(NamedTuple):
    """One whole batch of a walk, and its position."""

    segment: Segment
    position: int
    header: BatchHeader
    batch: memoryview


def topic_folders(path: Path) -> dict[UUID, Path]:
    """Return the folders of topics in a directory."""
    found = {}
    for name in Disk().names(path / TOPICS):
        try:
            found[UUID(name)] = path / TOPICS / name
        except ValueError:
            continue
    return found


def partition_folders(topic: UUID, path: Path) -> list[PartitionFolder]:
    """Return the folders of a topic's partitions."""
    numbers = {int(name) for name in Disk().names(path) if name.isdecimal()}
    heads = HeadsFile(Disk(), path)
    numbers |= {number for number, head in heads.all().items() if head.synced_offset > head.start}
    heads.close()
    return [PartitionFolder(path / str(number), topic, number) for number in sorted(numbers)]


def size_of(folder: PartitionFolder) -> int:
    """Return the total bytes of a partition's segments."""
    sizes = 0
    for name in Disk().names(folder.path):
        if name.endswith(SUFFIX):
            try:
                sizes += os.stat(folder.path / name).st_size
            except FileNotFoundError:  # removed by retention meanwhile
                continue
    return sizes


def check_identity(path: Path) -> Iterator[Finding]:
    """Yield the damage to the file `identity`."""
    try:
        found = read_identity(Disk(), path)
    except (msgspec.MsgspecError, ValueError) as exc:
        yield Finding(Kind.DAMAGE, "identity", -1, -1, f"it cannot be read: {exc}")
        return
    if found is None and topic_folders(path):
        yield Finding(Kind.DAMAGE, "identity", -1, -1, "it is missing")


def check_tables(path: Path) -> Iterator[Finding]:
    """Yield the damage to the SQLite file beside the segments."""
    why = tables.damage(path)
    if why is not None:
        yield Finding(Kind.DAMAGE, tables.NAME, -1, -1, f"{why}; put a backup of it in its place")


class PartitionWalk:
    """A walk over one partition. Iterating yields findings; `walked` holds its counts."""

    def __init__(self, folder: PartitionFolder, *, written: bool, progress: Advance = lambda size: None):
        """`written`: a writer is running, so bytes behind the published end are no finding."""
        self.folder, self._written, self._progress = folder, written, progress
        self.walked = Walked()
        self._files = OpenFiles(Disk(), _OPEN_FILES)

    def __iter__(self) -> Iterator[Finding]:
        try:
            for each in self._found():
                yield each._replace(topic=self.folder.topic, partition=self.folder.partition)
        finally:
            self._files.close()

    def batches(self) -> Iterator[WalkedBatch | Finding]:
        """Yield every whole batch, and the damage between them."""
        heads = HeadsFile(Disk(), self.folder.path.parent)
        head = heads.get(self.folder.partition)
        heads.close()
        try:
            yield from self._missing(head)
            for segment, following in self._pairs(head):
                if isinstance(segment, Finding):
                    yield segment
                    continue
                yield from self._joined(segment, following)
                yield from self._segment(segment, following, head)
        except FileNotFoundError as exc:  # trimmed meanwhile
            yield self._note(Path(exc.filename), "it was removed during the walk")
        except FileUnreadable as exc:
            why = f"{exc.why}; the rest of this partition was not checked"
            yield Finding(Kind.UNREADABLE, _short(Path(exc.path)), -1, -1, why)

    def _found(self) -> Iterator[Finding]:
        for each in self.batches():
            if isinstance(each, Finding):
                yield each
        yield from self._beside()

    def _missing(self, head: PartitionHead | None) -> Iterator[Finding]:
        segments = load_segments(self._files, self.folder, _INDEX_BYTES)
        runs: list[MissingRun | None] = [*missing_runs(self.folder, segments)]
        start = 0 if head is None else head.start
        if head is None:
            if any(self._has_batch(each.path) for each in segments):
                why = "the head of this partition cannot be read; it is rebuilt from the segments"
                yield self._note(self.folder.path.parent / HEADS, why)
            start = segments[0].header.before_offset if segments else 0  # the real start is unknown
        elif not any(each.base_offset == head.segment for each in segments):
            last = segments[-1] if segments else None
            if last is not None:
                set_end(last)
            runs.append(missing_tail(self.folder, segments, head.synced_offset, head.segment))
        for run in runs:
            if run is not None and run.high > start:
                run = run._replace(low=max(run.low, start))
                yield Finding(Kind.DAMAGE, run.name, 0, run.low, run.why)

    def _pairs(self, head: PartitionHead | None) -> Iterator[tuple[Segment | Finding, SegmentHeader | None]]:
        """Yield each segment with the header of the next one; a file that is no segment as a finding."""
        bases = segment_bases(self._files, self.folder)
        headers: list[tuple[int, SegmentHeader | str]] = []
        for base in bases:
            try:
                with self._files.use(self.folder.segment_path(base)) as file:
                    headers.append((base, decode_header(file.read(0, HEADER_BYTES))))
            except FileNotFoundError:
                continue
        for at, (base, header) in enumerate(headers):
            following = headers[at + 1][1] if at + 1 < len(headers) else None
            known = following if isinstance(following, SegmentHeader) else None
            path = self.folder.segment_path(base)
            name = _short(path)
            own = self.folder.topic, self.folder.partition, base
            if isinstance(header, str):
                if at + 1 == len(headers) and not self._has_batch(path):
                    yield Finding(Kind.NOTE, name, 0, base, f"{header}; it holds no batch"), None
                    continue
                yield Finding(Kind.DAMAGE, name, 0, base, header), None
                header = SegmentHeader(*own, leader_epoch=self._epoch(path))
            if (header.topic, header.partition, header.base_offset) != own:
                of = f"partition {header.partition} of topic {header.topic} at offset {header.base_offset}"
                yield Finding(Kind.DAMAGE, name, 0, base, f"it belongs to {of}"), None
                continue
            yield Segment(self._files, path, header, _INDEX_BYTES), known

    def _joined(self, segment: Segment, following: SegmentHeader | None) -> Iterator[Finding]:
        own = segment.header
        if following is not None and following.before_base == segment.base_offset:
            segment.end_position, segment.end_offset = following.before_position, following.before_offset
            if following.base_offset > following.before_offset:
                why = f"offsets up to before {following.base_offset} were assigned and hold no record"
                yield self._note(segment.path, why, following.before_offset)
        if own.end_position:
            segment.end_position, segment.end_offset = own.end_position, own.end_offset

    def _segment(
        self, segment: Segment, following: SegmentHeader | None, head: PartitionHead | None
    ) -> Iterator[WalkedBatch | Finding]:
        self.walked += Walked(segments=1)
        if segment.end_position > HEADER_BYTES or following is not None:
            yield from self._walk(segment)
            return
        position, known = HEADER_BYTES, head is not None and head.segment == segment.base_offset
        if head is not None and known:
            position = max(position, head.synced_position)
            segment.end_position, segment.end_offset = position, max(segment.base_offset, head.synced_offset)
            yield from self._walk(segment)
        yield from self._tail(segment, position, known=known)

    def _tail(self, segment: Segment, position: int, *, known: bool) -> Iterator[WalkedBatch | Finding]:
        """Check the bytes behind the published end: whole batches are valid, a torn one is void."""
        begin = segment.end_offset
        tail = find_tail(segment, position, begin, synced=known or self._written)
        segment.end_position, segment.end_offset = tail.position, tail.offset
        if not (self._written and tail.damaged):  # otherwise a writer is about to finish it
            yield from self._walk(segment, position, begin)
        if tail.torn and not self._written:
            why = "a torn tail that was never acknowledged; it is void"
            yield Finding(Kind.NOTE, segment.name, tail.position, tail.offset, why)

    def _walk(
        self, segment: Segment, position: int = HEADER_BYTES, offset: int | None = None
    ) -> Iterator[WalkedBatch | Finding]:
        expected = segment.base_offset if offset is None else offset
        while position < segment.end_position:
            try:
                for at, header in segment.headers(position, expected):
                    batch = memoryview(segment.batch(at, header))
                    self.walked += Walked(0, 1, header.record_count, header.size)
                    self._progress(header.size)
                    yield WalkedBatch(segment, at, header, batch)
                    position, expected = at + header.size, header.next_offset
            except Damaged as exc:
                resumed = segment.resync(exc.position + 1, exc.offset)
                stop = resumed or (segment.end_position, segment.end_offset)
                why = f"{exc.why}; nothing up to byte {stop[0]}, offset {stop[1]}, is served"
                yield Finding(Kind.DAMAGE, segment.name, exc.position, exc.offset, why)
                self._progress(stop[0] - position)
                position, expected = stop
        if expected < segment.end_offset and position >= segment.end_position:
            why = f"its batches end there, but it should hold offsets to before {segment.end_offset}"
            if segment.end_offset > segment.base_offset:
                yield Finding(Kind.DAMAGE, segment.name, position, expected, why)

    def _beside(self) -> Iterator[Finding]:
        disk, folder = Disk(), self.folder.path
        for name in disk.names(folder):
            path = folder / name
            if name.endswith(".damaged"):
                yield Finding(Kind.DAMAGE, _short(path), -1, -1, "it was renamed as damaged when the log was opened")
            elif name.endswith(".new") and not self._written:
                yield self._note(path, "an interrupted rewrite; the next writer removes it")
            elif name.endswith(".index"):
                content = read_whole(disk, path)
                if content is not None and not SparseIndex.is_whole(content):
                    yield self._note(path, "it is damaged; it is rebuilt when needed")
        offsets = snapshot_offsets(disk, folder)
        if offsets and newest_snapshot(disk, folder, offsets[-1]).offset != offsets[-1]:
            path = folder / snapshot_name(offsets[-1])
            yield self._note(path, "it is damaged; an older one, or the whole log, gives the same state")

    def _has_batch(self, path: Path) -> bool:
        with self._files.use(path) as file:
            return any(file.read(HEADER_BYTES, 4096))

    def _epoch(self, path: Path) -> int:
        with self._files.use(path) as file:
            content = file.read(HEADER_BYTES, BATCH_HEADER_BYTES)
        try:
            return read_header(content).leader_epoch
        except InvalidBatch:
            return 0

    def _note(self, path: Path, why: str, offset: int = -1) -> Finding:
        return Finding(Kind.NOTE, _short(path), -1, offset, why)


def _short(path: Path) -> str:
    return "/".join(path.parts[-3:])
