"""Reads a partition that another process writes, up to its published end."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from penstock.errors import Damaged

from .folder import load_segments, set_end
from .gaps import MissingRun
from .heads import PartitionHead
from .index import SparseIndex
from .lock import writer_pid
from .open_files import OpenFiles
from .partition_view import PartitionView
from .producers import Producers
from .segment import Segment

if TYPE_CHECKING:
    from .directory import TopicFiles

_LOOKS = 10


class PartitionReader(PartitionView):
    """A partition that another process writes, up to its published end.

    If its head is lost and no process writes, its bounds are recovered from the segments.
    """

    def __init__(
        self, files: OpenFiles, topic: "TopicFiles", partition: int, index_bytes: int, durable_start: Callable[[], int]
    ) -> None:
        super().__init__(files, topic.folder(partition))
        self.topic_id = topic.id
        self._index_bytes = index_bytes
        self._heads, self._durable_start = topic.heads, durable_start
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
        producers.forget_batches()

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
        """Apply a head."""
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
    """Return whether a segment ends earlier than before."""
    ends = {each.base_offset: each.end_offset for each in before}
    return any(each.end_offset < ends.get(each.base_offset, 0) for each in segments)
