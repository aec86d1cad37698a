"""Writing down a group's progress: results, how far records are handed out, and the suspects among them.

Suspects are records that may have killed a process: docs/decisions/0022-blame.md.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from penstock.clock import Clock
from penstock.delivery.cursor_state import GoingOut, wait_ms
from penstock.delivery.lane import LaneId
from penstock.delivery.machine import Delivery, Settlement
from penstock.delivery.store import GroupStore, Owned, Written
from penstock.delivery.verdict import Dead, OnFailure, Parked, Verdict

from ..handler import about_record
from .group_reader import GroupReader
from .owned_partitions import OwnedPartitions
from .partition_work import PartitionWork, RecordBuffer, Taken, as_much_again, put_back

LEAST_AT_ONCE = 16  # suspects of partitions that go by few
ALONE_SECONDS = 10.0  # how long the rest of the process waits for a record that is tried alone
QUIET_SECONDS = 10.0  # how long such a record waits for calls that already run
_SLOW_SECONDS = 1.0  # a suspect that takes longer makes room for another


class Suspect(NamedTuple):
    """A record that may have killed its process, and since when it runs or waits to run."""

    work: PartitionWork
    offset: int
    since: float

    def is_at(self, work: PartitionWork, offset: int) -> bool:
        """Return whether it is the record at that place."""
        return self.work is work and self.offset == offset


class Trials:
    """Decides how many suspects may begin, and whether one of them has the process to itself.

    A suspect that must run alone asks for a turn. From then on nothing else begins, and tasks that have not begun are
    taken back; once nothing else runs, or the wait exceeds its limit, it gets its turn. A process that also does other
    work, and a drain, try no record: their end says nothing about one. One thread, the delivery loop's.
    """

    def __init__(self, clock: Clock, *, threads: int = 1, dedicated: bool = False) -> None:
        self._clock, self.dedicated = clock, dedicated
        self._at_once = max(LEAST_AT_ONCE, 2 * threads)
        self._out: list[Suspect] = []
        self._asked: Suspect | None = None
        self._alone: Suspect | None = None
        self._granted = self._quiet = False
        self.needs_settling = False  # the outcome of a suspect must be written at once

    # -- for the deliveries of groups

    def room(self) -> int:
        """Return how many suspects may begin now; 0 as long as only a few could."""
        now = self._clock.monotonic()
        self._out = [each for each in self._out if not each.work.lost]
        room = self._at_once - sum(now - each.since < _SLOW_SECONDS for each in self._out)
        return room if room >= self._at_once // 2 else 0

    def ask(self, work: PartitionWork, offset: int) -> None:
        """Let a suspect wait for its turn alone, unless another one does."""
        if not self.is_asked:
            self._asked = Suspect(work, offset, self._clock.monotonic())

    def turn(self) -> Suspect | None:
        """Return the suspect that has its turn, if one has: nothing else may begin."""
        return self._asked if self._granted else None

    def begin(self, work: PartitionWork, offset: int) -> bool:
        """Record that a suspect begins; return whether it has the process to itself."""
        suspect = Suspect(work, offset, self._clock.monotonic())
        self._out.append(suspect)
        if self._quiet and self._asked is not None and self._asked.is_at(work, offset):
            self._alone = suspect
        return self._alone is suspect

    def end(self, work: PartitionWork, offset: int) -> None:
        """Record that a suspect no longer runs."""
        self._out = [each for each in self._out if not each.is_at(work, offset)]
        if self._alone is not None and self._alone.is_at(work, offset):
            self.needs_settling = True

    # -- for the delivery loop

    @property
    def is_busy(self) -> bool:
        """Whether a suspect runs, or one waits to run."""
        return bool(self._out) or self.needs_settling or self.is_asked or self.alone is not None

    @property
    def is_asked(self) -> bool:
        """Whether a suspect waits for its turn alone."""
        if self._asked is not None and (self._asked.work.lost or self._asked.work.leaving):
            self.withdraw()
        return self._asked is not None

    @property
    def alone(self) -> Suspect | None:
        """The suspect that has the process to itself, until its end is written down."""
        if self._alone is not None and self._alone.work.lost:
            self.open()
        return self._alone

    @property
    def since(self) -> float | None:
        """Since when nothing else begins, because a suspect runs alone or is about to. From any thread."""
        suspect = self._alone or self._asked
        return None if suspect is None else suspect.since

    @property
    def is_overdue(self) -> bool:
        """Whether a suspect has had the process to itself for long enough."""
        alone = self.alone
        return alone is not None and self._clock.monotonic() - alone.since >= ALONE_SECONDS

    def grant(self, *, quiet: bool) -> bool:
        """Record whether the process is quiet; return whether the waiting suspect has its turn now."""
        waits = self._asked
        self._quiet = quiet
        self._granted = waits is not None and (quiet or self._clock.monotonic() - waits.since >= QUIET_SECONDS)
        return self._granted

    def withdraw(self) -> None:
        """End a turn: it was used, or is no longer needed."""
        self._asked, self._granted, self._quiet = None, False, False

    def settled(self) -> None:
        """Record that all is written; let others begin again, if the suspect that ran alone has ended."""
        self.needs_settling = False
        if self._alone not in self._out:
            self._alone = None

    def open(self) -> None:
        """Let others begin again, beside the suspect that ran alone."""
        self._alone = None


logger = logging.getLogger("penstock.delivery")


class Suspects:
    """Hands out records of partitions whose owners died, so that one which kills its process can be found.

    They are written down before they begin, and removed once they have ended. One that has killed three processes while
    running alone is put off, with its key. One thread, the delivery loop's.
    """

    def __init__(
        self, trials: Trials, store: GroupStore, partitions: OwnedPartitions, reader: GroupReader, records: RecordBuffer
    ) -> None:
        self.trials = trials
        self._store, self._partitions, self._reader, self._records = store, partitions, reader, records

    def take(self, work: PartitionWork, now_ms: int, limit: int, run: int = 1) -> list[Taken]:
        """Take the records that may begin in a partition with suspects; if by few, one of each key."""
        trial, turn = work.owned.trial, self.trials.turn()
        room = limit
        if self.trials.dedicated and trial.goes_by_few:
            room, run = min(limit, self.trials.room()), 1
        kept, back, killers = list[Taken](), list[Delivery](), list[Delivery]()
        behind = set[LaneId]()  # lanes of which something was put back: so is all that follows
        for each in work.machine.take(now_ms, room + len(trial.alone), run):
            if each.offset in work.owned.killers and each.lane not in behind:
                killers.append(each)
                behind.add(each.lane)
                continue
            alone = self.trials.dedicated and each.offset in trial.alone
            if turn is None and alone and each.lane not in behind:
                self.trials.ask(work, each.offset)
            may_begin = not alone and len(kept) < room
            if turn is not None:
                may_begin = turn.is_at(work, each.offset)
            if may_begin and each.lane not in behind:
                kept.append((work, each))
            else:
                back.append(each)
                behind.add(each.lane)
        for each in reversed(back):
            work.machine.untake(each.offset)
        try:
            while killers:
                self._put_off(work, killers[0], now_ms)
                del killers[0]
        except BaseException:
            for each in reversed([*(each for _, each in kept), *killers]):
                work.machine.untake(each.offset)
            raise
        return kept

    def are_among(self, taken: Sequence[Taken]) -> bool:
        """Return whether some of these records of one partition may only go out by this class's `take`."""
        owned = taken[0][0].owned
        trial = owned.trial
        return trial.goes_by_few or any(each.offset in trial.alone or each.offset in owned.killers for _, each in taken)

    def begin(self, taken: Iterable[Taken]) -> set[PartitionWork]:
        """Record the suspects that are about to begin; return the partitions whose trials to write first."""
        begun = set[PartitionWork]()
        if not self.trials.dedicated:
            return begun
        for work, each in taken:
            trial = work.owned.trial
            if each.offset not in work.records:  # it is not called: its handler is gone, or the record is
                if each.offset in trial.alone:
                    trial.clear(each.offset)
                    work.machine.touch()
            elif trial.goes_by_few or each.offset in trial.alone:
                alone = self.trials.begin(work, each.offset)
                trial.begin(work.owned.epoch, each.offset, alone=alone)
                begun.add(work)
        return begun

    def end(self, work: PartitionWork, offset: int, *, survived: bool) -> None:
        """Record that a record no longer runs; one that its process has survived is no suspect."""
        if survived:
            work.owned.trial.clear(offset)
        else:
            work.owned.trial.end(offset)
        self.trials.end(work, offset)
        work.machine.touch()

    def end_alone(self) -> None:
        """Write down that the suspect which had the process to itself no longer has it."""
        alone = self.trials.alone
        if alone is not None and self._partitions.get(alone.work.number) is alone.work:
            alone.work.owned.trial.is_alone = False
            owned = alone.work.owned
            if self._store.hand_out({alone.work.number: (owned, owned.going_out)}):
                self._partitions.lose(alone.work.number)
                self._partitions.needs_check = True
            self.trials.open()

    def end_if_settled(self, work: PartitionWork) -> None:
        """Treat a partition as any other once all that its lost owners may have handed out is settled.

        Records that wait in a lane keep their mark, and hold up nothing else. So do records yet to come, if a lost
        owner may be alive: it may hand them out before it learns of its loss.
        """
        machine, owned, trial = work.machine, work.owned, work.owned.trial
        end = self._reader.end(work)
        if end is not None and owned.is_certain:  # no owner can have handed out records that came since
            owned.doubtful &= GoingOut(end)
        if end is None or machine.base < min(owned.doubtful.to, end):
            return
        if owned.doubtful.to:  # the cursor has passed it, but it is not settled
            owned.repeats |= set(filter(work.is_doubtful, machine.waiting_below(owned.doubtful.to)))
            if owned.is_certain or machine.base >= owned.doubtful.to:
                owned.doubtful = GoingOut()
                work.untouched = set()
            elif not work.is_unsure and not trial.deaths:
                return  # unchanged: only records yet to come are in doubt
        if not owned.repeats:
            work.is_unsure = False
            owned.crashes = min(owned.crashes, owned.doubtful.to)
        elif not trial.deaths or not owned.repeats <= machine.resting():
            return
        trial.calm()
        trial.keep(machine.waits_for)
        machine.touch()

    def _put_off(self, work: PartitionWork, delivery: Delivery, now_ms: int) -> None:
        """Park a record that killed its process, and its key with it."""
        offset = delivery.offset
        self._reader.fetch([(work, delivery)])
        work.owned.killers.discard(offset)
        known = work.records.get(offset)
        on_failure = OnFailure.PARK if known is None else known[1].rules.on_failure
        self._records.drop(work, offset)
        deaths = work.owned.trial.alone[offset]
        killed, wait = f"killed its worker {deaths} times", wait_ms(deaths)
        verdict: Verdict = Parked(now_ms + wait, delivery.failures, killed, alone=on_failure is OnFailure.ALONE)
        if on_failure is OnFailure.DEAD:
            verdict = Dead(delivery.failures + 1, killed, hold=False)
        fields = {"topic": self._store.topic.name, "partition": work.number, "offset": offset, "error": killed}
        if known is not None:
            fields = about_record(known[1], known[0], error=killed)
        then = f"it is tried again, alone, in {wait // 1000} s"
        if isinstance(verdict, Dead):
            then = "it is now a dead letter"
            work.owned.trial.clear(offset)
        where = offset, work.number, self._store.topic.name
        logger.error("record %d of partition %d of %s %s; %s", *where, killed, then, extra=fields)
        work.machine.finish(offset, verdict)
        work.owned.repeats.discard(offset)
        self.trials.needs_settling = True


Settled = Callable[[int, list[int]], None]  # a partition, and its offsets that are written down


class Settlements:
    """Gathers the changes of all partitions and writes them in one transaction, in three steps.

    `plan` and `confirm` use the machines; `write` only waits for the store, and another thread may go on meanwhile. A
    settlement that could not be written is kept and written first the next time: if it was in fact committed, the
    repetition finds the version changed, and the partition is taken again. One that another owner has taken is dropped.
    """

    def __init__(
        self,
        group: str,
        store: GroupStore,
        partitions: OwnedPartitions,
        suspects: Suspects,
        settled: Settled | None = None,
    ) -> None:
        """`settled` is called with the results that have been written down."""
        self._settled = settled
        self._group, self._store, self._partitions, self._suspects = group, store, partitions, suspects
        self._unwritten: dict[int, tuple[Owned, Settlement]] = {}
        self._written: Written | None = None

    @property
    def has_unwritten(self) -> bool:
        """Whether a settlement is planned and not confirmed: an attempt to write it may have failed."""
        return bool(self._unwritten)

    def is_unwritten(self, number: int) -> bool:
        """Return whether a settlement of a partition could not be written so far and is still pending."""
        return number in self._unwritten

    def settle(self) -> None:
        """Write all changes at once. Raises the store's errors; the next call repeats the same writing."""
        if self._unwritten:
            self.write()
            self.confirm()
        if self.plan():
            self.write()
            self.confirm()

    def plan(self) -> bool:
        """Gather what is to be written; return whether there is anything."""
        for work in self._partitions.awake():
            if work.borrowed:
                continue
            if work.lanes_changed:
                work.lanes_changed = False
                work.machine.touch()
            if work.owned.crashes or work.owned.trial.deaths:
                self._suspects.end_if_settled(work)
            if work.leaving and self._says_too_much(work):
                work.machine.touch()
            more = 0 if work.leaving else as_much_again(len(work.finished))
            settlement = work.machine.settlement(more)
            if settlement is not None:
                work.owned.plan(settlement)
                self._unwritten[work.number] = (work.owned, settlement)
                work.writing = len(work.finished)
        return bool(self._unwritten)

    def write(self) -> None:
        """Write what is planned, unless that is done and only to be confirmed. Raises the store's errors."""
        if self._written is None:
            self._written = self._store.write(self._unwritten)

    def confirm(self) -> None:
        """Record what was written, if it was; drop the partitions that another owner has taken."""
        written, self._written = self._written, None
        if written is None:
            return
        lost = self._store.confirm(self._unwritten, written)
        for number, (owned, settlement) in self._unwritten.items():
            work = self._partitions.get(number)
            if work is None or work.owned is not owned:
                continue  # it was lost already, and perhaps taken again
            if number not in lost:
                if self._settled is not None and work.writing:
                    self._settled(number, work.finished[: work.writing])
                del work.finished[: work.writing]
                work.settled_to = max(work.settled_to, settlement.reach)
                continue
            topic = self._store.topic.name
            lost_it = "group %s lost partition %d of %s to another owner, who goes on with it"
            fields = {"group": self._group, "topic": topic, "partition": number}
            logger.warning(lost_it, self._group, number, topic, extra=fields)
            self._partitions.lose(number)
            # It may still be ours: repeating a settling that was in doubt is refused, too.
            self._partitions.needs_check = True
        self._unwritten = {}

    @staticmethod
    def _says_too_much(work: PartitionWork) -> bool:
        """Return whether its row allows for what might have followed: nothing more is begun here."""
        owned = work.owned
        if owned.crashes or owned.trial.deaths:
            return True
        return bool(work.machine.out()) and owned.going_out != owned.with_repeats(work.machine.going_out())


class HandOut:
    """Ensures that no record begins that a successor would fail to mark if this owner is lost.

    The row says which records may have been handed out. Each settlement moves that on, so this class writes only when
    more records go out at once than lately. One thread, the delivery loop's.
    """

    def __init__(
        self, store: GroupStore, partitions: OwnedPartitions, suspects: Suspects, settlements: Settlements
    ) -> None:
        self._store, self._partitions = store, partitions
        self._suspects, self._settlements = suspects, settlements

    def write_down(self, taken: list[Taken], *, writes: bool = True) -> list[Taken]:
        """Return the records that may begin; without `writes`, none beyond the present rows. The rest is put back."""
        counts: dict[PartitionWork, int] = {}
        beyond = set[PartitionWork]()
        for work, each in taken:
            counts[work] = counts.get(work, 0) + 1
            going_out = work.owned.going_out
            if each.offset >= going_out.to or each.offset in going_out.kept_back:
                beyond.add(work)
        waiting = {work for work in beyond if not writes or self._settlements.is_unwritten(work.number)}
        if waiting:
            kept, back = list[Taken](), list[Taken]()
            for work, each in taken:
                goes = work not in waiting or work.owned.going_out.has(each.offset)
                (kept if goes else back).append((work, each))
            put_back(back)
            taken[:] = kept
        going = {work: work.owned.going_out for work in self._suspects.begin(taken)}
        for work in beyond - waiting:
            more = as_much_again(counts[work] // 4)
            going[work] = work.owned.with_repeats(work.machine.going_out(more))
        cursors = {work.number: (work.owned, each) for work, each in going.items()}
        for number in self._store.hand_out(cursors) if cursors else ():
            self._partitions.lose(number)
            self._partitions.needs_check = True
        return [each for each in taken if not each[0].lost]
