"""The writer: one thread that assigns offsets, writes, syncs and acknowledges.

Each round takes all pending appends: it checks and places every batch, writes each partition's batches with one call,
syncs the written files in parallel, and then acknowledges all appends. Appends that arrive meanwhile form the next
round: the slower the disk, the larger the groups. Where the log does not wait for the disk, a small single append that
finds the writer idle runs in the caller's thread: two thread switches would take longer than the append.

Invariant: nothing is acknowledged, or visible to a reader, before it is on disk (where the log is set so). One thread
at a time, the holder of `_busy`, changes partitions, in the order of the calls; so partitions need no locks.
"""

import errno
import logging
import struct
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition, Thread
from typing import Any, NamedTuple, TypeVar

from penstock.clock import Clock
from penstock.errors import BufferFull, Error, MapChanged, PartitionUnwritable
from penstock.redaction import traced
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.record_batch import NO_PRODUCER, BatchHeader, Marker

from ..batches import WriteResult
from .partition import PartitionLog, PlacedBatch, publish_all
from .settings import FilesSettings

logger = logging.getLogger("penstock.files")
T = TypeVar("T")

_AT_ONCE_BYTES = 32 * 1024  # limit of an append in the caller's thread
_MOST_WRITTEN = 1 << 30  # most bytes of one write call
_PLACE = struct.Struct(">qii")  # start of a batch: its offset, its length, and the leader epoch


class PartitionWrite(NamedTuple):
    """Checked batches for one partition, or the error that refuses them."""

    partition: PartitionLog | None
    batches: Buffer
    headers: Sequence[tuple[int, BatchHeader]]
    marker: Marker | None = None
    check: Callable[[], bool] | None = None  # called at placing: is the placement still valid?
    verify: Callable[[PartitionLog, BatchHeader], None] | None = None  # may the batch be in its transaction?
    refusal: Error | None = None  # raised unless the batch is a repetition
    error: Error | None = None


class _Append:
    """Writes that are acknowledged together. `whole`: if one is refused, all are."""

    __slots__ = ("done", "results", "size", "whole", "writes")

    def __init__(self, writes: Sequence[PartitionWrite], done: Callable[[list[WriteResult]], None], whole: bool):
        self.writes, self.done, self.whole = writes, done, whole
        self.size = sum(len(each.batches) for each in writes)
        self.results = [WriteResult(error=each.error) for each in writes]


class _PartitionRound:
    def __init__(self) -> None:
        self.batches: list[PlacedBatch] = []
        self.size = 0  # of the batches, in bytes
        self.of: list[tuple[_Append, int, int]] = []  # append, index of its write, end offset
        self.error: Error | None = None
        self.unsynced = False


class LogWriter:
    """The one writer of a log. `append` and `call` are safe from any thread."""

    def __init__(self, settings: FilesSettings, clock: Clock, moved: Callable[[PartitionLog], None]) -> None:
        self._settings, self._clock, self._moved = settings, clock, moved
        self._is_strict = settings.durability == "fsync"
        self._lock = Condition()
        self._waiting: deque[_Append | tuple[Callable[[], Any], Future[Any]]] = deque()
        self._waiting_bytes = 0
        self._stopping = self._busy = False
        self._dirty: dict[PartitionLog, None] = {}  # acknowledged and not synced
        self._dirty_since = 0.0
        self._pool = ThreadPoolExecutor(settings.sync_threads, thread_name_prefix="penstock-sync")
        self._thread = Thread(target=self._run, name="penstock-writer", daemon=True)
        self._thread.start()

    # -- calls

    def append(
        self,
        writes: Sequence[PartitionWrite],
        done: Callable[[list[WriteResult]], None],
        *,
        whole: bool = False,
        wait: bool = True,
        at_once: bool = False,
    ) -> None:
        """Hand batches over, or raise BufferFull unless `wait`; `at_once`: `done` may be called before this returns."""
        append = _Append(writes, done, whole)
        if at_once and not self._is_strict and append.size <= _AT_ONCE_BYTES and self._done_at_once(append):
            return
        most = self._settings.buffer_bytes
        with self._lock:
            while self._waiting_bytes and self._waiting_bytes + append.size > most and not self._stopping:
                if not wait:
                    raise BufferFull(self._waiting_bytes, most)
                self._lock.wait()
            if self._stopping:
                raise RuntimeError("the writer is stopped")
            self._waiting.append(append)
            self._waiting_bytes += append.size
            self._lock.notify_all()

    def append_and_wait(
        self, writes: Sequence[PartitionWrite], *, whole: bool = False, at_once: bool = False
    ) -> list[WriteResult]:
        """Append, and wait until all is durable or refused."""
        finished: Future[list[WriteResult]] = Future()
        self.append(writes, finished.set_result, whole=whole, at_once=at_once)
        return finished.result()

    @property
    def may_take_at_once(self) -> bool:
        """Whether an append may run in the caller's thread: no sync is needed and the writer is idle."""
        return not (self._is_strict or self._busy or self._waiting)

    def append_at_once(self, writes: Sequence[PartitionWrite]) -> list[WriteResult] | None:
        """Do a small append in this thread, all or none; None if it would have to wait."""
        append = _Append(writes, lambda results: None, whole=True)
        if self._is_strict or append.size > _AT_ONCE_BYTES or not self._done_at_once(append):
            return None
        return append.results

    def append_one(
        self, partition: PartitionLog, batch: memoryview, header: BatchHeader, check: Callable[[], bool] | None = None
    ) -> WriteResult | None:
        """Do a round for one small, checked batch outside transactions, in a writable buffer; None if it must wait."""
        size = len(batch)
        if self._is_strict or self._busy or size > _AT_ONCE_BYTES or not self._begin_alone():
            return None
        was_clean = not self._dirty
        try:
            if not partition.takes_at_once(size, header.record_count):  # checked under `_busy`
                return None
            if check is not None and not check():
                return None
            return self._written_alone(partition, batch, header)
        finally:
            self._end_alone(was_clean)

    def _written_alone(self, partition: PartitionLog, batch: memoryview, header: BatchHeader) -> WriteResult:
        base, size = partition.next_offset, len(batch)
        try:
            if header.producer_id != NO_PRODUCER:
                before = partition.repeated(header)
                if before is not None:
                    return WriteResult(before.base_offset, partition.start)
            epoch = partition.leader_epoch
            _PLACE.pack_into(batch, 0, base, header.length, epoch)
            placed = BatchHeader._make((base, header.length, epoch, *header[3:]))
            partition.next_offset = base + header.last_offset_delta + 1
            partition.write((PlacedBatch(placed, batch),), size)
            if not self._dirty:
                self._dirty_since = self._clock.monotonic()
            partition.commit(synced=False)
            self._dirty[partition] = None
            partition.publish()
        except Error as exc:
            return WriteResult(error=exc, start=partition.start)
        except OSError as exc:
            failed = partition.fail(exc) if partition.is_torn else partition.refuse(exc, base)
            return WriteResult(error=failed)
        except Exception as exc:
            logger.error("an append failed unexpectedly", exc_info=traced(exc))
            partition.fail(OSError(errno.EIO, str(exc)))  # assigned and unwritten offsets are void
            return WriteResult(error=PartitionUnwritable("the log", str(exc)))
        self._moved(partition)
        return WriteResult(base, partition.start)

    def _done_at_once(self, append: _Append) -> bool:
        if self._busy or not all(_is_simple(each) for each in append.writes) or not self._begin_alone():
            return False
        was_clean = not self._dirty
        try:
            self._round([append], handed_over=False)
        finally:
            self._end_alone(was_clean)
        return True

    def _begin_alone(self) -> bool:
        """Take `_busy` for this thread; False if another thread has it or work is pending."""
        with self._lock:
            if self._busy or self._waiting or self._stopping:
                return False
            self._busy = True
        return True

    def _end_alone(self, was_clean: bool) -> None:
        with self._lock:
            self._busy = False
            if self._waiting or self._stopping or (was_clean and self._pause() is not None):
                self._lock.notify_all()  # otherwise the writer's thread has nothing to do

    def call(self, work: Callable[[], T]) -> T:
        """Run a function in the writer's thread, between two rounds, and return its result."""
        future: Future[T] = Future()
        with self._lock:
            if self._stopping:
                raise RuntimeError("the writer is stopped")
            self._waiting.append((work, future))
            self._lock.notify_all()
        return future.result()

    def stop(self) -> None:
        """Finish all pending work, sync, and end the thread."""
        with self._lock:
            self._stopping = True
            self._lock.notify_all()
        self._thread.join()
        self._pool.shutdown()

    # -- the thread

    def _run(self) -> None:
        while True:
            with self._lock:
                while self._busy or not (self._waiting or self._stopping):
                    if not self._lock.wait(self._pause()) and not self._busy:
                        break
                taken, self._waiting = self._waiting, deque()
                stopping = self._stopping and not taken
                self._busy = True
            try:
                self._work(taken)
                if self._dirty and (stopping or self._pause() == 0):
                    self._sync_dirty()
            except Exception as exc:
                logger.error("the writer of a log in files failed unexpectedly", exc_info=traced(exc))
            with self._lock:
                self._busy = False
            if stopping:
                return

    def _pause(self) -> float | None:
        """Return the time until the next sync is due; None: never."""
        if not self._dirty or self._settings.durability == "os":
            return None
        passed = self._clock.monotonic() - self._dirty_since
        return max(0.0, self._settings.interval_seconds - passed)

    def _work(self, taken: "deque[_Append | tuple[Callable[[], Any], Future[Any]]]") -> None:
        group: list[_Append] = []
        while taken:
            each = taken.popleft()
            if isinstance(each, _Append):
                group.append(each)
                continue
            self._round(group)
            group = []
            work, future = each
            try:
                future.set_result(work())
            except BaseException as exc:
                future.set_exception(exc)
        self._round(group)

    def _round(self, group: list[_Append], *, handed_over: bool = True) -> None:
        if not group:
            return
        rounds: dict[PartitionLog, _PartitionRound] = {}
        try:
            for append in group:
                self._place(append, rounds)
            for partition, work in rounds.items():
                self._write(partition, work)
            self._settle(rounds)
        except Exception as exc:
            logger.error("a round of the writer failed unexpectedly", exc_info=traced(exc))
            for partition in rounds:  # assigned offsets may be unwritten: they are void
                partition.fail(OSError(errno.EIO, str(exc)))
            for append in group:
                append.results = [WriteResult(error=PartitionUnwritable("the log", str(exc))) for _ in append.writes]
        if handed_over:
            with self._lock:
                self._waiting_bytes -= sum(each.size for each in group)
                self._lock.notify_all()
        for append in group:
            try:
                append.done(append.results)
            except Exception as exc:
                logger.error("the callback of an append failed", exc_info=traced(exc))
        for partition, work in rounds.items():
            if work.of and work.error is None:
                self._moved(partition)

    # -- one round

    def _place(self, append: _Append, rounds: dict[PartitionLog, _PartitionRound]) -> None:
        for number, write in enumerate(append.writes):
            if write.partition is not None and write.error is None:
                try:
                    write.partition.check_writable()
                    if write.check is not None and not write.check():
                        raise MapChanged
                    if append.whole:
                        for _, header in write.headers:
                            write.partition.repeated(header)
                except Error as exc:
                    append.results[number] = WriteResult(error=exc)
        refused = next((each.error for each in append.results if each.error is not None), None)
        if append.whole and refused is not None:
            append.results = [WriteResult(error=refused) for _ in append.writes]
            return
        for number, write in enumerate(append.writes):
            if write.partition is None or append.results[number].error is not None:
                continue
            work = rounds.setdefault(write.partition, _PartitionRound())
            append.results[number] = self._placed(append, number, write, write.partition, work)

    def _placed(
        self, append: _Append, number: int, write: PartitionWrite, partition: PartitionLog, work: _PartitionRound
    ) -> WriteResult:
        buffer = write.batches
        if isinstance(buffer, bytes) or (isinstance(buffer, memoryview) and buffer.readonly):
            buffer = bytearray(buffer)
        base, offset, epoch = -1, partition.next_offset, partition.leader_epoch
        view, batches = memoryview(buffer), work.batches
        for at, header in write.headers:
            is_produced = header.producer_id != NO_PRODUCER  # otherwise there is no sequence to check
            if is_produced:
                try:
                    before = None if header.is_control else partition.repeated(header)
                    if before is None and write.verify is not None:
                        write.verify(partition, header)
                    if before is None and write.refusal is not None:
                        raise write.refusal
                except Error as exc:
                    return WriteResult(error=exc, start=partition.start)
                if header.is_control and not partition.has_open(header.producer_id):
                    continue  # it has ended already, or never reached this partition
                if before is not None:
                    base = before.base_offset if base < 0 else base
                    continue
            length, size = header.length, header.size
            _PLACE.pack_into(view, at, offset, length, epoch)
            header = BatchHeader._make((offset, length, epoch, *header[3:]))
            base = offset if base < 0 else base
            partition.next_offset = offset = offset + header.last_offset_delta + 1
            if is_produced:
                partition.expect(header)
            batches.append(PlacedBatch(header, view[at : at + size], write.marker))
            work.size += size
        work.of.append((append, number, partition.next_offset))
        return WriteResult(base, partition.start)

    def _write(self, partition: PartitionLog, work: _PartitionRound) -> None:
        left = deque(work.batches)
        run: list[PlacedBatch] = []
        try:
            if left and work.size <= _MOST_WRITTEN and partition.has_room(work.size):
                partition.write(work.batches, work.size)
                work.unsynced = True
                left.clear()
            while left:
                run, size = [], 0
                while left and partition.has_room(size + len(left[0].piece)):
                    size += len(left[0].piece)
                    run.append(left.popleft())
                    if size > _MOST_WRITTEN:
                        break
                if run:
                    partition.write(run, size)
                    work.unsynced = True
                    run = []
                    continue
                if work.unsynced or partition in self._dirty:
                    self._finish(partition, work)
                self._roll(partition, left[0].header.base_offset)
            if not self._is_strict:
                partition.reserve()
        except OSError as exc:
            unwritten = run or left
            if partition.is_torn or not unwritten:
                work.error = partition.fail(exc)
            else:
                self._refuse(partition, work, unwritten[0].header.base_offset, exc)

    def _refuse(self, partition: PartitionLog, work: _PartitionRound, base: int, exc: OSError) -> None:
        """Commit the written batches; refuse those that found no space, which left no trace."""
        try:
            if work.unsynced:
                self._finish(partition, work)
        except OSError as failure:
            work.error = partition.fail(failure)
        else:
            work.error = partition.refuse(exc, base)

    def _finish(self, partition: PartitionLog, work: _PartitionRound) -> None:
        partition.sync()
        partition.commit(synced=True)
        partition.publish()
        self._dirty.pop(partition, None)
        work.unsynced = False

    def _roll(self, partition: PartitionLog, base: int) -> None:
        following, partition.next_offset = partition.next_offset, base
        try:
            partition.roll()
        finally:
            partition.next_offset = following

    def _settle(self, rounds: dict[PartitionLog, _PartitionRound]) -> None:
        written = [each for each, work in rounds.items() if work.unsynced and work.error is None]
        if self._is_strict:
            for partition, failure in self._sync(written).items():
                rounds[partition].error = partition.fail(failure)
        elif written and not self._dirty:
            self._dirty_since = self._clock.monotonic()
        published: list[PartitionLog] = []
        for partition, work in rounds.items():
            if work.error is None:
                if work.unsynced:
                    partition.commit(synced=self._is_strict)
                    published.append(partition)
                    if not self._is_strict:
                        self._dirty[partition] = None
                if work.batches:
                    partition.recovered()
                continue
            for append, number, last in work.of:
                if last > partition.end:  # the others were synced before the failure
                    append.results[number] = WriteResult(error=work.error)
        publish_all(published)

    def _sync(self, partitions: Sequence[PartitionLog]) -> dict[PartitionLog, OSError]:
        failed: dict[PartitionLog, OSError] = {}
        if len(partitions) == 1:
            try:
                partitions[0].sync()
            except OSError as exc:
                failed[partitions[0]] = exc
            return failed
        futures = [(each, self._pool.submit(each.sync)) for each in partitions]
        for partition, future in futures:
            try:
                future.result()
            except OSError as exc:
                failed[partition] = exc
        return failed

    def _sync_dirty(self) -> None:
        dirty, self._dirty = list(self._dirty), {}
        failed = self._sync(dirty)
        for partition in dirty:
            if partition in failed:
                partition.fail(failed[partition])
            else:
                partition.synced()


def _is_simple(write: PartitionWrite) -> bool:
    """Return whether a write is quick: no tables, no new file, no allocation."""
    partition = write.partition
    if partition is None or write.verify is not None:
        return False
    return partition.takes_at_once(len(write.batches), sum(each.record_count for _, each in write.headers))
