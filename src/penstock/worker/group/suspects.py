"""The suspects: records that may have killed a process, tried few at a time (docs/decisions/0022-blame.md)."""

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.clock import Clock
from penstock.delivery.cursor_state import GoingOut, wait_ms
from penstock.delivery.lane import LaneId
from penstock.delivery.machine import Delivery
from penstock.delivery.store import GroupStore
from penstock.delivery.verdict import Dead, OnFailure, Parked, Verdict

from ..handler import about_record
from .group_reader import GroupReader
from .owned_partitions import OwnedPartitions
from .partition_work import PartitionWork, RecordBuffer, Taken

LEAST_AT_ONCE = 16  # suspects of partitions that go by few
ALONE_SECONDS = 10.0  # how long the rest of the process waits for a record that is tried alone
QUIET_SECONDS = 10.0  # how long such a record waits for calls that already run
_SLOW_SECONDS = 1.0  # a suspect that takes longer makes room for another


logger = logging.getLogger("penstock.delivery")


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
