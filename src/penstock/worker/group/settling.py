"""Writing down what became of a group's records."""

import logging
from collections.abc import Callable
from contextlib import nullcontext

from penstock.delivery.machine import Settlement
from penstock.delivery.store import Aside, GroupStore, Owned

from . import bounds
from .owned_partitions import OwnedPartitions
from .partition_work import PartitionWork
from .suspects import Suspects

Settled = Callable[[int, list[int]], None]  # a partition, and the offsets of it that are written down

logger = logging.getLogger("penstock.delivery")


class Settling:
    """Gathers what has changed in all partitions and writes it in one transaction.

    What could not be written, because the store was away, is kept and written first the next time: done
    twice, it finds the version changed, and the partition is taken again. A partition that another owner has
    taken is dropped. One thread, the delivery loop's.
    """

    def __init__(
        self,
        group: str,
        store: GroupStore,
        partitions: OwnedPartitions,
        suspects: Suspects,
        settled: Settled | None = None,
    ) -> None:
        """`settled`: who is told what has been written down."""
        self._settled = settled
        self._group, self._store, self._partitions, self._suspects = group, store, partitions, suspects
        self._unwritten: dict[int, tuple[Owned, Settlement]] = {}

    def is_unwritten(self, number: int) -> bool:
        """Return whether something of a partition is still to be written that could not be so far."""
        return number in self._unwritten

    def settle(self, aside: Aside = nullcontext) -> None:
        """Write down all that has changed; drop the partitions that another owner has taken.

        Raises what the store raises; then the next call begins with the same writing again. In `aside` the
        store is waited for, and nothing here is touched: meanwhile another thread may hand out and take note
        of results, and no more.
        """
        self._write(aside)
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
            more = 0 if work.leaving else bounds.as_much_again(len(work.finished))
            settlement = work.machine.settlement(more)
            if settlement is not None:
                work.owned.plan(settlement)
                self._unwritten[work.number] = (work.owned, settlement)
                work.writing = len(work.finished)
        self._write(aside)

    @staticmethod
    def _says_too_much(work: PartitionWork) -> bool:
        """Return whether its row allows for what might have followed: nothing more is begun here."""
        owned = work.owned
        if owned.crashes or owned.trial.deaths:
            return True
        return bool(work.machine.out()) and owned.going_out != owned.with_repeats(work.machine.going_out())

    def _write(self, aside: Aside) -> None:
        if not self._unwritten:
            return
        lost = self._store.settle(self._unwritten, aside)
        for number, (owned, settlement) in self._unwritten.items():
            work = self._partitions.get(number)
            if work is None or work.owned is not owned:
                continue  # it was known already, and perhaps taken again
            if number not in lost:
                if self._settled is not None and work.writing:
                    self._settled(number, work.finished[: work.writing])
                del work.finished[: work.writing]
                work.settled_to = max(work.settled_to, settlement.reach)
                continue
            logger.warning(
                "group %s lost partition %d of %s to another owner, who goes on with it",
                self._group,
                number,
                self._store.topic.name,
                extra={"group": self._group, "topic": self._store.topic.name, "partition": number},
            )
            self._partitions.lose(number)
            # It may still be ours: a settling that was in doubt and is repeated is refused, too.
            self._partitions.needs_check = True
        self._unwritten = {}
