"""A partition as readers see it: its segments, bounds and committed records.

All our readers read committed records: markers, records of aborted transactions, and everything at or behind
the last stable offset are left out. Safe from any thread: the list of segments is replaced, never changed.

`PartitionReader` reads a partition that another process writes.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Lock

from penstock.errors import Damaged, InvalidBatch
from penstock.wire.kafka.record_batch import HEADER, UNKNOWN_CRC, BatchHeader, decode_marker

from ..entry import Entry
from ..kafka_form import entries_of
from .disk import writer_pid
from .folder import MissingRun, PartitionFolder, load_segments, missing_runs, missing_tail, name_of, set_end
from .heads import HeadsFile, PartitionHead
from .index import SparseIndex
from .open_files import OpenFiles
from .producers import Producers, UndecidedTransaction, newest_snapshot
from .segment import CHUNK_BYTES, BatchPiece, Segment

READ_BYTES = CHUNK_BYTES
_LOOKS = 10  # at a folder in which the writer removes a segment


class PartitionView:
    """One partition, for reading. `end` is the offset after the last one that is durable."""

    def __init__(self, files: OpenFiles, folder: PartitionFolder) -> None:
        self.files, self.folder = files, folder
        self.segments: list[Segment] = []
        self.start = self.end = 0
        self._runs: tuple[list[Segment], list[MissingRun]] = [], []  # segments and their missing runs
        self._producers: Producers | None = None
        self._producers_lock = Lock()

    # -- bounds and producers

    @property
    def stable(self) -> int:
        """The last stable offset: our readers stop there."""
        return self.producers.stable(self.end)

    @property
    def producers(self) -> Producers:
        """The state of its producers and their transactions, up to the end."""
        if self._producers is None or self._producers.offset < self.end:
            with self._producers_lock:
                if self._producers is None:
                    self._producers = newest_snapshot(self.files.disk, self.folder.path, self.end)
                self._catch_up(self._producers, self.end)
        return self._producers

    def _catch_up(self, producers: Producers, end: int) -> None:
        """Apply the batches that are not applied yet; damaged ones are skipped.

        A damaged batch may have been the marker of an open transaction: its outcome is in doubt.
        """
        for segment in self.segments:
            if segment.end_offset <= producers.offset:
                continue
            if segment.header.before_offset > producers.offset:  # the batches between are missing
                producers.doubt(segment.header.before_offset - 1, segment.name, 0)
            self._catch_up_in(segment, producers, end)
        if producers.offset < end:
            producers.doubt(end - 1, name_of(self.folder, self.lost_base), 0)
            producers.offset = end

    def _catch_up_in(self, segment: Segment, producers: Producers, end: int) -> None:
        heard_ms, begin = self._now_ms(), max(producers.offset, segment.base_offset)
        producers.offset = begin
        for position, header in segment.sound_headers(*segment.place_before(begin)):
            if header.next_offset > end:
                return
            if header.base_offset < producers.offset:
                continue
            if header.base_offset > producers.offset:
                producers.doubt(header.base_offset - 1, segment.name, position)
            try:
                marker = decode_marker(segment.batch(position, header)) if header.is_control else None
                if header.has_append_time or segment.header.end_position:  # the bytes differ from those sent
                    header = header._replace(crc=UNKNOWN_CRC)
                producers.note(header, marker, heard_ms)
            except (Damaged, InvalidBatch):
                producers.doubt(header.last_offset, segment.name, position, only=header.producer_id)
                producers.offset = header.next_offset
        if producers.offset < segment.end_offset <= end:
            producers.doubt(segment.end_offset - 1, segment.name, segment.end_position)
            producers.offset = segment.end_offset

    def _now_ms(self) -> int:
        """Return the time, where producers are forgotten by age."""
        return 0

    # -- reading

    def is_at_hand(self, offset: int, max_bytes: int) -> bool:
        """Return whether `piece` and `producers` would be answered from memory."""
        if self._producers is None or self._producers.offset < self.end:
            return False
        segment = next(iter(self._segments_from(offset)), None)
        return segment is None or segment.is_cached(max(offset, segment.base_offset), max_bytes)

    def piece(self, offset: int, max_bytes: int, until: int) -> BatchPiece | None:
        """Return whole batches from the one that holds an offset, or follows it; None at the end. Raises Damaged."""
        until = min(until, self.end)
        missing = self.missing(offset, until)
        if missing is not None:
            if missing.low <= offset:
                raise missing.error(offset)
            until = missing.low
        for segment in self._segments_from(offset):
            if max(offset, segment.base_offset) >= until:
                break
            piece = self._read(segment, max(offset, segment.base_offset), max_bytes, until)
            if piece is not None:
                return piece
        if missing is not None:  # there is no record before it
            raise missing.error(offset)
        return None

    def missing(self, low: int, high: int) -> MissingRun | None:
        """Return the first offsets of a range whose segment is missing."""
        segments, end = self.segments, self.end
        if self._runs[0] is not segments:
            self._runs = segments, missing_runs(self.folder, segments)
        low = max(low, self.start)
        for run in self._runs[1]:
            if run.high > low and run.low < high:
                return run._replace(low=max(run.low, self.start))
        tail = missing_tail(self.folder, segments, end, self.lost_base)
        if tail is None or tail.high <= low or tail.low >= high:
            return None
        return tail._replace(low=max(tail.low, self.start))

    lost_base = 0  # base offset of the last segment, if it is missing

    def _is_trimmed(self, segment: Segment) -> bool:
        """Return whether a missing segment was removed by retention."""
        return segment.end_offset <= self.start

    def _read(self, segment: Segment, offset: int, max_bytes: int, until: int) -> BatchPiece | None:
        """Read a segment, or its rewritten form; None if retention has removed it. Raises Damaged."""
        try:
            return segment.read(offset, max_bytes, until)
        except (Damaged, FileNotFoundError):
            present = segment.present()
            if present is segment:
                raise
        if present is not None:
            return self._read(present, offset, max_bytes, until)
        if self._is_trimmed(segment):
            return None
        raise Damaged(segment.name, 0, offset, "the file is missing")

    def batches(self, low: int, high: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield the checked batches that hold offsets of a range. Raises Damaged."""
        offset = max(low, self.start)
        size = 64 * 1024
        while (piece := self.piece(offset, size, high)) is not None:
            at = 0
            while at < len(piece.batches):
                header = BatchHeader._make(HEADER.unpack_from(piece.batches, at))
                yield header, piece.batches[at : at + header.size]
                at += header.size
            offset, size = piece.next_offset, READ_BYTES

    def entries(self, low: int, high: int) -> Iterator[Entry]:
        """Yield the committed records of a range, with their owner tags. Raises Damaged."""
        producers = self.producers
        low, high = max(low, self.start), min(high, producers.stable(self.end))
        for header, batch in self.batches(low, high):
            if header.is_control or producers.is_aborted(header):
                continue
            doubtful = producers.undecided_of(header)
            if doubtful is not None:
                raise self.undecided_error(doubtful, header.base_offset)
            for entry in self.decoded(header, batch):
                if low <= entry.offset < high:
                    yield entry

    def undecided_error(self, transaction: UndecidedTransaction, offset: int) -> Damaged:
        """Return the error for a reader that has reached records of a transaction in doubt."""
        _, first, last, where, position = transaction
        why = (
            f"it may have held the marker of a transaction from offset {first} on: it is in doubt whether "
            "that transaction was committed"
        )
        return Damaged(where, position, offset, why, until=last + 1)

    def decoded(self, header: BatchHeader, batch: memoryview) -> Iterator[Entry]:
        """Yield the records of one batch. Raises Damaged if they cannot be decoded."""
        try:
            yield from entries_of(batch, self.topic_id, self.folder.partition)
        except InvalidBatch as exc:
            where = f"partition {self.folder.partition} in {self.folder.path.parent.name}"
            raise Damaged(where, 0, header.base_offset, exc.why) from exc

    topic_id = 0  # set by the creator

    def offset_at(self, timestamp_ms: int, low: int, high: int) -> int:
        """Return the first offset in a range with a record at or after a time; else the range's end."""
        low = max(low, self.start)
        producers = self.producers
        stop = min(high, producers.stable(self.end))
        for segment in self._segments_from(low):
            marks = list(segment.index.marks(low))
            ends = [*(each.offset for each in marks[1:]), segment.end_offset]
            for mark, end in zip(marks, ends, strict=False):  # an empty segment has an end and no mark
                if mark.latest_ms < timestamp_ms or end <= low:
                    continue
                if mark.offset >= stop:
                    return high
                for entry in self.entries(max(low, mark.offset), min(end, stop)):
                    if entry.timestamp_ms >= timestamp_ms:
                        return entry.offset
        return high

    def _segments_from(self, offset: int) -> list[Segment]:
        segments = self.segments
        first = len(segments)
        while first and segments[first - 1].end_offset > offset:
            first -= 1
        return segments[first:]


def voids_in(view: PartitionView, low: int, high: int, *, compacted: bool) -> list[tuple[int, int]]:
    """Return the void offsets of a range as runs with exclusive ends.

    `compacted`: the topic is or was compacted. Only then may a batch lack records: otherwise they are missing.
    """
    runs: list[tuple[int, int]] = []
    before: Segment | None = None
    for segment in view.segments:
        if before is not None and segment.header.before_base == before.base_offset:
            # Refused, or lost in a crash: the header shows it. Behind a lost segment it does not.
            _add_run(runs, before.end_offset, segment.base_offset, low, high)
        before = segment
        if segment.end_offset <= low or segment.base_offset >= high:
            continue
        try:
            for start, end in _voids_in_segment(view, segment, view.producers, compacted=compacted):
                _add_run(runs, start, end, low, high)
        except Damaged:
            continue  # later offsets of this segment then count as missing
    return runs


def _voids_in_segment(
    view: PartitionView, segment: Segment, producers: Producers, *, compacted: bool
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


def _add_run(runs: list[tuple[int, int]], start: int, end: int, low: int, high: int) -> None:
    start, end = max(start, low), min(end, high)
    if start >= end:
        return
    if runs and runs[-1][1] == start:
        runs[-1] = (runs[-1][0], end)
    else:
        runs.append((start, end))


class PartitionReader(PartitionView):
    """A partition that another process writes, up to its published end; if no head tells it, to its last batch."""

    def __init__(
        self,
        files: OpenFiles,
        folder: PartitionFolder,
        heads: HeadsFile,
        index_bytes: int,
        topic_id: int,
        durable_start: Callable[[], int],
    ) -> None:
        super().__init__(files, folder)
        self.topic_id = topic_id
        self._index_bytes = index_bytes
        self._heads, self._durable_start = heads, durable_start
        self._changes = -1
        self._is_found = False  # its bounds come from the segments, without a head
        self._published_stable = 0
        self._lock = Lock()

    @property
    def stable(self) -> int:
        """The last stable offset, as published by the writer."""
        return self._published_stable

    def _catch_up(self, producers: Producers, end: int) -> None:
        super()._catch_up(producers, end)
        opened = {id: each for id, each in producers.states.items() if each.opened is not None}
        producers.states = opened  # the rest is needed by a writer only

    def refresh(self, head: PartitionHead | None) -> None:
        """Apply the head that the writer has published."""
        with self._lock:
            if head is None:
                self._find()
                return
            if head.end < self.end and head.changes <= self._changes:
                return
            self._take_over(head)

    def missing(self, low: int, high: int) -> MissingRun | None:
        """Return the missing offsets of a range, after a reload: retention may have removed their segment."""
        if super().missing(low, high) is None:
            return None
        self._look_again()
        return super().missing(low, high)

    def _is_trimmed(self, segment: Segment) -> bool:
        self._look_again()
        return super()._is_trimmed(segment)

    def _look_again(self) -> None:
        """Reload the folder, to notice removed and restored files."""
        with self._lock:
            self._changes, self._is_found = -1, False
            head = self._heads.get(self.folder.partition)
            if head is None:
                self._find()
                return
            self._take_over(head)
            self.start = max(self.start, self._durable_start())

    def _load(self) -> list[Segment]:
        """Return the segments; tries again when the writer removes one between listing and reading."""
        for _ in range(_LOOKS):
            with suppress(FileNotFoundError):
                return load_segments(self.files, self.folder, self._index_bytes)
        return load_segments(self.files, self.folder, self._index_bytes)

    def _find(self) -> None:
        """Recover the bounds from the segments, without a head. Raises Damaged while another process writes."""
        if self._is_found:
            return
        segments = self._load()
        if segments:
            set_end(segments[-1])
        if not segments or (segments[-1].end_offset == segments[0].base_offset):
            return  # it never held a record, or is being created
        directory = self.folder.path.parent.parent.parent
        if writer_pid(directory) not in (None, os.getpid()):
            name = f"{self.folder.path.parent.name}/heads"
            why = "its head cannot be read; the writing process rebuilds it when it starts"
            raise Damaged(name, 64 * self.folder.partition, segments[0].base_offset, why)
        self.start = self._durable_start()
        self.segments, self.end = segments, segments[-1].end_offset
        self._published_stable = self.producers.stable(self.end)
        self._is_found = True

    def _take_over(self, head: PartitionHead) -> None:
        before = self.segments
        if head.changes != self._changes:
            for each in before:
                self.files.forget(each.path)
            self.segments = self._load()
            self._changes = head.changes
        self.start = head.start
        self._set_last_end(head)
        self._published_stable = head.stable
        self.end = head.end
        if before is not self.segments and _is_shorter(self.segments, before):
            self._producers = None  # history was rolled back, and the producers' state with it

    def _set_last_end(self, head: PartitionHead) -> None:
        """Set the end of the active segment from the head: after its last batch before the published end."""
        last = next((each for each in self.segments if each.base_offset == head.segment), None)
        if last is None:
            self.lost_base = head.segment
            if self.segments and self.segments[-1].base_offset < head.segment:
                set_end(self.segments[-1])
            return
        if last.header.end_position:
            last.end_position, last.end_offset = last.header.end_position, last.header.end_offset
        if last.header.end_position or last.end_offset >= head.end:
            return
        if head.synced_offset == head.end and last.known_index is None:  # a read builds the index
            last.end_position, last.end_offset = head.synced_position, head.end
            return
        with self.files.use(last.path) as file:
            size = file.size
        position, offset = last.end_position, last.end_offset
        index = last.index if offset > last.base_offset else None
        last.end_position, last.end_offset = size, head.end
        if index is None:
            index = SparseIndex(self._index_bytes)
        try:
            for at, header in last.headers(position, offset):
                index.note(header.base_offset, at, header.max_timestamp)
                position = at + header.size
                if header.next_offset >= head.end:
                    break
        except Damaged:  # a read there raises it
            last.known_index = None
            return
        last.end_position = position
        last.known_index = index


def _is_shorter(segments: Sequence[Segment], before: Sequence[Segment]) -> bool:
    ends = {each.base_offset: each.end_offset for each in before}
    return any(each.end_offset < ends.get(each.base_offset, 0) for each in segments)
