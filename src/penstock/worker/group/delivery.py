"""Delivery to one group on one topic: reads the log, asks the machines what may run, settles what has.

It joins the partitions' state machines with their rows and with the records' payloads. It calls no handler
and knows no thread: a loop above it does (`drain` in the caller's thread, the delivery loop of a running
worker).

| part              | owns                                                          |
|-------------------|---------------------------------------------------------------|
| `OwnedPartitions` | the partitions: how they come, how they go, whose turn it is  |
| `HeldRecords`     | the records in memory                                         |
| `GroupReader`     | what is read, and how far the log goes                        |
| `LateRecords`     | what was passed over: that it is said, and delivered late     |
| `Suspects`        | the records that may have killed a process                    |
| `Settling`        | what is still to be written                                   |
| `HandOut`         | that it is written how far records go out, before they do     |
| `Barriers`        | which partitions and keys wait since the topic has grown      |
"""

from collections.abc import Collection, Iterable
from contextlib import nullcontext

from penstock.clock import Clock
from penstock.delivery.store import Aside, GroupStore, Living
from penstock.delivery.verdict import Parked, Passed, Verdict
from penstock.errors import UnknownTopic
from penstock.log.contract import Log, Topic

from ..subscription import Subscription
from ..task import HandlerTask
from .barriers import LOOK_SECONDS, Barriers
from .group_reader import GroupReader
from .hand_out import HandOut
from .held_records import HeldRecords
from .late_records import LateRecords
from .owned_partitions import OwnedPartitions
from .partition_work import Taken, put_back
from .read_cache import ReadCache
from .runs import tasks_of
from .settling import Settled, Settling
from .suspects import Suspects
from .trials import Trials

_INTERRUPTED = "its worker stopped before it had ended"


class GroupDelivery:
    """Delivery to one group by one member. Not thread-safe: one loop owns it.

    It has no state beside its parts, but whether somebody waits for what is settled. Records go out one by
    one, by `start`, or in units of work, by `TransactionalDelivery`, which uses the same parts.
    """

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
        """`trials`: of the process; without it no record is tried for the death of another one.

        `settled`: who waits for results to be written down; then they do not wait for others.
        `barrier_seconds`: how soon to look again whether a partition that came by growing may be read.
        """
        self._store, self._clock, self.subscription = store, clock, subscription
        self.records = HeldRecords()
        self.partitions = OwnedPartitions(store, self.records, one_lane=subscription.works_in_sequence)
        self.reader = GroupReader(log, store, subscription, self.partitions, self.records)
        self.late = LateRecords(log, store, subscription, self.partitions, clock)
        self.suspects = Suspects(trials or Trials(clock), store, self.partitions, self.reader, self.records)
        self.barriers = Barriers(store, self.partitions, clock, barrier_seconds)
        self._is_awaited = settled is not None
        self.settling = Settling(subscription.group, store, self.partitions, self.suspects, settled)
        self.hand_out = HandOut(store, self.partitions, self.suspects, self.settling)

    @property
    def topic(self) -> str:
        """The name of the topic it reads."""
        return self._store.topic.name

    @property
    def topic_id(self) -> int:
        """The id of the topic it reads: one of the same name that was made anew has another."""
        return self._store.topic.id

    @property
    def needs_check(self) -> bool:
        """Whether partitions that were lost may still be ours, as the rows say: `check` tells."""
        return self.partitions.needs_check

    @property
    def is_held_up(self) -> bool:
        """Whether it reads on in some partition only once what is done there is settled."""
        return self.reader.is_held_up

    @property
    def is_behind(self) -> bool:
        """Whether it may read on at once: the last time it has not read all that there is."""
        return self.reader.is_behind

    @property
    def is_held_back(self) -> bool:
        """Whether records that no handler wants are to be settled before others of their keys go on."""
        return any(work.machine.has_skipped for work in self.partitions.awake())

    @property
    def is_plain(self) -> bool:
        """Whether no partition has lost an owner, is to be let go, or delivers what was passed over."""
        return not any(work.is_pressing or work.owned.late for work in self.partitions.awake())

    def is_all_out(self, in_flight: int) -> bool:
        """Return whether so many in flight are all there is, and nothing waits for their results.

        What the log holds beyond them waits: a partition is read on only so far ahead of what has ended.
        """
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

    def read_through(self, cache: ReadCache) -> None:
        """Share what is read with other groups."""
        self.reader.read_through(cache)

    # -- partitions come and go

    def take(self, living: Living) -> None:
        """Own the partitions that have work and no living owner."""
        self.partitions.take(living)

    def take_wanted(self, living: Living) -> None:
        """Own the partitions that are meant for this member and have no living owner."""
        self.partitions.take_wanted(living)

    def check(self) -> None:
        """Drop the partitions that the rows say are no longer ours, let go what is meant for another.

        Where a person has decided on dead letters, that is learned.
        """
        self.partitions.check()
        if any(work.lanes_changed and not work.borrowed for work in self.partitions):
            self.settle()

    def checked(self) -> None:
        """Take note that what was lost has been checked and taken again."""
        self.partitions.needs_check = False

    def is_paused(self) -> bool:
        """Return whether the group is given nothing until a person resumes it."""
        return self._store.is_paused()

    def let_go(self) -> None:
        """Begin to give everything back: nothing more is started."""
        self.partitions.let_go()
        self.late.count(now=True)

    def release_idle(self) -> None:
        """Settle and give back the partitions that are to be let go and have nothing out."""
        idle = self.partitions.idle()
        if idle:
            self.late.count(now=True)
            self.settle()
            self.partitions.release(idle)

    def release(self) -> None:
        """Give everything back."""
        self.partitions.release_all()

    def owns(self) -> int:
        """Return how many partitions are owned."""
        return len(self.partitions)

    def share(self) -> float:
        """Return which part of the topic's partitions is owned, and not about to be let go."""
        return self.partitions.share()

    def is_over(self, task: HandlerTask) -> bool:
        """Return whether a task's partition is to be let go, or is gone, though it may have come back."""
        work = self.partitions.of_task(task)
        return work is None or work.leaving

    # -- records in, tasks out

    def fill(self, ends: dict[int, int], grown: Collection[int] = ()) -> bool:
        """Read what the log holds beyond what is known; return whether there was anything.

        `grown`: where it has grown since the last time, if these are the same ends.
        """
        self.barriers.refresh()
        filled = self.reader.fill(ends, grown)
        if self.reader.stopped is not None:
            return False
        if self.reader.untold:
            self.late.tell(self.reader.untold)
            self.reader.untold, filled = [], True  # also what waited and was passed over is settled soon
        if any(work.owned.late for work in self.partitions.awake()) and not self.reader.is_full():
            fed = self.late.feed()
            self.reader.is_behind |= fed
            filled |= fed
        return filled

    def start(self, limit: int, run: int = 1, *, writes: bool = True) -> list[HandlerTask]:
        """Hand out up to that many records: of each lane its oldest, and of a run up to that many.

        `writes`: it may write down first how far it hands out; else it keeps to what is written.
        """
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
        except BaseException:  # nothing stays out that nobody was told of
            self.put_back(taken)
            raise
        return tasks_of(taken)

    def put_back(self, taken: list[Taken]) -> None:
        """Take back records that were handed out and that nobody was told of."""
        put_back([each for each in taken if not each[0].lost])
        for work, delivery in taken:
            if delivery.offset in work.owned.trial.at_work:
                self.suspects.end(work, delivery.offset, survived=False)

    def next_due_ms(self) -> int | None:
        """Return when the next waiting lane is due, if one waits."""
        due = [
            work.machine.next_due_ms()
            for work in self.partitions.awake()
            if not work.leaving and not work.borrowed
        ]
        return min((each for each in due if each is not None), default=None)

    # -- what became of them

    def finish(self, task: HandlerTask, verdict: Verdict | None) -> bool:
        """Take note of what became of a task; None: it was not begun. Return whether to settle it soon.

        What has simply passed may wait for others; not what has failed once, nor anything in a partition
        that has lost an owner or is to be let go: there it is known who may have been handed what.
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
        """Take note that nobody waits for a task any more that began: it comes again, and is marked."""
        self.finish(task, Parked(self._clock.now_ms(), task.failures, _INTERRUPTED))

    def untake(self, tasks: Iterable[HandlerTask]) -> None:
        """Take back tasks that were never started."""
        for task in tasks:
            work = self.partitions.of_task(task)
            if work is not None:
                if work.owned.trial.at_work:
                    self.suspects.end(work, task.place.offset, survived=False)
                work.machine.untake(task.place.offset)

    def settle(self, aside: Aside = nullcontext) -> None:
        """Write down all that has changed; drop the partitions that another owner has taken.

        Raises what the store raises; then the next call begins with the same writing again. `aside`: in it
        the store is waited for.
        """
        self.late.count()
        self.settling.settle(aside)
        self.reader.let_rest()


def topic_of(log: Log, subscription: Subscription) -> Topic | None:
    """Return the topic of a group, if it is there yet.

    A group that starts at the latest record needs it now, to know where that is: then it is made.
    """
    try:
        return log.topic(subscription.topic)
    except UnknownTopic:
        return None if subscription.start == "earliest" else log.create_topic(subscription.topic)
