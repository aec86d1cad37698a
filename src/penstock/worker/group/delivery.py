"""Delivery to one group on one topic: reads the log, hands out records, settles results.

It joins the partitions' state machines with their rows and payloads. A loop above it (`drain`, or the delivery loop of
a worker) calls the handlers.

| part              | owns                                                                   |
|-------------------|------------------------------------------------------------------------|
| `OwnedPartitions` | the partitions: taking them, releasing them, the order of serving them |
| `RecordBuffer`    | the records in memory                                                  |
| `GroupReader`     | reading, and the known ends of the log                                 |
| `LateRecords`     | records that were passed over: reporting and late delivery             |
| `Suspects`        | the records that may have killed a process                             |
| `Settlements`     | the results still to be written                                        |
| `HandOut`         | writing down how far records go out, before they do                    |
| `Barriers`        | the partitions and keys that wait since the topic has grown            |
"""

from collections.abc import Collection, Iterable

from penstock.clock import Clock
from penstock.delivery.store import GroupStore, Living
from penstock.delivery.verdict import Parked, Passed, Verdict
from penstock.errors import UnknownTopic
from penstock.log.contract import Log, Topic

from ..handler import HandlerTask, Subscription
from .group_reader import GroupReader
from .late_records import LateRecords
from .owned_partitions import LOOK_SECONDS, Barriers, OwnedPartitions
from .partition_work import RecordBuffer, Taken, put_back, tasks_of
from .settlements import HandOut, Settled, Settlements
from .suspects import Suspects, Trials

_COUNT_SECONDS = 10.0
_INTERRUPTED = "its worker stopped before it had ended"


class GroupDelivery:
    """Delivery to one group by one member: by `start`, or in units of work. Not thread-safe: one loop owns it."""

    def __init__(
        self,
        log: Log,
        store: GroupStore,
        subscription: Subscription,
        clock: Clock,
        trials: Trials | None = None,
        *,
        barrier_seconds: float = LOOK_SECONDS,
        settled: Settled | None = None,
    ) -> None:
        """`trials`: of the process; without it no record is tried as the cause of a process's death.

        `settled`: called with results once they are written; then they do not wait for others.
        """
        self._store, self._clock, self.subscription = store, clock, subscription
        self.records = RecordBuffer()
        self.partitions = OwnedPartitions(store, self.records, one_lane=subscription.works_in_sequence)
        self.reader = GroupReader(log, store, subscription, self.partitions, self.records)
        self.late = LateRecords(log, store, subscription, self.partitions)
        self.suspects = Suspects(trials or Trials(clock), store, self.partitions, self.reader, self.records)
        self.barriers = Barriers(store, self.partitions, clock, barrier_seconds)
        self._is_awaited, self._next_count = settled is not None, 0.0
        self.settlements = Settlements(subscription.group, store, self.partitions, self.suspects, settled)
        self.hand_out = HandOut(store, self.partitions, self.suspects, self.settlements)

    @property
    def topic(self) -> str:
        """The name of the topic it reads."""
        return self._store.topic.name

    @property
    def topic_id(self) -> int:
        """The id of the topic it reads: a topic recreated under the same name has another id."""
        return self._store.topic.id

    @property
    def is_held_back(self) -> bool:
        """Whether records that no handler wants must be settled before later records of their keys go on."""
        return any(work.machine.has_skipped for work in self.partitions.awake())

    @property
    def is_plain(self) -> bool:
        """Whether no partition has lost an owner, is to be released, or delivers late records."""
        return not any(work.is_pressing or work.owned.late for work in self.partitions.awake())

    def is_all_out(self, in_flight: int) -> bool:
        """Return whether these are all there is, also in the log, and no lane waits for their results."""
        held = 0
        for work in self.partitions.awake():
            owned, end = work.owned, self.reader.end(work)
            if end is None or work.machine.position < end:
                return False
            if work.leaving or work.is_unsure or owned.repeats or work.machine.stored_count:
                return False
            if not owned.trial.is_empty:
                return False
            held += len(work.records)
        return held == in_flight

    # -- partitions come and go

    def take(self, living: Living) -> None:
        """Own the partitions that have work and no living owner."""
        self.partitions.take(living)

    def take_wanted(self, living: Living) -> None:
        """Own the partitions that are meant for this member and have no living owner."""
        self.partitions.take_wanted(living)

    def check(self) -> None:
        """Drop lost partitions, begin to release those meant for another, learn decisions on dead letters."""
        self.partitions.check()
        if any(work.lanes_changed and not work.borrowed for work in self.partitions):
            self.settle()

    def is_paused(self) -> bool:
        """Return whether deliveries to the group are paused until a person resumes it."""
        return self._store.is_paused()

    def let_go(self) -> None:
        """Begin to release everything: nothing more is started."""
        self.partitions.let_go()
        self.count_passed_over(now=True)

    def release_idle(self) -> None:
        """Settle and release the partitions that are leaving and have nothing in flight."""
        idle = self.partitions.idle()
        if idle:
            self.count_passed_over(now=True)
            self.settle()
            self.partitions.release(idle)

    def release(self) -> None:
        """Release everything."""
        self.partitions.release_all()

    def is_over(self, task: HandlerTask) -> bool:
        """Return whether a task's partition is leaving or was lost, even if it has come back since."""
        work = self.partitions.of_task(task)
        return work is None or work.leaving

    # -- records in, tasks out

    def fill(self, ends: dict[int, int], grown: Collection[int] = ()) -> bool:
        """Read on; return whether there was anything. `grown`: since the last call, if `ends` is the same mapping."""
        self.barriers.refresh()
        filled = self.reader.fill(ends, grown)
        if self.reader.stopped is not None:
            return False
        if self.reader.unreported:
            self.late.tell(self.reader.unreported)
            self.reader.unreported, filled = [], True  # waiting records passed over are settled soon, too
        if any(work.owned.late for work in self.partitions.awake()) and not self.reader.is_full():
            fed = self.late.feed()
            self.reader.is_behind |= fed
            filled |= fed
        return filled

    def start(self, limit: int, run: int = 1, *, writes: bool = True) -> list[HandlerTask]:
        """Hand out up to `limit` records, in runs of up to `run`; without `writes`, none beyond the present rows."""
        if self.reader.stopped is not None:
            return []
        now_ms, taken, turn = self._clock.now_ms(), list[Taken](), self.suspects.trials.turn()
        try:
            for work in self.partitions.in_turn():
                if work.leaving or work.machine.idle(now_ms) or not work.owned.barrier.is_open:
                    continue
                if work.has_suspects:
                    taken += self.suspects.take(work, now_ms, limit - len(taken), run)
                    continue
                if turn is not None:
                    continue
                taken += [(work, each) for each in work.machine.take(now_ms, limit - len(taken), run)]
                if len(taken) >= limit:
                    self.partitions.begin_next_with(work.number + 1)
                    break
            cut = self.reader.fetch(taken)
            if cut:
                put_back([each for each in taken if (each[0].number, each[1].offset) in cut])
                taken = [each for each in taken if (each[0].number, each[1].offset) not in cut]
            taken = self.hand_out.write_down(taken, writes=writes)
        except BaseException:  # take back the records that no task refers to
            self.put_back(taken)
            raise
        return tasks_of(taken)

    def put_back(self, taken: list[Taken]) -> None:
        """Take back records that were handed out and that no task refers to."""
        put_back([each for each in taken if not each[0].lost])
        for work, delivery in taken:
            if delivery.offset in work.owned.trial.at_work:
                self.suspects.end(work, delivery.offset, survived=False)

    def next_due_ms(self) -> int | None:
        """Return when the next waiting lane is due, if one waits."""
        due = [work.machine.next_due_ms() for work in self.partitions.awake() if not work.leaving and not work.borrowed]
        return min((each for each in due if each is not None), default=None)

    # -- results

    def finish(self, task: HandlerTask, verdict: Verdict | None) -> bool:
        """Record the outcome of a task; None: it was not begun. Return whether to settle it soon.

        A plain pass may wait for others; not a record that failed before, nor anything where the rows must say which
        records may have been handed out.
        """
        if verdict is None:
            self.untake([task])
            return False
        offset = task.place.offset
        work = self.partitions.of_task(task)
        if work is None:
            return False  # it was lost meanwhile, and its new owner will do it again
        passed = isinstance(verdict, Passed) and not verdict.by_fallback
        pressing = not passed or task.failures > 0 or work.is_pressing or self._is_awaited
        if passed and not pressing and not work.owned.trial.at_work:
            work.machine.finish_passed(offset)
            self.records.drop(work, offset)
            work.finished.append(offset)
            return False
        if work.owned.trial.at_work:
            self.suspects.end(work, offset, survived=not verdict.timed_out)
        work.machine.finish(offset, verdict)
        if verdict.__class__ is not Passed:
            for waiting in work.machine.stored(task.lane):
                self.records.drop(work, waiting)
        self.records.drop(work, offset)
        work.owned.repeats.discard(offset)
        work.finished.append(offset)
        return pressing

    def interrupt(self, task: HandlerTask) -> None:
        """Record that a begun task was abandoned: it comes again, and is marked."""
        self.finish(task, Parked(self._clock.now_ms(), task.failures, _INTERRUPTED))

    def untake(self, tasks: Iterable[HandlerTask]) -> None:
        """Take back tasks that were never started."""
        for task in tasks:
            work = self.partitions.of_task(task)
            if work is not None:
                if work.owned.trial.at_work:
                    self.suspects.end(work, task.place.offset, survived=False)
                work.machine.untake(task.place.offset)

    def settle(self) -> None:
        """Write all changes. Raises the store's errors; then the next call repeats the same writing first."""
        self.count_passed_over()
        self.settlements.settle()
        self.reader.let_rest()

    def count_passed_over(self, *, now: bool = False) -> None:
        """Have the counts of passed-over records written with the next settlement, if it is time or `now`."""
        if now or self._clock.monotonic() >= self._next_count:
            self._next_count = self._clock.monotonic() + _COUNT_SECONDS
            self.partitions.wake_all()
            for work in self.partitions:
                if not work.borrowed:
                    work.machine.flush_passed_over()


def topic_of(log: Log, subscription: Subscription) -> Topic | None:
    """Return the topic of a group if it exists; created for one that starts at its end, to fix its offset."""
    try:
        return log.topic(subscription.topic)
    except UnknownTopic:
        return None if subscription.start == "earliest" else log.create_topic(subscription.topic)
