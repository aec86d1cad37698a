"""Retention: the oldest records of a topic are deleted, in bounded batches, behind the slowest group.

Records that are too old, too many or too large are deleted (`RetentionRule`), except those that a recently seen handler
group has not passed, or that a reader holds in the log. A batch is one short transaction where log and database are
one. Two passes at once delete the same records once.

Bytes are measured only where a topic limits them, each record once: the sum is kept in memory.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock import metrics, points
from penstock.clock import Clock, own_ms
from penstock.database.database import Transaction
from penstock.errors import Damaged, FileUnreadable, StillNeeded
from penstock.log.contract import OffsetRange, Position, Topic
from penstock.log.store import Store

from .retention_rule import AsSet, Limits, RetentionRule, RetentionSettings
from .retention_trim import behind, copy_waiting, trim

logger = logging.getLogger("penstock.delivery")

_SEGMENT_FACTOR = 1000  # times as many records per batch where whole segments are removed, not rows
AFTER_BATCH = points.declare("retention.after_batch", "A batch is deleted and committed; more may follow.")


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The records a pass deleted, by topic. `full`: there were more than it may delete at once."""

    deleted: dict[str, int] = field(default_factory=dict)
    full: bool = False

    @property
    def count(self) -> int:
        """The number of records in all."""
        return sum(self.deleted.values())

    def __add__(self, other: "Trimmed") -> "Trimmed":
        total = dict(self.deleted)
        for name, count in other.deleted.items():
            total[name] = total.get(name, 0) + count
        return Trimmed(total, other.full)


class _KeptPartition(NamedTuple):
    partition: int
    start: int
    end: int
    held: int | None  # the slowest reader; None: no reader holds records back

    @property
    def ceiling(self) -> int:
        return self.end if self.held is None else min(self.end, self.held)


class _Measured(NamedTuple):
    start: int
    end: int
    size: int


class _Plan(NamedTuple):
    topic: Topic
    limits: Limits
    now_ms: int


Noted = Callable[[Transaction, str, int], None]  # how many records of a topic go, in this transaction


class Retention:
    """Deletes what need not be kept. Not thread-safe: one loop owns it."""

    def __init__(
        self,
        store: Store,
        settings: RetentionSettings,
        clock: Clock,
        *,
        rule: RetentionRule | None = None,
        note: Noted = lambda tx, topic, count: None,
    ) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        self._rule: RetentionRule = rule or AsSet(settings)
        self._note = note
        self._measured: dict[tuple[int, int], _Measured] = {}
        self._first = 0

    def run(self, topic: str | None = None) -> Trimmed:
        """Delete up to a pass's worth of one topic, or of all."""
        size = self._settings.batch_size
        if self._store.log.trims_here is not None:
            size *= _SEGMENT_FACTOR
        budget = size * self._settings.batches_per_pass
        deleted: dict[str, int] = {}
        full = False
        for plan in self._in_turn(self._plans(topic)):
            if budget <= 0:
                full = True  # perhaps: the next pass begins there
                break
            ranges, more = self._ranges(plan, budget)
            full |= more
            for batch in _batches(ranges, size):
                try:
                    count = self._trim_readable(plan, batch)
                except StillNeeded:
                    break  # nothing is deleted; the next pass plans again
                points.reach(AFTER_BATCH)
                name = plan.topic.name
                deleted[name] = deleted.get(name, 0) + count
                metrics.TRIMMED.add(count, topic=name)
            budget -= sum(each.high - each.low for each in ranges)
            full |= self._tend(plan)
        return Trimmed(deleted, full)

    def _tend(self, plan: _Plan) -> bool:
        store = self._store
        if store.log.trims_here is None:
            return False
        return store.log.tend(
            plan.topic,
            {head.partition: head.ceiling for head in self._heads(plan)},
            leaving=lambda ranges: store.database.run(lambda tx: copy_waiting(tx, store.log, plan.topic, ranges)),
            now_ms=plan.now_ms,
        )

    def planned(self, topic: str | None = None) -> dict[str, int]:
        """Return how many records of each topic would be deleted now, all passes together."""
        found = {}
        for plan in self._plans(topic):
            ranges, _ = self._ranges(plan, 1 << 62)
            if ranges:
                found[plan.topic.name] = sum(each.high - each.low for each in ranges)
        return found

    def _plans(self, name: str | None) -> list[_Plan]:
        now_ms = self._store.database.now_ms(own_ms(self._clock))
        topics = [each for each in self._store.log.topics() if name in (None, each.name)]
        return [_Plan(each, self._rule.limits(each.keep, now_ms), now_ms) for each in topics]

    def _in_turn(self, plans: list[_Plan]) -> Iterator[_Plan]:
        """Yield the topics, each pass beginning with another: so one that is always full starves no other."""
        self._first = (self._first + 1) % len(plans) if plans else 0
        yield from plans[self._first :] + plans[: self._first]

    def _ranges(self, plan: _Plan, budget: int) -> tuple[list[OffsetRange], bool]:
        if plan.limits.is_everything:
            return [], False
        heads = [each for each in self._heads(plan) if each.held is not None or not self._rule.needs_reader]
        try:
            return self._ranges_of(plan, heads, budget)
        except (Damaged, FileUnreadable):  # in one partition: the others do not wait for it
            found, full = list[OffsetRange](), False
            for head in heads:
                try:
                    some, more = self._ranges_of(plan, [head], max(1, budget // len(heads)))
                except (Damaged, FileUnreadable) as exc:
                    logger.warning("nothing of %s/%d is deleted by retention: %s", plan.topic.name, head.partition, exc)
                    continue
                found, full = found + some, full or more
            return found, full

    def _ranges_of(self, plan: _Plan, heads: Sequence[_KeptPartition], budget: int) -> tuple[list[OffsetRange], bool]:
        excess = self._excess(plan, heads)
        aged = self._aged(plan, heads)
        # A walk must not look at more than is deleted, so only partitions with something to delete share.
        going = [head for head in heads if head.ceiling > head.start and self._goes(plan, head, excess, aged)]
        share, full = max(1, budget // max(1, len(going))), len(going) > budget
        going = going[:budget]
        limits = self._limits(plan, going, share, excess, aged)
        ranges = [
            OffsetRange(head.partition, head.start, high)
            for head in going
            if (high := limits[head.partition]) > head.start
        ]
        full |= any(limits[head.partition] == head.start + share < head.ceiling for head in going)
        return ranges, full

    def _heads(self, plan: _Plan) -> list[_KeptPartition]:
        """Return the partitions that hold records, each with its slowest reader."""
        params = {"topic_id": plan.topic.id, "seen_since": self._rule.seen_since_ms(plan.now_ms)}
        held: dict[int, int] = dict(
            self._store.database.look(lambda tx: tx.rows("delivery", "cursors_slowest", **params))
        )
        for offsets in self._store.log.holds(plan.topic).values():
            for partition, offset in offsets.items():
                held[partition] = min(offset, held.get(partition, offset))
        bounds = self._store.log.all_bounds(plan.topic)
        return [
            _KeptPartition(partition, start, end, held.get(partition))
            for partition, (start, end) in sorted(bounds.items())
            if start < end
        ]

    def _aged(self, plan: _Plan, heads: Sequence[_KeptPartition]) -> set[int]:
        if plan.limits.older_than_ms is None:
            return set()
        starts = [Position(head.partition, head.start) for head in heads]
        found = self._store.log.at(plan.topic, starts, bare=True)
        known = {each.partition for each in found}
        void = [each for each in starts if each.partition not in known]
        if void:  # of an aborted transaction, or compacted away: the next record tells the age
            firsts = self._store.log.first_offsets(plan.topic, void).items()
            found += self._store.log.at(plan.topic, [Position(*each) for each in firsts], bare=True)
        return {each.partition for each in found if each.timestamp_ms < plan.limits.older_than_ms}

    def _goes(self, plan: _Plan, head: _KeptPartition, excess: dict[int, int], aged: set[int]) -> bool:
        return (
            self._is_passed(plan, head)
            or head.partition in aged
            or self._by_count(plan, head) > head.start
            or excess.get(head.partition, 0) > 0
        )

    def _is_passed(self, plan: _Plan, head: _KeptPartition) -> bool:
        """Return whether to delete all that groups have passed: an age of 0, and at least one reader."""
        return plan.limits.passed and head.held is not None

    def _by_count(self, plan: _Plan, head: _KeptPartition) -> int:
        return 0 if plan.limits.records is None else head.end - plan.limits.records

    def _limits(
        self, plan: _Plan, heads: Sequence[_KeptPartition], share: int, excess: dict[int, int], aged: set[int]
    ) -> dict[int, int]:
        log = self._store.log
        tops = {head.partition: min(head.ceiling, head.start + share) for head in heads}
        limits = {
            head.partition: tops[head.partition] if self._is_passed(plan, head) else self._by_count(plan, head)
            for head in heads
        }
        spans = {
            head.partition: OffsetRange(head.partition, head.start, tops[head.partition])
            for head in heads
            if limits[head.partition] < tops[head.partition]
        }
        old = [span for partition, span in spans.items() if partition in aged]
        if old:
            assert plan.limits.older_than_ms is not None
            for partition, first in log.offsets_at(plan.topic, plan.limits.older_than_ms, old).items():
                limits[partition] = max(limits[partition], first)
        large = [span for partition, span in spans.items() if excess.get(partition, 0) > 0]
        if large:
            sizes = [excess[span.partition] for span in large]
            for partition, reached in log.reach(plan.topic, large, sizes).items():
                limits[partition] = max(limits[partition], reached)
        return {partition: min(limit, tops[partition]) for partition, limit in limits.items()}

    def _excess(self, plan: _Plan, heads: Sequence[_KeptPartition]) -> dict[int, int]:
        if plan.limits.bytes is None:
            return {}
        news = []
        for head in heads:
            place = plan.topic.id, head.partition
            known = self._measured.get(place)
            if known is None or known.start != head.start:  # another process has deleted here: begin again
                known = self._measured[place] = _Measured(head.start, head.start, 0)
            if known.end < head.end:
                news.append(OffsetRange(head.partition, known.end, head.end))
        sizes = self._store.log.sizes(plan.topic, news) if news else {}
        for partition, _, high in news:
            known = self._measured[plan.topic.id, partition]
            self._measured[plan.topic.id, partition] = _Measured(known.start, high, known.size + sizes[partition])
        return {
            head.partition: self._measured[plan.topic.id, head.partition].size - plan.limits.bytes for head in heads
        }

    def _is_held(self, tx: Transaction, topic: Topic, ranges: Sequence[OffsetRange]) -> bool:
        """Return whether a reader holds records of some ranges, perhaps since they were planned."""
        highs = {each.partition: each.high for each in ranges}
        holds = self._store.log_in(tx).holds(topic).values()
        return any(offset < highs.get(number, 0) for each in holds for number, offset in each.items())

    def _trim_readable(self, plan: _Plan, ranges: Sequence[OffsetRange]) -> int:
        try:
            return self._trim(plan, ranges)
        except (Damaged, FileUnreadable) as exc:
            if len(ranges) > 1:
                return sum(self._trim_readable(plan, [each]) for each in ranges)
            logger.warning("nothing of %s/%d is deleted by retention: %s", plan.topic.name, ranges[0].partition, exc)
            return 0

    def _trim(self, plan: _Plan, ranges: Sequence[OffsetRange]) -> int:
        """Delete the planned ranges, unless a group was reset or came back since: check its cursor again."""
        seen_since = self._rule.seen_since_ms(plan.now_ms)
        measures = plan.limits.bytes is not None
        sizes = self._store.log.sizes(plan.topic, ranges) if measures else {}
        deleted = trim(
            self._store,
            plan.topic,
            ranges,
            unless=lambda tx: bool(behind(tx, plan.topic, ranges, seen_since)) or self._is_held(tx, plan.topic, ranges),
            note=lambda tx, count: self._note(tx, plan.topic.name, count),
        )
        for partition, low, high in ranges if measures else ():
            known = self._measured.pop((plan.topic.id, partition), None)
            if known is not None and known.start == low:
                left = _Measured(high, known.end, known.size - sizes[partition])
                self._measured[plan.topic.id, partition] = left
        return deleted


def _batches(ranges: Sequence[OffsetRange], size: int) -> Iterator[list[OffsetRange]]:
    """Yield the ranges in batches of `size` records; a long range is cut, in its order."""
    batch: list[OffsetRange] = []
    room = size
    for partition, start, high in ranges:
        low = start
        while low < high:
            end = min(high, low + room)
            batch.append(OffsetRange(partition, low, end))
            room -= end - low
            low = end
            if not room:
                yield batch
                batch, room = [], size
    if batch:
        yield batch
