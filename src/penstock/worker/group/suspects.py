"""The suspects of a group: records that may have killed a process (docs/decisions/0022-blame.md)."""

import logging
from collections.abc import Iterable, Sequence

from penstock.delivery.lane import LaneId
from penstock.delivery.machine import Delivery
from penstock.delivery.offset_sets import GoingOut
from penstock.delivery.store import GroupStore
from penstock.delivery.trial import wait_ms
from penstock.delivery.verdict import Dead, OnFailure, Parked, Verdict

from ..log_fields import about_record
from .group_reader import GroupReader
from .held_records import HeldRecords
from .owned_partitions import OwnedPartitions
from .partition_work import PartitionWork, Taken
from .trials import Trials

logger = logging.getLogger("penstock.delivery")


class Suspects:
    """Hands out records of partitions whose owners died, so that one which kills its process can be found.

    `Trials` decides, for the whole process, which suspects may begin; they are written down before they
    begin, and removed once they have ended. A record that has killed three processes while running alone is
    put off, with its key. One thread, the delivery loop's.
    """

    def __init__(
        self,
        trials: Trials,
        store: GroupStore,
        partitions: OwnedPartitions,
        reader: GroupReader,
        records: HeldRecords,
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
        return trial.goes_by_few or any(
            each.offset in trial.alone or each.offset in owned.killers for _, each in taken
        )

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

        Records that wait in a lane until its head is retried keep their mark, and hold up nothing else. So do
        records yet to come, if a lost owner may be alive: it may hand them out before it learns of its loss.
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
        verdict: Verdict = Parked(
            now_ms + wait, delivery.failures, killed, alone=on_failure is OnFailure.ALONE
        )
        if on_failure is OnFailure.DEAD:
            verdict = Dead(delivery.failures + 1, killed, hold=False)
        fields = {
            "topic": self._store.topic.name,
            "partition": work.number,
            "offset": offset,
            "error": killed,
        }
        if known is not None:
            fields = about_record(known[1], known[0], error=killed)
        logger.error(
            "record %d of partition %d of %s %s; %s",
            offset,
            work.number,
            self._store.topic.name,
            killed,
            "it is now a dead letter"
            if isinstance(verdict, Dead)
            else f"it is tried again, alone, in {wait // 1000} s",
            extra=fields,
        )
        if isinstance(verdict, Dead):
            work.owned.trial.clear(offset)
        work.machine.finish(offset, verdict)
        work.owned.repeats.discard(offset)
        self.trials.needs_settling = True
