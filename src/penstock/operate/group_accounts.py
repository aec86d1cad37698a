"""Counts a topic's records per group: delivered, passed over, erased, waiting, dead, or unread.

A cursor tells how far a group is. Of the records before it, these do not count as delivered: records that
wait in lanes; dead letters; erased records, since it is unknown whether they were delivered before the
erasure; and records that the group's notes list as passed over because it had no handler for the type. To
count the last, the log is read once for all groups that have notes.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from penstock.database.contract import Rows
from penstock.database.database import Transaction
from penstock.delivery.cursor_state import DoneSet
from penstock.delivery.notes import Note
from penstock.log.contract import LAST_OFFSET, Bounds, Topic
from penstock.log.store import Store

from .records import walk

_RecordPlace = tuple[int, int]  # partition, offset


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
    erased: Collection[_RecordPlace],
) -> list[GroupAccount]:
    """Return the counts of the groups that read a topic, or of those named in `groups`."""
    found = store.database.look(lambda tx: _accounts(tx, topic, bounds, groups))
    for each in found:
        each.erased = sum(each.has_passed(*place) for place in erased)
    noted = [each for each in found if each.notes]
    if noted:
        for number, span in sorted(bounds.items()):
            for entries in walk(store.log, topic, number, span):
                for entry in entries:
                    for each in noted:
                        if each.has_passed_over(number, entry.offset, entry.type or ""):
                            each.passed_over[entry.type or ""] += 1
    return found


def _accounts(
    tx: Transaction, topic: Topic, bounds: dict[int, Bounds], groups: Sequence[str] | None
) -> list[GroupAccount]:
    starts = Rows(partition=list(bounds), place=[each.start for each in bounds.values()])
    reading = tx.rows("operate", "groups_on_topic", topic_id=topic.id)
    return [
        _account(tx, GroupAccount(name), group_id, topic, bounds, starts)
        for group_id, name in reading
        if groups is None or name in groups
    ]


def _account(
    tx: Transaction, account: GroupAccount, group_id: int, topic: Topic, bounds: dict[int, Bounds], starts: Rows
) -> GroupAccount:
    where = {"group_id": group_id, "topic_id": topic.id}
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
