"""Clearing a topic: removes its events in every state; new offsets continue where the old ones ended.

One transaction deletes staged and scheduled events, waiting records and dead letters, and moves every head's start and
every cursor to the end, in a new epoch; from its commit no group meets the old records. They are deleted afterwards, in
bounded transactions; if that is interrupted, clearing again continues it. A log outside the database is emptied last,
just before the commit, so a topic that the audit lists as cleared is cleared.
"""

from dataclasses import dataclass

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.database import Transaction
from penstock.delivery.groups import forget_waiting
from penstock.delivery.reset import CursorReset
from penstock.errors import UnknownTopic
from penstock.log.contract import Log, Topic
from penstock.log.store import Store
from penstock.model.limits import check_topic

from . import audit
from .members import living_at, touch_readers
from .operation import operation


@dataclass(frozen=True, slots=True)
class Cleared:
    """How many events were removed, or would be, by their state."""

    staged: int
    scheduled: int
    records: int
    lanes: int
    dead: int


@operation
def clear(
    store: Store, name: str, *, dry_run: bool = False, clock: Clock = SYSTEM, actor: str | None = None
) -> Cleared:
    """Empty a topic; safe beside publishers and workers. Raises UnknownTopic, InvalidTopic, WriterElsewhere.

    Events that commit while it runs may be in the topic afterwards.
    """
    check_topic(name)

    def count(tx: Transaction) -> Cleared:
        log = store.log_in(tx)
        return _counted(tx, log, log.topic(name))

    def empty(tx: Transaction) -> tuple[Cleared, Topic]:
        log = store.log_in(tx)
        topic = log.pinned_topic(name)
        groups = touch_readers(tx, topic.id)
        ends = _lock(tx, log, topic, groups)
        cleared = _counted(tx, log, topic)
        tx.change("outbox", "topic_unstage", topic=name)
        tx.change("outbox", "topic_unschedule", topic=name)
        forget_waiting(tx, topic.id)
        for group in sorted(groups):
            CursorReset(group, topic.id, living=living_at(clock), touch=lambda *_: None).place(tx, ends)
        total = cleared.staged + cleared.scheduled + cleared.records
        audit.write(tx, "topic clear", {"topic": name}, total, own_ms(clock), actor=actor)
        log.clear(topic)
        return cleared, topic

    if dry_run:
        return store.database.look(count)
    store.log.topic(name)
    store.log.claim()
    cleared, topic = store.database.run(empty)
    store.log.sweep(topic)
    return cleared


def _lock(tx: Transaction, log: Log, topic: Topic, groups: list[int]) -> dict[int, int]:
    """Lock slots, cursors and heads against sequencing, settling and appending; return the end offsets."""
    tx.rows("membership", "slots_lock")
    numbers = list(range(topic.partitions))
    for group in sorted(groups):
        tx.rows("delivery", "cursors_hold", partitions=numbers, group_id=group, topic_id=topic.id)
    bounds = log.all_bounds(topic, pinned=numbers)
    if not bounds:
        raise UnknownTopic(topic.name)
    return {number: each.end for number, each in bounds.items()}


def _counted(tx: Transaction, log: Log, topic: Topic) -> Cleared:
    ((staged, scheduled, lanes, dead),) = tx.rows("operate", "topic_counted", topic=topic.name, topic_id=topic.id)
    records = sum(end - start for start, end in log.all_bounds(topic).values())
    return Cleared(staged, scheduled, records, lanes, dead)
