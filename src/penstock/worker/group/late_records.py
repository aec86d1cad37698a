"""The records that a group passes over, and their late delivery once there is a handler for them."""

import logging

from penstock import metrics
from penstock.clock import Clock
from penstock.delivery.lane import lane_of
from penstock.delivery.notes import LateRange
from penstock.delivery.store import GroupStore
from penstock.delivery.unhandled_types import NOTED_TYPES, LateMove
from penstock.log.contract import Log, OffsetRange
from penstock.log.entry import Entry, readable

from ..subscription import Subscription
from . import bounds
from .owned_partitions import OwnedPartitions
from .partition_work import PartitionWork

logger = logging.getLogger("penstock.delivery")

_COUNT_SECONDS = 10.0


class LateRecords:
    """Feeds machines with late records, in small lots, and has counts of passed-over records written.

    Late records run beside the live ones, few enough that the bounds on waiting records never hold up live
    ones. A late record that waits for a retry, or for a person, holds up no other key. One thread, the
    delivery loop's.
    """

    def __init__(
        self, log: Log, store: GroupStore, subscription: Subscription, partitions: OwnedPartitions, clock: Clock
    ) -> None:
        self._log, self._store, self._partitions, self._clock = log, store, partitions, clock
        self._group, self._subscription = subscription.group, subscription
        self._next_count = 0.0
        self._is_full_logged = False

    # -- records passed over before

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

    # -- records passed over now

    def tell(self, types: list[str]) -> None:
        """Count passed-over records by type; log the types that are new in this process."""
        metrics.PASSED_OVER.add(len(types), group=self._group)
        news = [type for type in set(types) if self._subscription.pass_over(type)]
        if news:
            known = self._store.notes.types
            level = logging.INFO if all(type in known for type in news) else logging.WARNING
            logger.log(
                level,
                "group %s has no handler for %s on topic %s: such records are passed over, and noted; a "
                "worker that has one delivers them late, those older than processing.catch_up only after "
                "`penstock groups catch-up`",
                self._group,
                ", ".join(type or "records without a type" for type in sorted(news)),
                self._store.topic.name,
                extra={"group": self._group, "topic": self._store.topic.name},
            )
        if not self._is_full_logged and any(work.machine.passed_over.is_full for work in self._partitions):
            self._is_full_logged = True
            logger.warning(
                "group %s has passed over more than %d types on topic %s: no more are noted, and what is "
                "passed over of others cannot be delivered late",
                self._group,
                NOTED_TYPES,
                self._store.topic.name,
                extra={"group": self._group, "topic": self._store.topic.name},
            )

    def count(self, *, now: bool = False) -> None:
        """Have the counts of passed-over records written with the next settlement, if it is time or `now`."""
        if now or self._clock.monotonic() >= self._next_count:
            self._next_count = self._clock.monotonic() + _COUNT_SECONDS
            self._partitions.wake_all()
            for work in self._partitions:
                if not work.borrowed:
                    work.machine.flush_passed_over()


def _lot(ranges: list[LateRange]) -> tuple[int, int]:
    """Return the range of offsets to look at next."""
    low = min(each.first for each in ranges)
    return low, min(low + bounds.LATE_OFFSETS, max(each.until for each in ranges))


def _move(each: LateRange, to: int) -> LateMove:
    """Move a range on to an offset, and return the move for its note."""
    each.first = min(to, each.until)
    return LateMove(each.type, each.until, each.first)
