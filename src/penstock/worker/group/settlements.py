"""Writing down a group's progress: results, and how far records are handed out."""

import logging
from collections.abc import Callable

from penstock.delivery.machine import Settlement
from penstock.delivery.store import GroupStore, Owned, Written

from .owned_partitions import OwnedPartitions
from .partition_work import PartitionWork, Taken, as_much_again, put_back
from .suspects import Suspects

logger = logging.getLogger("penstock.delivery")

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
            fields = {"group": self._group, "topic": topic, "partition": number}
            logger.warning(
                "group %s lost partition %d of %s to another owner, who goes on with it",
                self._group,
                number,
                topic,
                extra=fields,
            )
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
