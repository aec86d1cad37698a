"""The partitions of a group that this process owns: how they are taken, opened after growth, and released."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from penstock.clock import Clock
from penstock.delivery.growth_barriers import OPEN
from penstock.delivery.store import GroupStore, Living, Owned

from ..handler import HandlerTask
from .partition_work import PartitionWork, RecordBuffer


class OwnedPartitions:
    """Takes partitions, gives them back, and notices that one was lost to another owner.

    Records that were handed out and not settled when a partition was lost are marked if it comes back. Most partitions
    are idle most of the time: each turn skips those that are not `awake`. Code that gives work to a resting partition
    wakes it; a look at the log wakes all. One thread, the delivery loop's.
    """

    def __init__(self, store: GroupStore, records: RecordBuffer, *, one_lane: bool = False) -> None:
        """`one_lane`: all records of a partition are one lane, whatever their keys."""
        self._store, self._records, self._one_lane = store, records, one_lane
        self._works: dict[int, PartitionWork] = {}
        self._awake: dict[int, PartitionWork] = {}
        self.get = self._works.get  # not a method of ours: it is called for every record
        self._lost_out: dict[int, set[int]] = {}  # handed out and not settled when a partition was lost
        self._in_doubt: set[int] = set()  # lost here, but perhaps still ours: a commit is in doubt
        self._turn = 0
        self.takes = 0  # how often partitions were taken
        self.grown: dict[int, PartitionWork] = {}  # those that have, or had when taken, a barrier
        self.needs_check = False  # lost partitions may still be ours in the rows: see `check`

    def __iter__(self) -> Iterator[PartitionWork]:
        return iter(self._works.values())

    def __len__(self) -> int:
        return len(self._works)

    def of_task(self, task: HandlerTask) -> PartitionWork | None:
        """Return the partition of a task; None if it was lost since, even if it has come back."""
        work = self._works.get(task.place.partition)
        if work is None or work.owned.epoch != task.record.fence or work.topic_id != task.topic_id:
            return None
        return work

    def awake(self) -> Collection[PartitionWork]:
        """Return the partitions that may have work."""
        return self._awake.values()

    def wake(self, numbers: Iterable[int]) -> None:
        """Look at some partitions again, as far as they are owned: they may have work."""
        for number in numbers:
            if number not in self._awake and number in self._works:
                self._awake[number] = self._works[number]

    def wake_all(self) -> None:
        """Look at all partitions again."""
        self._awake = dict(self._works)

    def rest(self, ends: Mapping[int, int]) -> None:
        """Skip partitions without work, given these ends of the log, until they are woken."""
        resting = [number for number, work in self._awake.items() if work.is_at_rest(ends.get(number, 0))]
        for number in resting:
            del self._awake[number]

    def in_turn(self) -> Iterable[PartitionWork]:
        """Return the partitions that may have work, in the order to serve them."""
        if not self._turn:
            return list(self._awake.values())
        numbers = sorted(self._awake)
        later = [n for n in numbers if n >= self._turn]
        self._turn = 0
        return [self._awake[n] for n in later + numbers[: len(numbers) - len(later)]]

    def begin_next_with(self, number: int) -> None:
        """Serve this partition, or the next owned one, first in the next turn."""
        self._turn = number

    def fences(self, numbers: Iterable[int]) -> dict[int, int]:
        """Return the epoch of each of some partitions."""
        return {number: self._works[number].owned.epoch for number in numbers}

    def share(self) -> float:
        """Return the fraction of the topic's partitions that is owned and not about to be released."""
        return sum(not work.leaving for work in self._works.values()) / self._store.partitions

    def take(self, living: Living) -> None:
        """Own the partitions that have work and no living owner."""
        self._own(self._store.take(living))

    def take_wanted(self, living: Living) -> None:
        """Own the partitions that are meant for this member and have no living owner."""
        self._own(self._store.take_wanted(living))

    def _own(self, taken: dict[int, Owned]) -> None:
        self.takes += 1
        for number, owned in taken.items():
            machine = owned.machine
            if self._one_lane:
                machine.work_as_one_lane()
            crashed = owned.crashes > 0
            perhaps_out = machine.perhaps_out() if crashed else set[int]()
            owned.repeats |= perhaps_out
            if number in self._lost_out:  # it was out when this process lost the partition
                owned.repeats |= self._lost_out.pop(number)
                owned.crashes = max(1, owned.crashes)
            untouched, since = machine.waiting_below(owned.doubtful.to) - perhaps_out, machine.base
            work = PartitionWork(number, owned, machine, untouched, since, self.takes, self._store.topic.id)
            work.settled_to, work.is_unsure = machine.position, crashed
            self._works[number] = self._awake[number] = work
            if owned.barrier != OPEN or machine.has_moved:
                self.grown[number] = work
            owned.trial.keep(machine.waits_for)

    def check(self) -> None:
        """Compare with the rows: drop partitions no longer ours, mark those meant for another as leaving.

        One that is ours only in the rows (a settling in doubt, a topic reset) is released, to be taken again.
        """
        rows = self._store.owned()
        for number in [n for n, work in self._works.items() if rows.get(n, (-1,))[0] != work.owned.epoch]:
            self.lose(number)
        unknown = rows.keys() - self._works.keys()
        self._store.release(unknown, self._lost_out.keys() & unknown)
        for number, work in self._works.items():
            _, kept, lanes_version = rows[number]
            if not kept:
                work.leaving = True
            if lanes_version != work.owned.lanes_version:
                work.lanes_changed = True
        self.wake_all()

    def let_go(self) -> None:
        """Begin to release everything: nothing more is started."""
        for work in self._works.values():
            work.leaving = True
        self.wake_all()

    def idle(self) -> list[int]:
        """Return the leaving partitions that have nothing in flight."""
        return [
            number
            for number, work in self._awake.items()
            if work.leaving and not work.borrowed and not work.machine.out()
        ]

    def release(self, numbers: Iterable[int]) -> None:
        """Release settled partitions; those that were lost meanwhile are not ours to release."""
        gone = [number for number in numbers if number in self._works]
        self._store.release(gone)
        for number in gone:
            self.lose(number)

    def release_all(self) -> None:
        """Release everything, also after a commit in doubt; records still in flight come again, and are marked."""
        doubtful, self._in_doubt = self._in_doubt, set()
        doubtful |= {number for number, work in self._works.items() if work.machine.out()}
        gone = list(self._works)
        for number in gone:
            self.lose(number)
        self._store.release({*gone, *doubtful}, self._lost_out.keys() & doubtful)

    def lose(self, number: int) -> None:
        """Drop a partition; records handed out of it may come a second time."""
        work = self._works.pop(number)
        self._awake.pop(number, None)
        self.grown.pop(number, None)
        work.lost = True
        self.note_lost(number, work.machine.out_offsets().union(work.finished, work.owned.repeats))
        self._records.drop_all(work)

    def lose_in_doubt(self, number: int) -> None:
        """Drop a partition of which it is in doubt whether it is still ours; the next check finds out."""
        self.lose(number)
        self._in_doubt.add(number)
        self.needs_check = True

    def note_lost(self, number: int, offsets: set[int]) -> None:
        """Remember records that were handed out of a lost partition, to mark them if it comes back."""
        if offsets:
            self._lost_out.setdefault(number, set()).update(offsets)


LOOK_SECONDS = 0.05  # shortest time between two looks while something waits,
_SELDOM_SECONDS = 1.0  # and the longest, while nothing changes


class Barriers:
    """Checks periodically the work left where keys were before, while some wait for it. For the delivery loop."""

    def __init__(self, store: GroupStore, partitions: OwnedPartitions, clock: Clock, every_seconds: float) -> None:
        self._store, self._partitions, self._clock = store, partitions, clock
        self._least = self._pause = every_seconds
        self.next_look: float | None = None  # while something waits

    def refresh(self) -> None:
        """Look if a look is due; open the partitions that may be read, release the keys whose turn it is."""
        if not self._partitions.grown:
            self.next_look = None
            return
        waiting = {
            number: work
            for number, work in self._partitions.grown.items()
            if not (work.borrowed or work.leaving) and (work.machine.has_moved or not work.owned.barrier.is_open)
        }
        now = self._clock.monotonic()
        if not waiting:
            self._pause, self.next_look = self._least, None
        elif self.next_look is None or now >= self.next_look:
            barriers = self._store.barriers(waiting)
            is_changed = any(work.owned.barrier != barriers[number] for number, work in waiting.items())
            for number, work in waiting.items():
                work.owned.close(barriers[number])
            self._pause = self._least if is_changed else min(2 * self._pause, _SELDOM_SECONDS)
            self.next_look = now + self._pause
