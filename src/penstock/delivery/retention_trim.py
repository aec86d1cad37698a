"""Trimming: deletes the oldest records, and first copies those that wait in lanes to their entries.

Locks in one order: cursors, but only where a lane's record has to be copied, then the log's.
"""

from collections.abc import Callable, Sequence

from penstock import points
from penstock.database.contract import Rows
from penstock.database.database import Transaction
from penstock.log.contract import Log, OffsetRange, Position, Topic
from penstock.log.sql.append import COLUMNS, columns
from penstock.log.sql.log import ranges_table
from penstock.log.store import Store

AFTER_COPY = points.declare("retention.after_copy", "What waits in lanes is copied; nothing is deleted.")
BEFORE_COMMIT = points.declare("retention.before_commit", "Records are deleted; not committed.")


def trim(
    store: Store,
    topic: Topic,
    ranges: Sequence[OffsetRange],
    *,
    unless: Callable[[Transaction], bool],
    note: Callable[[Transaction, int], None] = lambda tx, count: None,
) -> int:
    """Delete the oldest records, copying those in lanes; return how many. Raises StillNeeded if `unless` turns true."""

    def after(tx: Transaction, deleted: int) -> None:
        tx.change("delivery", "fallbacks_trim", topic_id=topic.id, ranges=ranges_table(ranges))
        note(tx, deleted)

    def at_once(tx: Transaction) -> int:
        log = store.log_in(tx)
        copy_waiting(tx, log, topic, ranges)
        points.reach(AFTER_COPY)
        deleted = log.trim(topic, ranges, unless=lambda: unless(tx))
        after(tx, deleted)
        points.reach(BEFORE_COMMIT)
        return deleted

    if store.is_one:
        return store.database.run(at_once)
    store.database.run(lambda tx: copy_waiting(tx, store.log, topic, ranges))
    points.reach(AFTER_COPY)
    deleted = store.log.trim(topic, ranges, unless=lambda: store.database.look(unless))
    store.database.run(lambda tx: after(tx, deleted))
    return deleted


def behind(tx: Transaction, topic: Topic, ranges: Sequence[OffsetRange], seen_since_ms: int) -> list[str]:
    """Return the groups that are before the end of some ranges, and so still need their records."""
    table = ranges_table(ranges)
    rows = tx.rows("delivery", "cursors_behind", topic_id=topic.id, ranges=table, seen_since=seen_since_ms)
    return [name for (name,) in rows]


def copy_waiting(tx: Transaction, log: Log, topic: Topic, ranges: Sequence[OffsetRange]) -> None:
    """Copy the records of some ranges that wait in lanes to their entries, under the locks of the cursors."""
    table = ranges_table(ranges)
    waiting = tx.rows("delivery", "entries_waiting_in", topic_id=topic.id, ranges=table)
    if not waiting:
        return
    cursors = Rows(group_id=[group for group, _ in waiting], partition=[number for _, number in waiting])
    tx.rows("delivery", "cursors_hold_some", topic_id=topic.id, cursors=cursors)
    places = tx.rows("delivery", "entries_uncopied", topic_id=topic.id, ranges=table)
    contents = {
        (each.partition, each.offset): each.content
        for each in log.at(topic, {Position(number, offset) for _, number, offset in places})
    }
    copies = [
        (*columns(contents[number, offset]), group, topic.id, number, offset)
        for group, number, offset in places
        if (number, offset) in contents
    ]
    if copies:
        names = f"{COLUMNS} group_id topic_id partition place"
        tx.bulk("delivery", "entries_copy", Rows.of(names, copies))
