"""Care after a crash (docs/decisions/0009-care-after-a-crash.md)."""

import logging

from penstock.delivery.machine import Delivery
from penstock.delivery.store import CRASHES_UNTIL_DEAD, GroupStore
from penstock.delivery.verdict import Dead, OnExhausted

from ..task import TaskPlace
from .group_reader import GroupReader
from .held_records import HeldRecords
from .owned_partitions import OwnedPartitions
from .partition_work import PartitionWork, Taken

logger = logging.getLogger("penstock.delivery")

_KILLED = f"killed its worker {CRASHES_UNTIL_DEAD} times"


class CrashCare:
    """Works the partitions of a lost owner so that a record which kills its worker can be found.

    Of all such partitions one record at a time is out, its offset written down first, until all that the lost
    owner may have handed out is settled. The third crash on one record makes it a dead letter. One thread,
    the delivery loop's.
    """

    def __init__(
        self, store: GroupStore, partitions: OwnedPartitions, reader: GroupReader, records: HeldRecords
    ) -> None:
        self._store, self._partitions, self._reader, self._records = store, partitions, reader, records
        self.out: tuple[PartitionWork, int] | None = None  # the record that is under care, if one is

    def is_free(self) -> bool:
        """Return whether no such record is out; one whose partition was lost does not count."""
        return self.out is None or self._partitions.get(self.out[0].number) is not self.out[0]

    def take(self, work: PartitionWork, now_ms: int) -> list[Taken]:
        """Take one record of a partition whose owner crashed, after writing down which."""
        for delivery in work.machine.take(now_ms, 1):
            owned, offset = work.owned, delivery.offset
            try:
                self._reader.fetch([(work, delivery)])
                if owned.crashes >= CRASHES_UNTIL_DEAD and owned.trying == offset:
                    self._give_up(work, delivery)
                elif self._store.trying(work.number, owned, offset):
                    self.out = (work, offset) if offset in work.records else None
                    return [(work, delivery)]
                else:
                    self._partitions.lose(work.number)
                    self._partitions.needs_check = True
            except BaseException:
                work.machine.untake(offset)
                raise
        return []

    def end(self, place: TaskPlace) -> None:
        """Take note that a record is no longer out, if it is the one."""
        if self.out is not None and (self.out[0].number, self.out[1]) == place:
            self.out = None

    def end_if_settled(self, work: PartitionWork) -> None:
        """Treat a partition as any other again, once all its lost owner may have handed out is settled."""
        end = self._reader.end(work.number)
        if end is None or work.machine.base < min(work.doubtful_to, end) or work.doubtful:
            return
        work.owned.crashes, work.owned.trying, work.doubtful_to = 0, None, 0
        work.machine.touch()

    def _give_up(self, work: PartitionWork, delivery: Delivery) -> None:
        known = work.records.get(delivery.offset)
        self._records.drop(work, delivery.offset)
        hold = known is not None and known[1].rules.on_exhausted is OnExhausted.HOLD
        logger.error(
            "record %d of partition %d of %s %s; it is now a dead letter",
            delivery.offset,
            work.number,
            self._store.topic.name,
            _KILLED,
        )
        work.machine.finish(delivery.offset, Dead(delivery.failures + CRASHES_UNTIL_DEAD, _KILLED, hold))
        work.doubtful.discard(delivery.offset)
        work.owned.crashes = 1
