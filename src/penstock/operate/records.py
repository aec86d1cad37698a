"""Records of the log: walked, counted and listed by the progress of the groups, and deleted by hand.

A cursor tells how far a group is. Of the records before it, these do not count as delivered: records that
wait in lanes; dead letters; erased records, since it is unknown whether they were delivered before the
erasure; and records that the group's notes list as passed over because it had no handler for the type. To
count the last, the log is read once for all groups that have notes.

The log is dense, so only the oldest records of a partition can be deleted. Records that wait in a lane are
copied there first, as retention does; a dead letter has its own copy.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.contract import Row, Rows
from penstock.database.database import Transaction
from penstock.delivery.cursor_state import DoneSet
from penstock.delivery.notes import Note
from penstock.delivery.retention import Retention, Trimmed
from penstock.delivery.retention_rule import PassedBefore, RetentionSettings
from penstock.delivery.retention_trim import trim
from penstock.errors import InvalidSelection, OffsetOutOfRange, StillNeeded
from penstock.log.contract import LAST_OFFSET, Bounds, Log, OffsetRange, Topic, check_partition
from penstock.log.entry import Entry
from penstock.log.store import Store
from penstock.model.limits import check_moment

from . import audit
from .operation import operation

_READ = 1000  # records read together


def walk(log: Log, topic: Topic, partition: int, bounds: Bounds) -> Iterator[list[Entry]]:
    """Yield the records of a partition within bounds, in lists, without values and headers. Raises Damaged."""
    low, high = bounds
    while low < high:
        wanted = OffsetRange(partition, low, min(high, low + _READ))
        entries, cut = log.read_ranges(topic, [wanted], max_bytes=LAST_OFFSET, bare=True)
        yield list(entries)
        low = entries[-1].offset + 1 if cut else wanted.high  # only damage cuts the read: the next one meets it


def joined(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return ranges sorted, without empty ones, and with those that touch or overlap merged."""
    found: list[OffsetRange] = []
    for each in sorted(each for each in ranges if each.low < each.high):
        if found and found[-1].partition == each.partition and each.low <= found[-1].high:
            found[-1] = found[-1]._replace(high=max(found[-1].high, each.high))
        else:
            found.append(each)
    return found


def logged(
    store: Store, pending: bool, topic_id: int | None, after: tuple[int, int, int]
) -> Iterator[tuple[int, int, int, str, Entry]]:
    """Yield records by topic, partition and offset, after a place of that form, each with its topic's name.

    Pending records: those that a group has not passed yet. Done records: every group has passed them, and in
    none they are waiting or dead. In a topic that no group reads, all are pending.
    """
    for topic in sorted(store.log.topics(), key=lambda each: each.id):
        if topic_id in (None, topic.id) and topic.id >= after[0]:
            for each in _in_topic(store, topic, pending, after):
                yield topic.id, each.partition, each.offset, topic.name, each


def _in_topic(store: Store, topic: Topic, pending: bool, after: tuple[int, int, int]) -> Iterator[Entry]:
    rows = store.database.look(lambda tx: tx.rows("operate", "cursors_lowest", topic_id=topic.id))
    lowest: dict[int, int] = dict(rows)
    for number, bounds in sorted(store.log.all_bounds(topic).items()):
        if (topic.id, number) < after[:2]:
            continue
        passed = max(bounds.start, lowest.get(number, bounds.start))
        span = Bounds(passed, bounds.end) if pending else Bounds(bounds.start, min(passed, bounds.end))
        low = max(span.start, after[2] + 1) if (topic.id, number) == after[:2] else span.start
        for entries in walk(store.log, topic, number, Bounds(low, span.end)):
            yield from entries if pending else _finished(store, topic, number, entries)


def _finished(store: Store, topic: Topic, number: int, entries: list[Entry]) -> Iterator[Entry]:
    """Yield the records that are neither waiting nor dead in any group."""
    if entries:
        span = {"low": entries[0].offset, "high": entries[-1].offset + 1}
        params = {"topic_id": topic.id, "partition": number, **span}
        rows = store.database.look(lambda tx: tx.rows("operate", "unfinished", **params))
        unfinished = {offset for (offset,) in rows}
        yield from (each for each in entries if each.offset not in unfinished)


@dataclass(slots=True)
class GroupAccount:
    """A group's counts of the records within bounds. `passed_over`: by type."""

    name: str
    passed: int = 0
    waiting: int = 0
    dead: int = 0
    before: int = 0  # the waiting and dead records that lie before the start of the log
    erased: int = 0
    unread: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)
    cursors: dict[int, DoneSet] = field(default_factory=dict)
    notes: dict[tuple[int, str], list[Note]] = field(default_factory=dict)

    @property
    def delivered(self) -> int:
        """The number of records that its handlers settled."""
        kept = self.waiting + self.dead - self.before
        return self.passed - kept - self.erased - self.passed_over.total()

    def has_passed(self, partition: int, offset: int) -> bool:
        """Return whether its cursor has passed a record."""
        return partition in self.cursors and offset in self.cursors[partition]

    def has_passed_over(self, partition: int, offset: int, type: str) -> bool:
        """Return whether the cursor passed a record for lack of a handler for its type."""
        notes = self.notes.get((partition, type), ())
        return any(each.has(offset) for each in notes) and self.has_passed(partition, offset)


def accounts(
    store: Store,
    topic: Topic,
    bounds: dict[int, Bounds],
    groups: Sequence[str] | None,
    erased: Collection[tuple[int, int]],
) -> list[GroupAccount]:
    """Return the counts of the groups that read a topic, or of those named in `groups`."""

    def look(tx: Transaction) -> list[GroupAccount]:
        reading = tx.rows("operate", "groups_on_topic", topic_id=topic.id)
        wanted = [row for row in reading if groups is None or row[1] in groups]
        return [_account(tx, name, group_id, topic, bounds) for group_id, name in wanted]

    found = store.database.look(look)
    for each in found:
        each.erased = sum(each.has_passed(*place) for place in erased)
    noted = [each for each in found if each.notes]
    for number, span in sorted(bounds.items()) if noted else ():
        for entry in (entry for entries in walk(store.log, topic, number, span) for entry in entries):
            for each in noted:
                if each.has_passed_over(number, entry.offset, entry.type or ""):
                    each.passed_over[entry.type or ""] += 1
    return found


def _account(tx: Transaction, name: str, group_id: int, topic: Topic, bounds: dict[int, Bounds]) -> GroupAccount:
    account, where = GroupAccount(name), {"group_id": group_id, "topic_id": topic.id}
    starts = Rows(partition=list(bounds), place=[each.start for each in bounds.values()])
    for row in tx.rows("operate", "cursors_of_group", starts=starts, **where):
        partition, offset, passed, waiting, dead, before = row
        start, end = bounds.get(partition, Bounds(0, 0))
        account.cursors[partition] = DoneSet.stored(offset, passed)
        account.passed += max(0, min(offset + DoneSet.count_in(passed), end) - start)
        account.waiting, account.dead = account.waiting + waiting, account.dead + dead
        account.before += before
    account.unread = sum(end - start for start, end in bounds.values()) - account.passed
    for topic_id, *columns in tx.rows("operate", "notes_of_group", group_id=group_id, limit=LAST_OFFSET):
        note = Note(*columns)
        if topic_id == topic.id:
            account.notes.setdefault((note.partition, note.type), []).append(note)
    return account


BATCH = 1000  # records deleted in one transaction


@operation
def delete_done(
    store: Store,
    before: datetime,
    *,
    topic: str | None = None,
    dry_run: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> Trimmed:
    """Delete the records published before a moment that every group has passed; return how many.

    Deletes from the oldest on: a record of a later moment keeps all records behind it. A topic that no group
    reads keeps everything. Raises UnknownTopic, InvalidTime.
    """
    before_ms = check_moment("before", before, 0)
    if topic is not None:
        store.log.topic(topic)

    def note(tx: Transaction, name: str, count: int) -> None:
        subject = {"topic": name, "state": "done", "before": before.isoformat()}
        audit.write(tx, "events delete", subject, count, own_ms(clock), actor=actor)

    rule = PassedBefore(before_ms)
    passed = Retention(store, RetentionSettings.load(), clock, rule=rule, note=note)
    if dry_run:
        return Trimmed(passed.planned(topic))
    total = passed.run(topic)
    while total.full:
        total += passed.run(topic)
    return total


@operation
def delete_records(
    store: Store,
    topic: str,
    partition: int,
    before: int,
    *,
    force: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> int:
    """Delete the records of a partition below an offset; return how many.

    Refused if a group has not passed one of them, unless forced: that group then continues with the oldest
    record left. Raises UnknownTopic, UnknownPartition, OffsetOutOfRange beyond the end, and InvalidSelection
    if there is nothing below the offset or a group has not passed it.
    """
    found = store.log.topic(topic)
    check_partition(found, partition)
    place = {"topic_id": found.id, "partition": partition, "before": before}
    total, behind = 0, list[Row]()

    def is_needed(tx: Transaction) -> bool:
        behind[:] = [] if force else tx.rows("operate", "cursors_below", **place)
        return bool(behind)

    def note(tx: Transaction, count: int) -> None:
        subject = {"topic": topic, "partition": partition, "before": high}
        audit.write(tx, "records delete", subject, count, own_ms(clock), actor=actor)

    while True:
        start, end = store.log.bounds(topic, partition)
        if total and before <= start:
            return total  # another process has deleted the rest
        if not 0 <= before <= end:
            raise OffsetOutOfRange(topic, partition, before, start, end)
        if before <= start:
            raise InvalidSelection(f"{topic}/{partition} begins at {start}: there is nothing below {before}")
        high = min(before, start + BATCH)
        try:
            total += trim(store, found, [OffsetRange(partition, start, high)], unless=is_needed, note=note)
        except StillNeeded:
            name, reached = behind[0]
            raise InvalidSelection(
                f"group {name} is at {reached} of {topic}/{partition} and has not passed {before} yet; "
                "choose a lower offset, or force it"
            ) from None
        if high == before:
            return total
