"""The engine of one group on one topic: reads the log, asks the machines what may run, settles what has.

It joins the partitions' state machines with their rows and with the records' payloads. It calls no handler
and knows no thread: a loop above it does (`drain` in the caller's thread, the pump of a running worker).

After a crash its partitions are worked with care: one record at a time in the whole engine, its offset
written down first, until all that may have been handed out by the lost owner is settled. The third crash on
one record makes it a dead letter.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from penstock.clock import Clock
from penstock.delivery.machine import Delivery, Partition, Settlement
from penstock.delivery.store import CRASHES_UNTIL_DEAD, GroupStore, Living, Owned
from penstock.delivery.verdict import Dead, OnExhausted, Parked, Passed, Verdict
from penstock.errors import UnknownTopic
from penstock.log.contract import Chunk, Log, OffsetRange, Position, Topic
from penstock.log.entry import readable
from penstock.model.limits import ERASED
from penstock.model.record import Record

from .handlers import Handler, Subscription
from .shelf import Shelf
from .task import Place, Task

log = logging.getLogger("penstock.delivery")

AHEAD = 100  # records of a partition fed beyond the last that is settled: what may be handed out at most
READ_RECORDS = 5000  # in one look at the log, over all partitions
READ_BYTES = 16_000_000  # of values in one look
HELD_BYTES = 64_000_000  # of values in memory; above it nothing more is read
LANES_BOUND = 10_000  # waiting lanes of a group in one process; above it nothing more is fed
ENTRIES_BOUND = 100_000  # records in them

_KILLED = f"killed its worker {CRASHES_UNTIL_DEAD} times"
_INTERRUPTED = "its worker stopped before it had ended"


@dataclass(slots=True)
class Work:
    """One owned partition at work."""

    owned: Owned
    machine: Partition
    doubtful_to: int  # records below may have been handed out before
    doubtful: set[int]  # and these: they waited in lanes, or were out when we lost the partition
    records: dict[int, tuple[Record, Handler]] = field(default_factory=dict)
    settled_to: int = 0  # nothing at or above is settled, as its row says
    finished: list[int] = field(default_factory=list)  # what is done, but not settled
    writing: int = 0  # how many of these are in the settling that is written now
    has_holes: bool = True
    leaving: bool = False
    borrowed: bool = False  # a unit of work has it: its machine is not to be touched


class Engine:
    """Delivery to one group by one member. Not thread-safe: one loop owns it."""

    def __init__(self, log: Log, store: GroupStore, subscription: Subscription, clock: Clock) -> None:
        self._log, self._store, self._subscription, self._clock = log, store, subscription, clock
        self._reader: Log | Shelf = log
        self._works: dict[int, Work] = {}
        self._ends: dict[int, int] | None = None  # not known yet
        self._unsettled: dict[int, tuple[Owned, Settlement]] = {}
        self._careful_out: Place | None = None
        self._lost_out: dict[int, set[int]] = {}  # what was handed out, and not settled, when one was lost
        self._turn = 0
        self._held_bytes = self._first = 0
        self.in_flight = 0  # tasks that its loop has handed on
        self.needs_check = False  # what it lost may be its own still, as the rows say: see `check`
        self.is_held_up = False  # it reads on in some partition once what is done there is settled

    def read_through(self, shelf: Shelf) -> None:
        """Share what is read with other groups."""
        self._reader = shelf

    @property
    def subscription(self) -> Subscription:
        """Whom it delivers to."""
        return self._subscription

    @property
    def topic(self) -> str:
        """The name of the topic it reads."""
        return self._store.topic.name

    # -- partitions come and go

    def take(self, living: Living) -> None:
        """Own the partitions that have work and no living owner."""
        self._own(self._store.take(living))

    def take_wanted(self, living: Living) -> None:
        """Own the partitions that are meant for this member and have no living owner."""
        self._own(self._store.take_wanted(living))

    def check(self) -> None:
        """Compare with the rows: drop what is no longer ours, let go what is meant for another.

        What the rows say is ours and this process does not know of (a settling in doubt, a topic reset) is
        given back, to be taken afresh.
        """
        rows = self._store.owned()
        for number in [n for n, work in self._works.items() if rows.get(n, (-1,))[0] != work.owned.epoch]:
            self._lose(number)
        self._store.release(rows.keys() - self._works.keys())
        for number, work in self._works.items():
            if not rows[number][1]:
                work.leaving = True

    def is_paused(self) -> bool:
        """Return whether the group is given nothing until a person resumes it."""
        return self._store.is_paused()

    def let_go(self) -> None:
        """Begin to give everything back: nothing more is started."""
        for work in self._works.values():
            work.leaving = True

    def release_idle(self) -> None:
        """Settle and give back the partitions that are to be let go and have nothing out."""
        idle = [
            number
            for number, work in self._works.items()
            if work.leaving and not work.borrowed and not work.machine.out()
        ]
        if idle:
            self.settle()
            gone = [number for number in idle if number in self._works]
            self._store.release(gone)
            for number in gone:
                self._lose(number)

    def release(self) -> None:
        """Give everything back."""
        gone = list(self._works)
        for number in gone:
            self._lose(number)
        self._store.release(gone)

    def owns(self) -> int:
        """Return how many partitions are owned."""
        return len(self._works)

    def share(self) -> float:
        """Return which part of the topic's partitions is owned, and not about to be let go."""
        return sum(not work.leaving for work in self._works.values()) / self._store.topic.partitions

    def is_over(self, task: Task) -> bool:
        """Return whether a task's partition is to be let go, or is gone, though it may have come back."""
        work = self._works.get(task.place.partition)
        return work is None or work.leaving or work.owned.epoch != task.record.fence

    # -- records in

    def fill(self, ends: dict[int, int]) -> bool:
        """Read what the log holds beyond what is known; return whether there was anything."""
        self._ends, self.is_held_up = ends, False
        if self._is_full():
            return False
        holes = self._fill_holes()
        behind = [
            (number, work)
            for number, work in self._works.items()
            if not work.borrowed
            and ends.get(number, 0) > work.machine.position
            and not work.leaving
            and not work.has_holes
        ]
        if not behind:
            return holes
        ranges, share = [], max(1, READ_RECORDS // len(behind))
        self._first = (self._first + 1) % len(behind)  # so that a read that is cut off starves nobody
        for number, work in behind[self._first :] + behind[: self._first]:
            machine = work.machine
            position = machine.position
            if machine.room() <= 0:
                machine.relieve()
            ahead = work.settled_to + AHEAD - position
            if ahead <= 0 and (len(work.finished) >= AHEAD // 2 or not machine.out()):
                self.is_held_up = True
            count = min(share, ahead, machine.room(), ends[number] - position)
            if count > 0:
                ranges.append(OffsetRange(number, position, position + count))
        records, is_cut = self._read(ranges)
        for record, error in records:
            self._feed(record, error)
        read = {record.partition for record, _ in records}
        empty = [] if is_cut else [Position(number, low) for number, low, _ in ranges if number not in read]
        return self._jump(empty, ends) or holes or bool(records)

    def _jump(self, places: list[Position], ends: dict[int, int]) -> bool:
        """Go on where the log goes on, in partitions where it holds nothing next; return whether one does.

        So a group that retention has waited for long enough begins again at what is kept.
        """
        if not places:
            return False
        firsts = self._log.first_offsets(self._store.topic, places)
        jumped = [self._works[number].machine.jump(firsts.get(number, ends[number])) for number, _ in places]
        return any(jumped)

    def _is_full(self) -> bool:
        lanes = sum(work.machine.stored_count for work in self._works.values())
        entries = sum(work.machine.entry_count for work in self._works.values())
        return lanes > LANES_BOUND or entries > ENTRIES_BOUND or self._held_bytes > HELD_BYTES

    # -- tasks out

    def start(self, limit: int, run: int = 1) -> list[Task]:
        """Hand out up to so many records: of each lane its oldest, and of a run up to so many."""
        now_ms, taken = self._clock.now_ms(), list[tuple[int, Work, Delivery]]()
        try:
            for number, work in self._in_turn():
                if work.leaving or work.machine.idle(now_ms):
                    continue
                if work.owned.crashes:
                    if self._careful_out is None:
                        taken += self._careful(number, work, now_ms)
                    continue
                taken += [(number, work, each) for each in work.machine.take(now_ms, limit - len(taken), run)]
                if len(taken) >= limit:
                    self._turn = number + 1
                    break
            cut = self._fetch(taken)
        except BaseException:  # nothing stays out that nobody was told of
            self._take_back(taken)
            if self._careful_out in [Place(number, each.offset) for number, _, each in taken]:
                self._careful_out = None
            raise
        if cut:
            self._take_back([each for each in taken if (each[0], each[2].offset) in cut])
            taken = [each for each in taken if (each[0], each[2].offset) not in cut]
        return self._tasks(taken)

    def next_due_ms(self) -> int | None:
        """Return when the next waiting lane is due, if one waits."""
        due = [
            work.machine.next_due_ms()
            for work in self._works.values()
            if not work.leaving and not work.borrowed
        ]
        return min((each for each in due if each is not None), default=None)

    def finish(self, task: Task, verdict: Verdict | None) -> None:
        """Take note of what became of a task; None: it was not begun."""
        if verdict is None:
            self.untake([task])
            return
        number, offset = task.place
        if task.place == self._careful_out:
            self._careful_out = None
        work = self._works.get(number)
        if work is None or work.owned.epoch != task.record.fence:
            return  # it was lost meanwhile, and its new owner will do it again
        work.machine.finish(offset, verdict)
        if verdict.__class__ is not Passed:
            for waiting in work.machine.stored(task.lane):
                self._drop(work, waiting)
        self._done(work, offset)
        work.finished.append(offset)

    def _done(self, work: Work, offset: int) -> None:
        """Forget a record that is finished."""
        self._drop(work, offset)
        work.doubtful.discard(offset)

    def interrupt(self, task: Task) -> None:
        """Take note that nobody waits for a task any more that began: it comes again, and is marked."""
        self.finish(task, Parked(self._clock.now_ms(), task.failures, _INTERRUPTED))

    def untake(self, tasks: Iterable[Task]) -> None:
        """Take back tasks that were never started."""
        for task in tasks:
            if task.place == self._careful_out:
                self._careful_out = None
            work = self._works.get(task.place.partition)
            if work is not None and work.owned.epoch == task.record.fence:
                work.machine.untake(task.place.offset)

    # -- what is written

    def settle(self) -> None:
        """Write down all that has changed; drop the partitions that another owner has taken.

        When the store is away it raises, and the next call begins with the same writing again: done twice,
        it finds the version changed and the partition is taken afresh.
        """
        self._write()
        for number, work in self._works.items():
            if work.borrowed:
                continue
            if work.owned.crashes and self._is_calm(number, work):
                work.owned.crashes, work.owned.trying, work.doubtful_to = 0, None, 0
                work.machine.touch()
            settlement = work.machine.settlement()
            if settlement is not None:
                self._unsettled[number] = (work.owned, settlement)
                work.writing = len(work.finished)
        self._write()

    def _write(self) -> None:
        if not self._unsettled:
            return
        lost = self._store.settle(self._unsettled)
        for number, (owned, settlement) in self._unsettled.items():
            work = self._works.get(number)
            if work is None or work.owned is not owned:
                continue  # it was known already, and perhaps taken afresh
            if number not in lost:
                del work.finished[: work.writing]
                work.settled_to = max(work.settled_to, settlement.reach)
                continue
            log.warning(
                "group %s lost partition %d of %s to another owner, who goes on with it",
                self._subscription.group,
                number,
                self.topic,
            )
            self._lose(number)
            self.needs_check = True  # also its own settling refuses a second one, when the first was in doubt
        self._unsettled = {}

    # -- inside

    def _own(self, taken: dict[int, Owned]) -> None:
        for number, owned in taken.items():
            machine = owned.machine
            crashed = owned.crashes > 0
            reach = machine.position
            self._works[number] = Work(
                owned,
                machine,
                doubtful_to=reach + AHEAD if crashed else 0,
                doubtful=self._lost_out.pop(number, set())
                | (set(machine.due_heads(self._clock.now_ms())) if crashed else set()),
                settled_to=reach,
            )

    def _fill_holes(self) -> bool:
        """Feed what a former owner had not settled below the place it had reached."""
        with_holes = {
            number: work for number, work in self._works.items() if work.has_holes and not work.borrowed
        }
        holes = sorted(
            (number, hole) for number, work in with_holes.items() for hole in work.machine.missing()
        )
        records, is_cut = self._read([OffsetRange(number, hole, hole + 1) for number, hole in holes])
        found = {(record.partition, record.offset): (record, error) for record, error in records}
        last = max(found, default=None) if is_cut else None
        for number, hole in holes:
            if last is not None and (number, hole) > last:
                break  # there is too much: the rest is read next time
            if (number, hole) in found:
                self._feed(*found[number, hole])
            else:
                self._works[number].machine.omit(hole)
        for work in with_holes.values():
            work.has_holes = bool(work.machine.missing())
        return bool(holes)

    def _lose(self, number: int) -> None:
        work = self._works.pop(number)
        handed_out = work.machine.out_offsets().union(work.finished, work.doubtful)
        if handed_out:
            self._lost_out.setdefault(number, set()).update(handed_out)
        for offset in list(work.records):
            self._drop(work, offset)
        if self._careful_out is not None and self._careful_out.partition == number:
            self._careful_out = None

    def _in_turn(self) -> Iterable[tuple[int, Work]]:
        """Return the partitions, beginning after the one that was served last."""
        if not self._turn:
            return list(self._works.items())
        numbers = sorted(self._works)
        later = [n for n in numbers if n >= self._turn]
        self._turn = 0
        return [(n, self._works[n]) for n in later + numbers[: len(numbers) - len(later)]]

    def _is_calm(self, number: int, work: Work) -> bool:
        """Return whether all that a lost owner may have handed out is settled."""
        if self._ends is None:
            return False
        end = min(work.doubtful_to, self._ends.get(number, 0))
        return work.machine.base >= end and not work.doubtful

    def _careful(self, number: int, work: Work, now_ms: int) -> list[tuple[int, Work, Delivery]]:
        """Take one record of a partition whose owner crashed, after writing down which."""
        for delivery in work.machine.take(now_ms, 1):
            owned, offset = work.owned, delivery.offset
            try:
                self._fetch([(number, work, delivery)])
                if owned.crashes >= CRASHES_UNTIL_DEAD and owned.trying == offset:
                    self._give_up(number, work, delivery)
                elif self._store.trying(number, owned, offset):
                    self._careful_out = Place(number, offset) if offset in work.records else None
                    return [(number, work, delivery)]
                else:
                    self._lose(number)
                    self.needs_check = True
            except BaseException:
                work.machine.untake(offset)
                raise
        return []

    def _give_up(self, number: int, work: Work, delivery: Delivery) -> None:
        known = work.records.get(delivery.offset)
        self._drop(work, delivery.offset)
        hold = known is not None and known[1].rules.on_exhausted is OnExhausted.HOLD
        log.error(
            "record %d of partition %d of %s %s; it is now a dead letter",
            delivery.offset,
            number,
            self.topic,
            _KILLED,
        )
        work.machine.finish(delivery.offset, Dead(delivery.failures + CRASHES_UNTIL_DEAD, _KILLED, hold))
        work.doubtful.discard(delivery.offset)
        work.owned.crashes = 1

    def _tasks(self, taken: Sequence[tuple[int, Work, Delivery]]) -> list[Task]:
        """Return a task for the head of each run, linked with those that follow it."""
        tasks: list[Task] = []
        begin, count = 0, len(taken)
        while begin < count:
            number, work, head = taken[begin]
            end = begin + 1
            while end < count and taken[end][2].lane == head.lane and taken[end][0] == number:
                end += 1
            task = self._run(number, work, [each for _, _, each in taken[begin:end]])
            if task is not None:
                tasks.append(task)
            begin = end
        return tasks

    def _run(self, number: int, work: Work, run: list[Delivery]) -> Task | None:
        """Return the tasks of one run, as far as they are for the same handler; the rest is taken back."""
        records, machine = work.records, work.machine
        known = records.get(run[0].offset)
        kept = 1
        if known is not None and known[1].is_plain:
            while kept < len(run) and (other := records.get(run[kept].offset)) and other[1] is known[1]:
                kept += 1
        for each in run[kept:]:
            machine.untake(each.offset)
        if known is None:  # its topic or its handler is gone
            machine.finish(run[0].offset, Passed())
            return None
        task: Task | None = None
        for more, delivery in enumerate(reversed(run[:kept])):
            task = self._task(number, work, delivery, task, more)
        return task

    def _task(
        self, number: int, work: Work, delivery: Delivery, following: Task | None = None, more: int = 0
    ) -> Task:
        """Return a record that was handed out as its handler is given it."""
        record, handler = work.records[delivery.offset]
        if delivery.again or delivery.offset < work.doubtful_to or delivery.offset in work.doubtful:
            record = structs.replace(record, attempt=delivery.failures + 1, redelivered=True)
        return Task(
            Place(number, delivery.offset), delivery.lane, handler, record, delivery.failures, following, more
        )

    def _feed(self, record: Record, error: Exception | None) -> None:
        number, offset = record.partition, record.offset
        assert number is not None
        assert offset is not None
        work = self._works[number]
        if record.type == ERASED:
            work.machine.omit(offset)
            return
        handler = self._handler(record, error)
        if handler is None:
            work.machine.feed(offset, lane_of(record), wanted=False)
            return
        if work.machine.feed(offset, lane_of(record), wanted=True):
            self._keep(work, offset, record, handler)

    def _handler(self, record: Record, error: Exception | None) -> Handler | None:
        """Return the handler for a record; one that cannot be read is handed out to fail."""
        if record.type == ERASED:
            return None
        if error is not None:
            return self._subscription.handlers[0].failing(error)
        return self._subscription.handler_for(record)

    def _fetch(self, taken: Sequence[tuple[int, Work, Delivery]]) -> set[tuple[int, int]]:
        """Read the records of lanes that waited: from their own copies if they have some, or from the log.

        Return the places that were not read this time, because there is too much.
        """
        missing = sorted(
            (number, each.offset) for number, work, each in taken if each.offset not in work.records
        )
        if not missing:
            return set()
        logged = [place for place in missing if place[1] not in self._works[place[0]].owned.copied]
        records, is_cut = self._read([OffsetRange(number, offset, offset + 1) for number, offset in logged])
        found = self._keep_all(records)
        unread = {place for place in missing if place > found[-1]} if is_cut else set()
        gone = [place for place in missing if place not in found and place not in unread]
        if gone:
            copies, is_cut = self._records(self._store.copies(gone, max_bytes=READ_BYTES))
            found = self._keep_all(copies)
            # Of a run nothing may go out before what is cut off, wherever it was read.
            unread |= {place for place in missing if place > found[-1]} if is_cut else set()
        return unread

    def _keep_all(self, records: Iterable[tuple[Record, Exception | None]]) -> list[tuple[int, int]]:
        """Keep records that were read, and return their places."""
        places = []
        for record, error in records:
            assert record.partition is not None
            assert record.offset is not None
            places.append((record.partition, record.offset))
            handler = self._handler(record, error)
            if handler is not None:  # else it was wanted when it failed, by a handler that is no more
                self._keep(self._works[record.partition], record.offset, record, handler)
        return places

    def _take_back(self, taken: Sequence[tuple[int, Work, Delivery]]) -> None:
        for _, work, delivery in reversed(taken):
            work.machine.untake(delivery.offset)

    def _keep(self, work: Work, offset: int, record: Record, handler: Handler) -> None:
        work.records[offset] = (record, handler)
        self._held_bytes += len(record.data or b"")

    def _drop(self, work: Work, offset: int) -> None:
        known = work.records.pop(offset, None)
        if known is not None:
            self._held_bytes -= len(known[0].data or b"")

    def _read(self, ranges: list[OffsetRange]) -> tuple[list[tuple[Record, Exception | None]], bool]:
        if not ranges:
            return [], False
        return self._records(self._reader.read_ranges(self._store.topic, ranges, max_bytes=READ_BYTES))

    def _records(self, chunk: Chunk) -> tuple[list[tuple[Record, Exception | None]], bool]:
        """Return what was read as handlers see it, with the epoch of each record's partition."""
        topic, works = self.topic, self._works
        return [readable(topic, each, works[each.partition].owned.epoch) for each in chunk.entries], chunk.cut


def topic_of(log: Log, subscription: Subscription) -> Topic | None:
    """Return the topic of a group, if it is there yet.

    A group that starts at the latest record needs it now, to know where that is: then it is made.
    """
    try:
        return log.topic(subscription.topic)
    except UnknownTopic:
        return None if subscription.start == "earliest" else log.create_topic(subscription.topic)


def lane_of(record: Record) -> str:
    """Return the lane of a record: its key, or itself alone when it has none.

    Keys that came in as other bytes than printable text are written in hex, since lanes are stored as text.
    """
    key = record.id if record.key is None else record.key
    if key.isprintable() and not key.startswith("\\x"):
        return key
    return "\\x" + key.encode("utf-8", "surrogateescape").hex()
