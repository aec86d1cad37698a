"""Retention: the oldest records of a topic are deleted, in bounded batches, behind the slowest group.

What is too old, too many or too large goes, whichever comes first; nothing goes that a group which was seen
lately has not passed. Records that wait in lanes are copied to their entries in the transaction that deletes
them from the log, so a parked key never holds back the rest. A batch is one short transaction: it deletes by
ranges of the primary key, locks no row that a publisher or the sequencer needs until its last statement, and
raises the start of its partitions there. Two passes at once delete the same records once.

Bytes are measured only where a topic limits them, and each record once: a pass adds what came since the last
one and takes off what it deletes. The sum lives in memory; a new process measures the topic anew.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from penstock import metrics, points
from penstock.clock import Clock, own_ms
from penstock.errors import PickChanged
from penstock.settings import Settings, setting

from .contract import Row, Rows
from .database import Database, Transaction

AFTER_COPY = points.declare("retention.after_copy", "What waits in lanes is copied; nothing is deleted.")
BEFORE_COMMIT = points.declare("retention.before_commit", "Records are deleted; not committed.")
AFTER_BATCH = points.declare("retention.after_batch", "A batch is deleted and committed; more may follow.")

FOR_EVER = -1  # in a topic's columns: no limit, whatever the settings say


class RetentionSettings(Settings, room="retention"):
    """What the log keeps, unless a topic says otherwise, and how the rest is deleted."""

    age: timedelta = setting(timedelta(days=7), "Records older than this are deleted.", at_least=1)
    bytes: int = setting(0, "Most bytes kept of each partition; 0: no limit.", at_least=0)
    records: int = setting(0, "Most records kept of each partition; 0: no limit.", at_least=0)
    interval: timedelta = setting(timedelta(seconds=30), "Time between two passes.", at_least=0.01)
    batch_size: int = setting(1000, "Most records deleted in one transaction.", at_least=1)
    batches_per_pass: int = setting(
        4, "Most transactions of a pass; one that was full is followed at once.", at_least=1
    )
    # Being there is noted once an hour, so less than two hours would forget a group that works.
    group_expires: timedelta = setting(
        timedelta(days=7), "A group without a member for so long holds nothing back.", at_least=7200
    )


class Range(NamedTuple):
    """Records of one partition: from `low` to before `high`."""

    partition: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What a pass deleted, by topic. `full`: there was more than it may delete at once."""

    deleted: dict[str, int] = field(default_factory=dict)
    full: bool = False

    @property
    def count(self) -> int:
        """How many records in all."""
        return sum(self.deleted.values())


@dataclass(frozen=True, slots=True)
class Keep:
    """What is kept of a topic; None: no limit. An age of 0: nothing that all its groups have passed."""

    age_ms: int | None
    size: int | None
    records: int | None


def keep_of(settings: RetentionSettings, row: Sequence[int | None]) -> Keep:
    """Return what a topic keeps: its own columns (milliseconds, bytes, records), else the settings'."""
    defaults = (settings.age // timedelta(milliseconds=1), settings.bytes or None, settings.records or None)
    limits = [default if own is None else own for own, default in zip(row, defaults, strict=True)]
    return Keep(*(None if each is not None and each < 0 else each for each in limits))


class _Topic(NamedTuple):
    id: int
    name: str
    keep: Keep
    now_ms: int


class _Head(NamedTuple):
    partition: int
    start: int
    end: int
    held: int | None  # the slowest cursor; None: no group holds
    oldest_ms: int | None

    @property
    def ceiling(self) -> int:
        return self.end if self.held is None else min(self.end, self.held)


class _Measured(NamedTuple):
    start: int
    end: int
    size: int


class _Needed(Exception):
    """A group has come back to what was planned to go."""


class Retention:
    """Deletes what need not be kept. Not thread-safe: one loop owns it."""

    def __init__(self, database: Database, settings: RetentionSettings, clock: Clock) -> None:
        self._database, self._settings, self._clock = database, settings, clock
        self._measured: dict[tuple[int, int], _Measured] = {}
        self._first = 0

    def run(self, topic: str | None = None) -> Trimmed:
        """Delete up to a pass's worth of one topic, or of all."""
        budget = self._settings.batch_size * self._settings.batches_per_pass
        deleted: dict[str, int] = {}
        full = False
        for each in self._in_turn(self._topics(topic)):
            if budget <= 0:
                full = True  # perhaps: the next pass begins there
                break
            ranges, more = self._plan(each, budget)
            full |= more
            for batch in _batches(ranges, self._settings.batch_size):
                try:
                    count = self._database.run(partial(self._trim, each, batch))
                except _Needed:
                    break  # nothing is deleted; the next pass plans anew
                points.reach(AFTER_BATCH)
                deleted[each.name] = deleted.get(each.name, 0) + count
                metrics.TRIMMED.add(count, topic=each.name)
            budget -= sum(high - low for _, low, high in ranges)
        return Trimmed(deleted, full)

    def planned(self, topic: str | None = None) -> dict[str, int]:
        """Return how many records of each topic would be deleted now, all passes together."""
        found = {}
        for each in self._topics(topic):
            ranges, _ = self._plan(each, 1 << 62)
            if ranges:
                found[each.name] = sum(high - low for _, low, high in ranges)
        return found

    # -- what may go

    def _topics(self, name: str | None) -> list[_Topic]:
        rows = self._database.look(lambda tx: tx.rows("log", "trim_topics", now_ms=own_ms(self._clock)))
        return [
            _Topic(row[0], row[1], keep_of(self._settings, row[2:5]), row[5])
            for row in rows
            if name in (None, row[1])
        ]

    def _in_turn(self, topics: list[_Topic]) -> Iterator[_Topic]:
        """Yield the topics, each pass beginning with another: one that is always full starves nobody."""
        self._first = (self._first + 1) % len(topics) if topics else 0
        yield from topics[self._first :] + topics[: self._first]

    def _plan(self, topic: _Topic, budget: int) -> tuple[list[Range], bool]:
        """Return what of a topic may go, about so many records, and whether there may be more."""
        keep = topic.keep
        if keep == Keep(None, None, None):
            return [], False
        seen_since = self._seen_since(topic)
        heads = [_Head(*row) for row in self._rows("trim_heads", topic, seen_since=seen_since)]
        excess = self._excess(topic, heads, keep.size)
        # The walk below must not look at more than is deleted, so only partitions with something to go share.
        going = [head for head in heads if head.ceiling > head.start and self._goes(topic, head, excess)]
        share, full = max(1, budget // max(1, len(going))), len(going) > budget
        limits = self._limits(topic, going[:budget], share, excess)
        ranges = [
            Range(head.partition, head.start, high)
            for head in going[:budget]
            if (high := limits[head.partition]) > head.start
        ]
        full |= any(limits[head.partition] == head.start + share < head.ceiling for head in going[:budget])
        return ranges, full

    def _seen_since(self, topic: _Topic) -> int:
        return topic.now_ms - self._settings.group_expires // timedelta(milliseconds=1)

    def _goes(self, topic: _Topic, head: _Head, excess: dict[int, int]) -> bool:
        return (
            self._is_passed(topic, head)
            or self._is_aged(topic, head)
            or self._by_count(topic, head) > head.start
            or excess.get(head.partition, 0) > 0
        )

    def _is_passed(self, topic: _Topic, head: _Head) -> bool:
        """Return whether all that groups have passed goes: a topic that keeps nothing, and has a reader."""
        return topic.keep.age_ms == 0 and head.held is not None

    def _is_aged(self, topic: _Topic, head: _Head) -> bool:
        cutoff_ms = self._cutoff_ms(topic)
        return cutoff_ms is not None and head.oldest_ms is not None and head.oldest_ms < cutoff_ms

    def _cutoff_ms(self, topic: _Topic) -> int | None:
        """Return what is too old. At an age of 0 what has no reader yet is kept as the settings say."""
        age_ms = topic.keep.age_ms
        if age_ms == 0:
            age_ms = self._settings.age // timedelta(milliseconds=1)
        return None if age_ms is None else topic.now_ms - age_ms

    def _by_count(self, topic: _Topic, head: _Head) -> int:
        return 0 if topic.keep.records is None else head.end - topic.keep.records

    def _limits(
        self, topic: _Topic, heads: Sequence[_Head], share: int, excess: dict[int, int]
    ) -> dict[int, int]:
        """Return up to where each partition may go now."""
        tops = {head.partition: min(head.ceiling, head.start + share) for head in heads}
        limits = {head.partition: self._by_count(topic, head) for head in heads}
        for head in heads:
            if self._is_passed(topic, head):
                limits[head.partition] = tops[head.partition]
        open_heads = [head for head in heads if limits[head.partition] < tops[head.partition]]
        aged = [
            Range(head.partition, head.start, tops[head.partition])
            for head in open_heads
            if self._is_aged(topic, head)
        ]
        if aged:
            for partition, first in self._rows(
                "trim_aged", topic, ranges=_table(aged), cutoff_ms=self._cutoff_ms(topic)
            ):
                reached = tops[partition] if first is None else first
                limits[partition] = max(limits[partition], reached)
        large = [head for head in open_heads if excess.get(head.partition, 0) > 0]
        if large:
            table = Rows(
                partition=[head.partition for head in large],
                low=[head.start for head in large],
                high=[tops[head.partition] for head in large],
                excess=[excess[head.partition] for head in large],
            )
            for partition, reached in self._rows("trim_oversize", topic, ranges=table):
                limits[partition] = max(limits[partition], reached or 0)
        return {partition: min(limit, tops[partition]) for partition, limit in limits.items()}

    def _excess(self, topic: _Topic, heads: Sequence[_Head], most: int | None) -> dict[int, int]:
        """Return by how many bytes each partition is too large, measuring what came since the last look."""
        if most is None:
            return {}
        news = []
        for head in heads:
            known = self._measured.get((topic.id, head.partition))
            if known is None or known.start != head.start:  # another process has deleted here: begin anew
                known = self._measured[topic.id, head.partition] = _Measured(head.start, head.start, 0)
            if known.end < head.end:
                news.append(Range(head.partition, known.end, head.end))
        if news:
            sizes: dict[int, int] = dict(self._rows("trim_measure", topic, ranges=_table(news)))
            for partition, _, high in news:
                known = self._measured[topic.id, partition]
                self._measured[topic.id, partition] = _Measured(
                    known.start, high, known.size + sizes[partition]
                )
        return {head.partition: self._measured[topic.id, head.partition].size - most for head in heads}

    def _rows(self, name: str, topic: _Topic, **params: object) -> list[Row]:
        return self._database.look(lambda tx: tx.rows("log", name, topic_id=topic.id, **params))

    # -- how it goes

    def _trim(self, topic: _Topic, ranges: Sequence[Range], tx: Transaction) -> int:
        if topic.keep.size is None:
            return self._delete(topic, ranges, tx)
        sizes: dict[int, int] = dict(tx.rows("log", "trim_measure", topic_id=topic.id, ranges=_table(ranges)))
        deleted = self._delete(topic, ranges, tx)
        for partition, low, high in ranges:
            known = self._measured.pop((topic.id, partition), None)
            if known is not None and known.start == low:
                left = _Measured(high, known.end, known.size - sizes[partition])
                self._measured[topic.id, partition] = left
        return deleted

    def _delete(self, topic: _Topic, ranges: Sequence[Range], tx: Transaction) -> int:
        """Delete what was planned, unless a group was reset or came back since: its cursor is asked again.

        Now the heads are locked: who resets a group later finds where they begin.
        """
        deleted, since = trim(tx, topic.id, ranges), self._seen_since(topic)
        if tx.rows("log", "trim_behind", topic_id=topic.id, ranges=_table(ranges), seen_since=since):
            raise _Needed
        return deleted


def trim(tx: Transaction, topic_id: int, ranges: Sequence[Range]) -> int:
    """Delete the oldest records of some partitions, one range of each; return how many there were.

    Locks in the order of all: cursors, but only where a lane's record has to be copied, then heads.
    """
    table = _table(ranges)
    waiting = tx.rows("log", "trim_waiting", topic_id=topic_id, ranges=table)
    if waiting:
        groups, partitions = (list(column) for column in zip(*waiting, strict=True))
        tx.rows("log", "trim_cursors", topic_id=topic_id, cursors=Rows(group_id=groups, partition=partitions))
        tx.change("log", "trim_copy", topic_id=topic_id, ranges=table)
    points.reach(AFTER_COPY)
    deleted = tx.change("log", "trim_delete", topic_id=topic_id, ranges=table)
    expected = sum(high - low for _, low, high in ranges)
    if deleted != expected and tx.rows("log", "trim_left", topic_id=topic_id, ranges=table):
        raise PickChanged(expected, deleted)  # some were erased meanwhile: their rows have moved
    tx.change("log", "trim_times", topic_id=topic_id, ranges=table)
    tx.change("log", "trim_raise", topic_id=topic_id, ranges=table)
    points.reach(BEFORE_COMMIT)
    return deleted


def _table(ranges: Sequence[Range]) -> Rows:
    partitions, lows, highs = (list(column) for column in zip(*ranges, strict=True))
    return Rows(partition=partitions, low=lows, high=highs)


def _batches(ranges: Sequence[Range], size: int) -> Iterator[list[Range]]:
    """Yield the ranges in lots of so many records; a long range is cut, in its order."""
    batch: list[Range] = []
    room = size
    for partition, start, high in ranges:
        low = start
        while low < high:
            end = min(high, low + room)
            batch.append(Range(partition, low, end))
            room -= end - low
            low = end
            if not room:
                yield batch
                batch, room = [], size
    if batch:
        yield batch
