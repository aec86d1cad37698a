"""Clearing a topic: afterwards nothing of it is left in any state, and it goes on where its offsets ended.

One transaction takes away what is staged, scheduled, waiting and dead, moves every head's start to its end
and every cursor there, in a new epoch; from then on no group meets the old records. They are deleted after
it, in bounded transactions. Should that be cut short, clearing again goes on with it.
"""

from dataclasses import dataclass

from penstock.clock import SYSTEM, Clock, own_ms
from penstock.delivery.reset import Resetting
from penstock.errors import UnknownTopic
from penstock.log.contract import Topic
from penstock.log.sql.database import Database, Transaction
from penstock.log.sql.heads import HeadKey, keep_topics, lock_heads
from penstock.membership.domain import touch
from penstock.membership.member import ClusterSettings, Member
from penstock.membership.serving import Domain
from penstock.model.limits import check_topic

from . import audit

_DELETE_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Cleared:
    """What was taken away, or would be: by the state it was in."""

    staged: int
    scheduled: int
    records: int
    lanes: int
    dead: int


def clear(
    database: Database, name: str, *, dry_run: bool = False, clock: Clock = SYSTEM, actor: str | None = None
) -> Cleared:
    """Empty a topic; safe beside publishers and workers. Raises UnknownTopic, InvalidTopic.

    What commits while it runs may be in the topic afterwards.
    """
    check_topic(name)
    member = Member(database, ClusterSettings.load(), clock)  # only asked who lives; it never joins

    def count(tx: Transaction) -> Cleared:
        return _counted(tx, _topic(tx, name))

    def empty(tx: Transaction) -> tuple[Cleared, int]:
        topic = _topic(tx, name)
        groups = [row[0] for row in tx.rows("operate", "groups_on_topic", topic_id=topic.id)]
        for domain in sorted((Domain(group, topic.id) for group in groups), key=lambda each: each.name):
            touch(tx, domain)
        ends = _lock(tx, topic, groups)
        cleared = _counted(tx, topic)
        tx.change("operate", "topic_unstage", topic=name)
        tx.change("operate", "topic_unschedule", topic=name)
        for statement in ("lanes_delete", "entries_delete", "dead_delete", "times_delete"):
            tx.change("log", statement, topic_id=topic.id)
        tx.change("operate", "heads_to_end", topic_id=topic.id)
        for group in sorted(groups):
            Resetting(group, topic.id, living=member.living, touch=lambda *_: None).place(tx, ends)
        total = cleared.staged + cleared.scheduled + cleared.records
        audit.write(tx, "topic clear", {"topic": name}, total, own_ms(clock), actor=actor)
        return cleared, topic.id

    if dry_run:
        return database.look(count)
    cleared, id = database.run(empty)
    while database.run(lambda tx: tx.change("operate", "log_clear", topic_id=id, limit=_DELETE_ROWS)):
        pass
    return cleared


def _lock(tx: Transaction, topic: Topic, groups: list[int]) -> dict[int, int]:
    """Lock slots, cursors and heads, so that nobody moves, settles or appends; return where it ends."""
    tx.rows("operate", "slots_lock")
    numbers = list(range(topic.partitions))
    for group in sorted(groups):
        tx.rows("delivery", "cursors_hold", partitions=numbers, group_id=group, topic_id=topic.id)
    heads = lock_heads(tx, [HeadKey(topic.id, number) for number in numbers])
    return {key.partition: head.next_offset for key, head in heads.items()}


def _counted(tx: Transaction, topic: Topic) -> Cleared:
    ((staged, scheduled, records, lanes, dead),) = tx.rows(
        "operate", "topic_counts", topic_id=topic.id, topic=topic.name
    )
    return Cleared(staged, scheduled, int(records), lanes, dead)


def _topic(tx: Transaction, name: str) -> Topic:
    found = keep_topics(tx, [name])
    if name not in found:
        raise UnknownTopic(name)
    return found[name]
