"""The records that a group passes over, and their late delivery once there is a handler for them."""

import logging

from penstock import metrics
from penstock.delivery.cursor_state import NOTED_TYPES, LateMove
from penstock.delivery.lane import lane_of
from penstock.delivery.notes import LateRange
from penstock.delivery.store import GroupStore
from penstock.log.contract import Log, OffsetRange
from penstock.log.entry import Entry, readable

from ..handler import Subscription
from . import bounds
from .owned_partitions import OwnedPartitions
from .partition_work import PartitionWork

logger = logging.getLogger("penstock.delivery")

_NO_HANDLER = (
    "group %s has no handler for %s on topic %s: such records are passed over, and noted; a worker that has one "
    "delivers them late, those older than processing.catch_up only after `penstock groups catch-up`"
)
_FULL = (
    "group %s has passed over more than %d types on topic %s: no more are noted, and what is passed over of others "
    "cannot be delivered late"
)


class LateRecords:
    """Feeds machines with late records, in small lots, and reports the records that are passed over.

    Late records run beside the live ones, few enough never to hold those up. One that waits for a retry, or for a
    person, holds up no other key. One thread, the delivery loop's.
    """

    def __init__(self, log: Log, store: GroupStore, subscription: Subscription, partitions: OwnedPartitions) -> None:
        self._log, self._store, self._partitions = log, store, partitions
        self._group, self._subscription = subscription.group, subscription
        self._is_full_logged = False

    def feed(self) -> bool:
        """Read on in the passed-over records, where there is room; return whether there was anything."""
        works = [
            work
            for work in self._partitions.awake()
            if work.owned.late and not (work.leaving or work.borrowed) and work.machine.late_count < bounds.LATE_RECORDS
        ][: bounds.LATE_PARTITIONS]
        if not works or self._is_crowded():
            return False
        lots = [OffsetRange(work.number, *_lot(work.owned.late)) for work in works]
        chunk = self._log.read_ranges(self._store.topic, lots, max_bytes=bounds.READ_BYTES, bare=True)
        found: dict[int, list[Entry]] = {}
        for entry in chunk.entries:
            found.setdefault(entry.partition, []).append(entry)
        for work, (number, _, high) in zip(works, lots, strict=True):
            self._deliver(work, found.get(number, []), high)
        return True

    def _is_crowded(self) -> bool:
        """Return whether so few more records may wait that live ones would soon be held up."""
        lanes = sum(work.machine.stored_count for work in self._partitions.awake())
        entries = sum(work.machine.entry_count for work in self._partitions.awake())
        return 2 * lanes > bounds.LANES_BOUND or 2 * entries > bounds.ENTRIES_BOUND

    def _deliver(self, work: PartitionWork, entries: list[Entry], high: int) -> None:
        """Hand a lot to the machine, as far as there is room, and move the notes on accordingly."""
        ranges, room = work.owned.late, bounds.LATE_RECORDS - work.machine.late_count
        records = list[tuple[int, str]]()
        for entry in entries:
            noted = next((each for each in ranges if each.has(entry.type or "", entry.offset)), None)
            if noted is None:
                continue
            if len(records) == room:
                high = entry.offset
                break
            record, _ = readable(self._store.topic.name, entry)
            records.append((entry.offset, lane_of(record)))
            if noted.again:
                work.owned.repeats.add(entry.offset)
                work.owned.crashes = max(1, work.owned.crashes)  # the next owner must know that, too
        work.machine.deliver_late(records, [_move(each, high) for each in ranges if each.first < high])
        work.owned.late = [each for each in ranges if each.first < each.until]

    def tell(self, types: list[str]) -> None:
        """Count passed-over records by type; log the types that are new in this process."""
        metrics.PASSED_OVER.add(len(types), group=self._group)
        topic = self._store.topic.name
        fields = {"group": self._group, "topic": topic}
        news = [type for type in set(types) if self._subscription.pass_over(type)]
        if news:
            known = self._store.notes.types
            level = logging.INFO if all(type in known for type in news) else logging.WARNING
            names = ", ".join(type or "records without a type" for type in sorted(news))
            logger.log(level, _NO_HANDLER, self._group, names, topic, extra=fields)
        if not self._is_full_logged and any(work.machine.passed_over.is_full for work in self._partitions):
            self._is_full_logged = True
            logger.warning(_FULL, self._group, NOTED_TYPES, topic, extra=fields)


def _lot(ranges: list[LateRange]) -> tuple[int, int]:
    low = min(each.first for each in ranges)
    return low, min(low + bounds.LATE_OFFSETS, max(each.until for each in ranges))


def _move(each: LateRange, to: int) -> LateMove:
    """Move a range on to an offset, and return the move for its note."""
    each.first = min(to, each.until)
    return LateMove(each.type, each.until, each.first)
