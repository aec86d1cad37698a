"""Reading the log for a group's delivery."""

import logging
from collections.abc import Collection, Iterable, Sequence

from penstock.delivery.lane import lane_of
from penstock.delivery.machine import WINDOW
from penstock.delivery.store import GroupStore
from penstock.errors import CursorBeyondEnd
from penstock.log.contract import Chunk, Log, OffsetRange, Position
from penstock.log.entry import readable
from penstock.model.limits import ERASED
from penstock.model.record import Record

from ..handler import Handler, Subscription
from ..known_log import ReadCache
from . import bounds
from .owned_partitions import OwnedPartitions
from .partition_work import PartitionWork, RecordBuffer, Taken

logger = logging.getLogger("penstock.delivery")

Read = list[tuple[Record, Exception | None]]  # a record that cannot be read comes with the error


class GroupReader:
    """Reads the log for the owned partitions and feeds their machines, as far as the bounds allow.

    `fill` reads on: first the records that a former owner had not settled, then those that come next. `fetch` reads the
    records of lanes that waited, from their own copies where they have some. One thread, the delivery loop's.
    """

    def __init__(
        self,
        log: Log,
        store: GroupStore,
        subscription: Subscription,
        partitions: OwnedPartitions,
        records: RecordBuffer,
    ) -> None:
        self._log, self._store, self._subscription = log, store, subscription
        self._partitions, self._records = partitions, records
        self._source: Log | ReadCache = log
        self._ends: dict[int, int] | None = None  # not known yet
        self._takes = 0  # how often partitions had been taken at that time
        self._first = self._incarnation = 0
        self.is_held_up = False  # reading on in some partition waits until results there are settled
        self.is_behind = False  # not all that is known of the log is read, or may not be
        self._was_ahead = False  # of the ends, at the last look
        self.stopped: CursorBeyondEnd | None = None  # the group is at a place where the log lost records
        self.unreported: list[str] = []  # the types of records passed over and not reported yet

    def read_through(self, cache: ReadCache) -> None:
        """Share reads with other groups."""
        self._source = cache

    def end(self, work: PartitionWork) -> int | None:
        """Return the end of the log in a partition; None if the last look came before the partition was taken."""
        return None if self._ends is None or work.take > self._takes else self._ends.get(work.number, 0)

    def fill(self, ends: dict[int, int], grown: Collection[int] = ()) -> bool:
        """Read on; return whether there was anything. `grown`: since the last call, if `ends` is the same mapping."""
        former, self.is_held_up, self.is_behind = self._ends, False, False
        taken, self._takes = self._takes != self._partitions.takes, self._partitions.takes
        if former is None:
            self._incarnation = self._log.identity().incarnation
        elif former is not ends and ends:  # the ends of a deleted topic are empty
            self._look_back(former, ends)
        if former is ends:
            self._partitions.wake(grown)
        else:
            self._partitions.wake_all()
            self._partitions.rest(ends)
        self._ends = ends
        was_ahead = self._was_ahead
        if taken or was_ahead or former is not ends:
            self._was_ahead = self._is_ahead(ends)
        if taken or was_ahead or self._was_ahead or self.stopped is not None:
            self._look_for_loss()
        if self.stopped is not None or self.is_full():
            return False
        self.is_behind = holes = self._fill_holes()
        behind = [
            work
            for work in self._partitions.awake()
            if not work.borrowed
            and ends.get(work.number, 0) > work.machine.position
            and not work.leaving
            and not work.has_holes
            and work.owned.barrier.is_open
        ]
        if not behind:
            return holes
        ranges, share = [], max(1, bounds.READ_RECORDS // len(behind))
        self._first = (self._first + 1) % len(behind)  # so that a truncated read starves no partition
        for work in behind[self._first :] + behind[: self._first]:
            number, machine = work.number, work.machine
            position = machine.position
            if machine.room() <= 0:
                machine.relieve()
            ahead = work.settled_to + bounds.AHEAD - position
            if ahead <= 0 and (len(work.finished) >= bounds.AHEAD // 2 or not machine.out()):
                self.is_held_up = True
            left = ends[number] - position
            count = min(share, ahead, machine.room(), left)
            self.is_behind |= 0 < count < left
            if count > 0:
                ranges.append(OffsetRange(number, position, position + count))
        records, is_cut = self._read(ranges)
        for record, error in records:
            self._feed(record, error)
        read = {record.partition for record, _ in records}
        empty = [] if is_cut else [Position(number, low) for number, low, _ in ranges if number not in read]
        jumped = self._jump(empty, ends)
        self.is_behind |= is_cut or jumped or len(records) < sum(high - low for _, low, high in ranges)
        return jumped or holes or bool(records)

    def _is_ahead(self, ends: dict[int, int]) -> bool:
        """Return whether a partition is read beyond these ends, which may be outdated."""
        return any(work.machine.position > ends.get(work.number, 0) for work in self._partitions if not work.borrowed)

    def _look_for_loss(self) -> None:
        """Stop, or resume, depending on whether the group is at a place where the log lost records."""
        before, self.stopped = self.stopped, None
        lost = self._log.shortened(self._store.topic)
        for work in self._partitions if lost else ():
            position, (_, low, high) = work.machine.position, lost.get(work.number, (0, 0, 0))
            if low < position <= high:
                self.stopped = CursorBeyondEnd(
                    self._subscription.group, self._store.topic.name, work.number, position, low
                )
                break
        if (self.stopped is None) != (before is None):
            fields = {"group": self._subscription.group, "topic": self._store.topic.name}
            if self.stopped is not None:
                logger.error("%s", self.stopped, extra=fields)
            else:
                logger.warning("group %s goes on", self._subscription.group, extra=fields)

    def let_rest(self) -> None:
        """Skip partitions in which everything is read, done and settled, until something new comes."""
        if self._ends is not None and self._takes == self._partitions.takes:
            self._partitions.rest(self._ends)

    def fetch(self, taken: Sequence[Taken]) -> set[tuple[int, int]]:
        """Read the records of lanes that waited; return the places left out this time, because of the size bound."""
        missing = sorted((work.number, each.offset) for work, each in taken if each.offset not in work.records)
        if not missing:
            return set()
        copied = {work.number: work.owned.copied for work, _ in taken}
        logged = [place for place in missing if place[1] not in copied[place[0]]]
        records, is_cut = self._read([OffsetRange(number, offset, offset + 1) for number, offset in logged])
        found = self._keep_all(records)
        unread = {place for place in missing if place > found[-1]} if is_cut else set()
        gone = [place for place in missing if place not in found and place not in unread]
        if gone:
            copies, is_cut = self._records_of(self._store.copies(gone, max_bytes=bounds.READ_BYTES))
            found = self._keep_all(copies)
            # Within a run no record may go out before one that was cut off, wherever it was read.
            unread |= {place for place in missing if place > found[-1]} if is_cut else set()
        return unread

    def _jump(self, places: list[Position], ends: dict[int, int]) -> bool:
        """Jump to the next offset that the log holds, where retention deleted some; return whether one jumped."""
        if not places:
            return False
        firsts = self._log.first_offsets(self._store.topic, places)
        jumped = [self._work(number).machine.jump(firsts.get(number, ends[number])) for number, _ in places]
        return any(jumped)

    def is_full(self) -> bool:
        """Return whether reading must wait until some of the waiting records are done."""
        lanes = entries = 0
        for work in self._partitions.awake():  # the others have none
            machine = work.machine
            lanes += machine.stored_count
            entries += machine.entry_count
        return lanes > bounds.LANES_BOUND or entries > bounds.ENTRIES_BOUND or self._records.is_full()

    def _look_back(self, former: dict[int, int], ends: dict[int, int]) -> None:
        """Release the partitions whose log has become shorter: its history was rolled back, as by a restore.

        They are taken again from the group's position there. The log's incarnation is raised, so that pipelines stop.
        """
        for work in [each for each in self._partitions if not each.borrowed]:
            number, end = work.number, ends.get(work.number, 0)
            if end < former.get(number, 0):
                back = (
                    "partition %d of %s ends at %d, and ended at %d before: its history was taken back, as "
                    "by a restored backup; the group goes on from where it stands there"
                )
                topic = self._store.topic.name
                fields = {"group": self._subscription.group, "topic": topic, "partition": number, "offset": end}
                logger.error(back, number, topic, end, former[number], extra=fields)
                self._incarnation = self._log.raise_incarnation(self._incarnation).incarnation
                position = work.machine.position
                self._partitions.note_lost(number, set(range(max(0, position - WINDOW), position)))
                self._partitions.lose(number)
                self._partitions.needs_check = True

    def _fill_holes(self) -> bool:
        """Feed the records that a former owner had not settled below its position."""
        with_holes = [
            work
            for work in self._partitions.awake()
            if work.has_holes and not work.borrowed and not work.machine.is_stopped and work.owned.barrier.is_open
        ]
        holes = sorted((work.number, hole) for work in with_holes for hole in work.machine.missing())
        records, is_cut = self._read([OffsetRange(number, hole, hole + 1) for number, hole in holes])
        found = {(record.partition, record.offset): (record, error) for record, error in records}
        last = max(found, default=None) if is_cut else None
        for number, hole in holes:
            if last is not None and (number, hole) > last:
                break  # size bound reached: the rest is read next time
            if (number, hole) in found:
                self._feed(*found[number, hole])
            else:
                self._work(number).machine.omit(hole)
        for work in with_holes:
            work.has_holes = bool(work.machine.missing())
        return bool(holes)

    def _feed(self, record: Record, error: Exception | None) -> None:
        number, offset = record.partition, record.offset
        assert number is not None
        assert offset is not None
        work = self._partitions.get(number)
        assert work is not None
        if record.type == ERASED:
            work.machine.omit(offset)
            return
        handler = self._handler(record, error)
        if handler is None:
            type = record.type or ""
            unhandled = None if self._subscription.wants(type) else type
            again = work.is_doubtful(offset)
            work.machine.feed(offset, lane_of(record), False, unhandled_type=unhandled, again=again)
            if unhandled is not None:
                self.unreported.append(type)
            return
        if work.machine.feed(offset, lane_of(record), wanted=True):
            self._records.keep(work, offset, record, handler)

    def _keep_all(self, records: Iterable[tuple[Record, Exception | None]]) -> list[tuple[int, int]]:
        places = []
        for record, error in records:
            assert record.partition is not None
            assert record.offset is not None
            places.append((record.partition, record.offset))
            handler = self._handler(record, error)
            work, type = self._work(record.partition), record.type or ""
            if handler is not None:
                self._records.keep(work, record.offset, record, handler)
            elif type != ERASED and not self._subscription.wants(type):
                work.unhandled[record.offset] = type
                self.unreported.append(type)
        return places

    def _handler(self, record: Record, error: Exception | None) -> Handler | None:
        """Return the handler for a record; an unreadable record gets a handler that fails."""
        if record.type == ERASED:
            return None
        if error is not None:
            return self._subscription.handlers[0].failing(error)
        return self._subscription.handler_for(record)

    def _read(self, ranges: list[OffsetRange]) -> tuple[Read, bool]:
        if not ranges:
            return [], False
        chunk = self._source.read_ranges(self._store.topic, ranges, max_bytes=bounds.READ_BYTES)
        return self._records_of(chunk)

    def _records_of(self, chunk: Chunk) -> tuple[Read, bool]:
        """Return the records as handlers see them, each with the epoch of its partition."""
        topic = self._store.topic.name
        fences = self._partitions.fences({each.partition for each in chunk.entries})
        return [readable(topic, each, fences[each.partition]) for each in chunk.entries], chunk.cut

    def _work(self, number: int) -> PartitionWork:
        work = self._partitions.get(number)
        assert work is not None, "nothing is read for a partition that is not owned"
        return work
