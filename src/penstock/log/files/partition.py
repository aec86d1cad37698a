"""A partition of the writer: recovery, appends, rolling of segments.

States: it accepts batches, or refuses them because the disk failed (`refusal`). A failed write or sync is never retried
on the same file: its segment ends at the last synced byte, and the next append begins a new segment, whose header
records that end, at an offset that was never assigned. So offsets of a refused batch are not reused, and any bytes of
it that reached the disk are void. Safety: all changes run in the writer's thread; readers in other threads see
`segments` and `end`. Crash: `recover` reads the last segment from the synced position in `heads` on, keeps whole
batches and leaves a torn tail void (`tail.py`); damage elsewhere is found on reading, and reported.
"""

import errno
import logging
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from penstock import points
from penstock.clock import Clock
from penstock.errors import Error, PartitionUnwritable, StoreFull
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.record_batch import NO_PRODUCER, BatchHeader, Marker

from .disk import BESIDE, write_whole
from .folder import PartitionFolder, load_segments, segment_bases, write_again
from .heads import HeadsFile, PartitionHead
from .index import SparseIndex
from .open_files import OpenFiles
from .partition_view import PartitionView
from .producers import ProducerState, SentBatch, following_state, write_snapshot
from .segment import HEADER_BYTES, Segment, SegmentHeader, decode_header
from .settings import FilesSettings
from .small_files import forget_shortened, read_reservation, write_reservation, write_shortened
from .tail import find_tail

logger = logging.getLogger("penstock.files")

ROLL_MADE = points.declare("partition.roll_made", "A new segment has its header on disk; nothing is in it yet.")
ROLL_CLOSED = points.declare("partition.roll_closed", "A new segment is in use; the old one has no index yet.")
INDEXED = points.declare("partition.index_written", "A closed segment has its index; its snapshot is not written.")
SNAPPED = points.declare("partition.snapshot_written", "A closed segment has its index and its snapshot.")
WRITTEN = points.declare("partition.batches_written", "Batches are written to a segment; they are not synced.")
SYNCED = points.declare("partition.batches_synced", "Batches are on disk; they are not published.")
TRIMMED = points.declare("partition.trim_started", "A new start is durable; no segment is removed yet.")
REMOVED = points.declare("partition.segment_removed", "One unneeded segment is removed; others may follow.")

_FIRST_ALLOCATION, _MOST_ALLOCATION = 64 * 1024, 4 << 20
_RESERVED_OFFSETS = 1 << 16
_FORGET_PARTS = 24  # silent producers are looked for this often within the time that they are kept
_RETRY_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0  # pauses before an append tries a failed disk again


class PlacedBatch(NamedTuple):
    """A batch with its assigned offset, to be written."""

    header: BatchHeader
    piece: Buffer
    marker: Marker | None = None


class _SegmentPlace(NamedTuple):
    base: int = -1
    position: int = 0
    offset: int = 0


class PartitionLog(PartitionView):
    """One partition of the writer's."""

    def __init__(
        self,
        files: OpenFiles,
        folder: PartitionFolder,
        heads: HeadsFile,
        settings: FilesSettings,
        clock: Clock,
        topic_id: int,
    ) -> None:
        super().__init__(files, folder)
        self._heads, self._settings, self._clock, self.topic_id = heads, settings, clock, topic_id
        self.next_offset = 0  # the next to be assigned
        self.leader_epoch = 0
        self.refusal: Error | None = None
        self._retry_at = self._pause_seconds = 0.0
        self._changes = 0
        self._must_roll = True
        self._allocated = 0
        self._begun_ms = 0
        self._forget_at_ms = 0
        self._reserved = 0
        self._position = HEADER_BYTES  # end of the written bytes of the last segment, synced or not
        self._written: list[PlacedBatch] = []  # written and not committed
        self._tentative: dict[int, ProducerState] = {}
        self._sync_failed = False  # the last segment is not synced again
        self.is_torn = False  # a write or sync has failed; otherwise only space or a new file was lacking
        self._keeps_tail = False  # the last segment has whole batches behind a torn one
        self.synced_position, self.synced_offset = HEADER_BYTES, 0
        self._lost: _SegmentPlace | None = None  # the last segment, while its file is missing

    # -- recovery

    def recover(self, start: int, passed: int = 0) -> None:
        """Restore the state from the folder.

        Raises OSError. `start`: the first offset kept. `passed`: the highest offset that a group has passed:
        no offset below it is assigned again, whatever is lost.
        """
        disk = self.files.disk
        for name in disk.names(self.folder.path):
            if name.endswith(BESIDE):  # an interrupted rewrite or replacement of a small file
                disk.remove(self.folder.path / name)
        head = self._heads.get(self.folder.partition)
        reserved = read_reservation(disk, self.folder.path)
        segments = load_segments(self.files, self.folder, self._settings.index_bytes)
        self._drop_unborn(segments, head)
        self.start = max(start, 0 if head is None else head.start)
        self._changes = 0 if head is None else head.changes + 1
        known = 0 if head is None else head.end
        if segments:
            known = max(known, self._recover_last(segments[-1], head))
        self.segments = segments
        self.end = segments[-1].end_offset if segments else max(self.start, known)
        self._note_lost(head)
        self.next_offset = max(self.end, known, self.start)
        self._reserved = reserved
        if reserved > self.next_offset:  # records seen at these offsets may be lost: do not reuse the offsets
            self.next_offset = reserved
            self.leader_epoch += 1
            self._must_roll = True
        if passed > self.next_offset:
            self._note_shortened(passed)
        if self._must_roll and segments and self.next_offset == segments[-1].base_offset:
            self.next_offset += 1  # only a torn tail: the next segment needs another name
        if self.next_offset > self.end:
            void = self.folder.label, self.end, self.next_offset
            logger.warning("%s: offsets %s to before %s were assigned and hold no record", *void)
            self._must_roll = True
        self._remove_before(self.start)
        if segments:
            self.publish()
            if head is None or head.segment != segments[-1].base_offset:
                try:  # before anything is appended to the segment
                    self._heads.sync()
                except OSError as exc:
                    self.fail(exc)

    def _recover_last(self, last: Segment, head: PartitionHead | None) -> int:
        """Find the end of the last segment and sync it; return the end of offsets that may be assigned."""
        self.leader_epoch = last.header.leader_epoch
        given = last.header.end_offset
        if last.header.end_position:  # it was rewritten, so nothing was appended since
            last.end_position, last.end_offset = last.header.end_position, last.header.end_offset
            self._must_roll = True
        else:
            given = self._recover_tail(last, head)
        self._position = self.synced_position = last.end_position
        self.synced_offset = last.end_offset
        self._begun_ms = last.header.created_ms
        return given

    def _recover_tail(self, last: Segment, head: PartitionHead | None) -> int:
        position, offset = HEADER_BYTES, last.base_offset
        known = head is not None and head.segment == last.base_offset and head.synced_position >= HEADER_BYTES
        if head is not None and known:
            position, offset = head.synced_position, head.synced_offset
        tail = find_tail(last, position, offset, synced=known)
        last.end_position, last.end_offset = tail.position, tail.offset
        if tail.damaged:
            logger.error("%s: %s; the batches behind it are kept", last.name, tail.damaged)
        if tail.torn:
            why = "%s: a torn tail from byte %s, offset %s, is ignored; it was never acknowledged"
            logger.warning(why, last.name, tail.position, tail.offset)
        self._keeps_tail = tail.given > tail.offset
        try:
            with self.files.use(last.path, write=True) as file:
                short = file.size < last.end_position
                self._allocated = file.size
                if last.end_position > position:
                    write_again(file, position, last.end_position)
        except OSError as exc:  # serve only bytes that are known to be on disk
            short = True
            last.end_position, last.end_offset = position, offset
            self.segments = [last]
            self.synced_position, self.synced_offset = position, offset
            self.fail(exc)
        self._must_roll = tail.torn or short or bool(tail.damaged)
        return tail.given

    def _note_lost(self, head: PartitionHead | None) -> None:
        """If the last segment is missing, treat its offsets as missing, not as void."""
        reached = self.segments[-1].end_offset if self.segments else self.start
        if head is None or head.synced_offset <= max(reached, self.start):
            return
        if any(each.base_offset == head.segment for each in self.segments):
            return
        self._lost = _SegmentPlace(head.segment, head.synced_position, head.synced_offset)
        self.lost_base, self.end = head.segment, max(self.end, head.synced_offset)
        self._must_roll = True
        path = self.folder.segment_path(head.segment)
        logger.error("%s is missing: offsets %s to before %s were in it", path, reached, self.end)

    def _note_shortened(self, passed: int) -> None:
        self.files.disk.make_folder(self.folder.path)
        write_shortened(self.files.disk, self.folder.path, self.next_offset, passed)
        logger.error(
            "%s ends at offset %s, and a group is at %s: records were lost; new ones begin there, and "
            "the group is stopped until you accept the loss: penstock restored",
            self.folder.label,
            self.next_offset,
            passed,
        )
        self.next_offset, self._must_roll = passed, True
        self.leader_epoch += 1

    def _drop_unborn(self, segments: list[Segment], head: PartitionHead | None) -> None:
        """Remove files of an interrupted creation: without a header, they never held a batch."""
        kept = {each.base_offset for each in segments}
        for base in segment_bases(self.files, self.folder):
            path = self.folder.segment_path(base)
            if base not in kept and base > max(kept, default=-1):
                with self.files.use(path) as file:
                    content = file.read(0, HEADER_BYTES)
                    behind = file.read(HEADER_BYTES, 4096)
                if isinstance(decode_header(content), SegmentHeader):
                    continue  # from another partition, or under another name: leave it
                held = head is not None and head.segment == base and head.synced_offset > base
                if not held and (not any(content[8:]) or not any(behind)):
                    self.files.forget(path)
                    self.files.disk.remove(path)
                else:
                    self._quarantine(path)

    def _quarantine(self, path: Path) -> None:
        damaged = path.with_suffix(".damaged")
        self.files.forget(path)
        self.files.disk.rename(path, damaged)
        logger.error("%s is damaged and was renamed to %s; it is not served", path, damaged.name)

    # -- producers

    def repeated(self, header: BatchHeader) -> SentBatch | None:
        """Return the earlier batch that a producer's batch repeats. Raises ProducerFenced, OutOfSequence."""
        if header.producer_id == NO_PRODUCER:
            return None
        return self.producers.repeated(header, self._known(header.producer_id))

    def has_open(self, producer_id: int) -> bool:
        """Return whether a producer has an open transaction here."""
        state = self._known(producer_id)
        return state is not None and state.opened is not None

    def expect(self, header: BatchHeader) -> None:
        """Remember a placed batch, for later ones of the same producer in the same sync."""
        if header.producer_id != NO_PRODUCER:
            known = self._known(header.producer_id)
            self._tentative[header.producer_id] = following_state(known, header)

    def _known(self, producer_id: int) -> ProducerState | None:
        return self._tentative.get(producer_id) or self.producers.states.get(producer_id)

    # -- appending: write, sync, commit

    @property
    def last(self) -> Segment:
        """The active segment."""
        return self.segments[-1]

    def check_writable(self) -> None:
        """Raise the refusal while the disk fails; after a pause the disk is tried again."""
        if self.refusal is not None and self._clock.monotonic() < self._retry_at:
            raise self.refusal

    def has_room(self, size: int) -> bool:
        """Return whether that many bytes fit into the last segment."""
        if self._must_roll or not self.segments:
            return False
        if self._position == HEADER_BYTES:
            return True
        age_ms = self._clock.now_ms() - self._begun_ms
        return self._position + size <= self._settings.segment_bytes and age_ms < self._settings.segment_seconds * 1000

    def takes_at_once(self, size: int, records: int) -> bool:
        """Return whether a write of this size needs no allocation, reservation or new segment first."""
        return (
            self.refusal is None
            and self._position + size <= self._allocated
            and self.next_offset + records <= self._reserved
            and self.has_room(size)
        )

    def write(self, batches: Sequence[PlacedBatch], size: int) -> None:
        """Append batches with a total size to the last segment. Raises OSError."""
        pieces = [each.piece for each in batches]
        with self.files.use(self.last.path, write=True) as file:
            if self._position + size > self._allocated:
                step = min(max(3 * self._allocated, _FIRST_ALLOCATION), _MOST_ALLOCATION)
                wanted = max(self._position + size, min(self._allocated + step, self._settings.segment_bytes))
                file.allocate(wanted)
                self._allocated = wanted
            self.is_torn = True
            file.write(self._position, pieces)
            self.is_torn = False
        self._position += size
        self._written += batches
        points.reach(WRITTEN)

    def sync(self) -> None:
        """Return once the written batches are on disk. Raises OSError; then the file is not synced again."""
        with self.files.use(self.last.path, write=True) as file:
            try:
                file.sync()
            except OSError:
                self._sync_failed = self.is_torn = True
                raise

    def commit(self, *, synced: bool) -> None:
        """Make written batches visible to readers; those in other processes see them once published."""
        points.reach(SYNCED)
        segment, position = self.last, self.last.end_position
        index, producers, now_ms = segment.index, self.producers, self._clock.now_ms()
        for header, piece, marker in self._written:
            index.note(header.base_offset, position, header.max_timestamp)
            if header.producer_id != NO_PRODUCER:
                producers.note(header, marker, now_ms)
            position += len(piece)
        if self._written:
            segment.end_position, segment.end_offset = position, self._written[-1].header.next_offset
            producers.offset = self.end = segment.end_offset
        if synced:
            self.synced_position, self.synced_offset = position, self.end
        self._written, self._tentative = [], {}
        if now_ms >= self._forget_at_ms or producers.silent > self._settings.producers:
            self._forget_producers()

    def _forget_producers(self) -> None:
        now_ms, kept_ms = self._clock.now_ms(), int(self._settings.producer_seconds * 1000)
        self.producers.forget_silent(now_ms - kept_ms)
        if self.producers.silent > self._settings.producers:
            self.producers.forget_many(self._settings.producers * 3 // 4)
        self._forget_at_ms = now_ms + kept_ms // _FORGET_PARTS

    def _now_ms(self) -> int:
        return self._clock.now_ms()

    def synced(self) -> None:
        """Record that all committed batches are on disk."""
        self.synced_position, self.synced_offset = self.last.end_position, self.last.end_offset
        self.publish()

    @property
    def head(self) -> PartitionHead:
        """The head for readers in other processes."""
        if self._lost is not None:
            return PartitionHead(self.start, self.end, self.stable, *self._lost, self._changes)
        base = self.segments[-1].header.base_offset if self.segments else 0
        return PartitionHead(
            self.start, self.end, self.stable, base, self.synced_position, self.synced_offset, self._changes
        )

    def publish(self) -> None:
        """Publish the head to readers in other processes; if that fails, a later one reaches them."""
        try:
            self._heads.put(self.folder.partition, self.head)
        except OSError as exc:
            _unpublished(self._heads, exc)

    def reserve(self) -> None:
        """Reserve offsets on disk, before readers see records that are not synced. Raises OSError."""
        if self.next_offset > self._reserved:
            wanted = self.next_offset + _RESERVED_OFFSETS
            write_reservation(self.files.disk, self.folder.path, wanted)
            self._reserved = wanted

    def skip_to(self, offset: int) -> None:
        """Never assign an offset below this one, even after a crash; a new segment begins. Raises OSError."""
        disk, folder = self.files.disk, self.folder.path
        if offset > self._reserved:
            offset = max(offset, read_reservation(disk, folder))
            write_reservation(disk, folder, offset)
            self._reserved = offset
        forget_shortened(disk, folder)
        if offset > self.next_offset:
            self.next_offset, self._must_roll = offset, True

    # -- failing

    def refuse(self, exc: OSError, base: int) -> Error:
        """Refuse from now on; nothing was written from this offset on, so it is assigned next."""
        self.next_offset, self._tentative = base, {}
        return self._refused(exc)

    def fail(self, exc: OSError) -> Error:
        """Refuse from now on; written but unsynced batches are void. Return the refusal."""
        self._must_roll = True
        self._written, self._tentative = [], {}
        if self.segments:
            self._keep_synced()
            self._position = self.last.end_position
            self.files.forget(self.last.path)
        self.is_torn = False
        return self._refused(exc)

    def _refused(self, exc: OSError) -> Error:
        where = self.folder.label
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            refusal: Error = StoreFull(where)
        else:
            refusal = PartitionUnwritable(where, exc.strerror or str(exc))
        refusal.__cause__ = exc
        if self.refusal is None:
            logger.error("%s refuses writes: %s (%s)", where, exc.strerror or exc, self.folder.path)
        # Each try may cost offsets and a file, so pauses grow; they stay short enough to notice free space.
        self._pause_seconds = min(max(2 * self._pause_seconds, _RETRY_SECONDS), _LONGEST_PAUSE_SECONDS)
        self.refusal, self._retry_at = refusal, self._clock.monotonic() + self._pause_seconds
        return refusal

    def _keep_synced(self) -> None:
        """Sync the batches that were acknowledged before their sync, unless a sync has failed already."""
        if self.synced_position >= self.last.end_position:
            return
        try:
            if self._sync_failed:
                raise OSError(errno.EIO, "an earlier sync failed")
            self.sync()
            self.synced()
        except OSError:
            self._roll_back()

    def _roll_back(self) -> None:
        """Go back to the synced end: batches acknowledged before their sync are lost, as in a crash."""
        last = self.last
        self.end, self._producers = self.synced_offset, None  # before the segment's own end
        last.end_position, last.end_offset = self.synced_position, self.synced_offset
        last.known_index = None  # the segment now ends earlier
        self._changes += 1  # makes readers reload the segments
        self.publish()

    def recovered(self) -> None:
        """Accept writes again."""
        if self.refusal is not None:
            logger.warning("%s accepts writes again", self.folder.label)
            self.refusal, self._pause_seconds = None, 0.0

    # -- segments

    def roll(self) -> None:
        """Begin a new segment at the next offset, after syncing the old one. Raises OSError."""
        disk, old = self.files.disk, self.segments[-1] if self.segments else None
        before = self._lost or _SegmentPlace()
        if self._lost is None and old is not None:
            before = _SegmentPlace(old.base_offset, old.end_position, old.end_offset)
        topic, number, now_ms = self.folder.topic, self.folder.partition, self._clock.now_ms()
        header = SegmentHeader(topic, number, self.next_offset, self.leader_epoch, 0, now_ms, *before)
        path = self.folder.segment_path(self.next_offset)
        if old is not None and old.path == path:  # the old one is new itself: no offset was assigned since
            self._must_roll = False
            return
        if old is not None and self.synced_position < old.end_position:
            self.sync()  # the new segment's header states that the old one is on disk
            self.synced()
        if old is None:
            disk.make_folder(self.folder.path)
            disk.sync_folder(self.folder.path.parent)
            disk.sync_folder(self.folder.path.parent.parent)  # the topic's own folder may be new, too
        _make_segment(self.files, path, header)
        points.reach(ROLL_MADE)
        new = Segment(self.files, path, header, self._settings.index_bytes)
        new.known_index = SparseIndex(self._settings.index_bytes)
        self._begin(new)
        points.reach(ROLL_CLOSED)
        if old is not None:
            self._finish(old, cut=not self._keeps_tail)
        self._keeps_tail = False

    def _begin(self, new: Segment) -> None:
        """Make a new segment the last, its head durable: else a torn tail would count as damage. Raises OSError."""
        head = PartitionHead(
            self.start, self.end, self.stable, new.base_offset, HEADER_BYTES, new.base_offset, self._changes + 1
        )
        try:
            self._heads.put(self.folder.partition, head)
            self._heads.sync()
        except OSError:
            self.files.disk.remove(new.path)
            self.publish()
            raise
        self.segments, self._lost = [*self.segments, new], None
        self._must_roll, self._position, self._begun_ms = False, HEADER_BYTES, new.header.created_ms
        self._sync_failed = False
        self._allocated = _FIRST_ALLOCATION
        self.synced_position, self.synced_offset = HEADER_BYTES, new.base_offset
        self._changes += 1

    def _finish(self, old: Segment, *, cut: bool) -> None:
        """Write the index of a closed segment and free the space behind it; a failure does no harm."""
        try:
            if cut and not old.header.end_position:
                with self.files.use(old.path, write=True) as file:
                    file.truncate(old.end_position)
            self.files.forget(old.path)
            write_whole(self.files.disk, old.index_path, old.index.encode(old.end))
            points.reach(INDEXED)
            self._forget_producers()
            write_snapshot(self.files.disk, self.folder.path, self.producers)
            points.reach(SNAPPED)
        except OSError as exc:
            logger.warning("%s has no index: %s; it is rebuilt when needed", old.name, exc)

    def close(self) -> None:
        """Sync and write index and snapshot, so that the next start has little to do."""
        if not self.segments:
            return
        try:
            if self.refusal is not None:
                return
            if self.synced_position < self.last.end_position:
                self.sync()
                self.synced()
            if self._reserved:
                write_reservation(self.files.disk, self.folder.path, self.next_offset)
            self._forget_producers()
            producers = self.producers
            if producers.states or producers.aborted or producers.undecided:
                write_snapshot(self.files.disk, self.folder.path, producers)
            write_whole(self.files.disk, self.last.index_path, self.last.index.encode(self.last.end))
        except OSError as exc:
            logger.warning("%s was not closed cleanly: %s", self.folder.path, exc)

    # -- keeping less

    def trim(self, start: int) -> None:
        """Move the start, which the tables hold durably; segments below it are removed."""
        self.start = max(self.start, start)
        self.producers.forget_before(self.start)
        self.publish()
        points.reach(TRIMMED)
        if self.segments and self.start >= self.end and self._position > HEADER_BYTES and self.refusal is None:
            self.roll()  # the last segment holds no kept record either
        self._remove_before(self.start)

    def _remove_before(self, start: int) -> None:
        removed = [each for each in self.segments[:-1] if each.end_offset <= start]
        if not removed:
            return
        self.segments = self.segments[len(removed) :]
        self._changes += 1
        for each in removed:
            self.files.forget(each.path)
            self.files.disk.remove(each.path)
            self.files.disk.remove(each.index_path)
            self.files.disk.remove(each.path.with_suffix(".filter"))
            points.reach(REMOVED)
        self.publish()

    def replace(self, old: Segment, new: Segment) -> None:
        """Replace a segment by its rewritten form, whose file is in place already."""
        self.files.forget(old.path)
        self.segments = [new if each is old else each for each in self.segments]
        self._changes += 1
        self.publish()

    @property
    def index_bytes(self) -> int:
        """Distance between two marks of an index, in bytes."""
        return self._settings.index_bytes


def publish_all(partitions: Iterable[PartitionLog]) -> None:
    """Publish several partitions to readers in other processes; if that fails, later heads reach them."""
    by_topic: dict[HeadsFile, dict[int, PartitionHead]] = {}
    for each in partitions:
        by_topic.setdefault(each._heads, {})[each.folder.partition] = each.head
    for heads, published in by_topic.items():
        try:
            heads.put_all(published)
        except OSError as exc:
            _unpublished(heads, exc)


def _unpublished(heads: HeadsFile, exc: OSError) -> None:
    logger.warning("heads of %s could not be published: %s", heads.path, exc)


def _make_segment(files: OpenFiles, path: Path, header: SegmentHeader) -> None:
    """Create the file of a segment with its header, durably. Raises OSError; then no file is left."""
    disk, file = files.disk, files.disk.create(path)
    try:
        with closing(file):
            file.allocate(_FIRST_ALLOCATION)
            file.write(0, [header.encode()])
            file.sync()
        disk.sync_folder(path.parent)
    except OSError:
        disk.remove(path)
        raise
