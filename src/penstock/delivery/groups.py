"""Groups: their kind, row and numbers, and the rows that go with a group, or with a topic in all groups."""

from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

from penstock import metrics
from penstock.clock import Clock, own_ms
from penstock.database.database import Database, Transaction
from penstock.errors import GroupKindDiffers
from penstock.log.contract import Log
from penstock.log.store import Store

_WAITING = ("lanes_delete", "entries_delete", "dead_delete", "notes_delete", "fallbacks_delete")


class GroupKind(Enum):
    """The kind of readers of a group: handlers of a worker, or clients that only store their positions."""

    HANDLER = "handler"  # functions of workers: lanes, retries, dead letters; retention waits for them
    CLIENT = "client"  # others, which commit an offset when they like; retention does not wait for them

    @property
    def holds(self) -> bool:
        """Whether retention waits for a group of this kind, by default."""
        return self is GroupKind.HANDLER


class DeletedGroup(NamedTuple):
    """How many rows a deleted group had."""

    cursors: int
    lanes: int
    dead: int


class CursorNumbers(NamedTuple):
    """A cursor of a group, whether this member owns it, and whether no living member does."""

    group: str
    topic_id: int
    partition: int
    offset: int
    is_mine: bool
    is_free: bool


def make_groups(database: Database, names: Sequence[str], clock: Clock) -> None:
    """Make groups of handlers unless they exist, wherever their topics are. Raises GroupKindDiffers."""

    def make(tx: Transaction) -> None:
        for name in names:
            join_group(tx, name, GroupKind.HANDLER, own_ms(clock))

    database.run(make)


def join_group(tx: Transaction, name: str, kind: GroupKind, now_ms: int | None) -> int:
    """Make a group unless it exists; return its id. Raises GroupKindDiffers."""
    tx.change("delivery", "group_create", name=name, now_ms=now_ms, kind=kind.value, holds=kind.holds)
    ((id, found),) = tx.rows("delivery", "group_find", name=name)
    if found != kind.value:
        raise GroupKindDiffers(name, found, kind.value)
    return int(id)


def note_seen(tx: Transaction, groups: Collection[str], clock: Clock) -> None:
    """Record that groups have a member now, at most once an hour: retention waits for those seen lately."""
    tx.change("delivery", "group_seen", names=sorted(groups), now_ms=own_ms(clock))


def pause_group(tx: Transaction, group_id: int, now_ms: int | None) -> bool:
    """Pause a group; return whether it was running."""
    return bool(tx.change("delivery", "group_pause", group_id=group_id, now_ms=now_ms))


def resume_group(tx: Transaction, group_id: int) -> bool:
    """Resume a group; return whether it was paused."""
    return bool(tx.change("delivery", "group_resume", group_id=group_id))


def delete_group(tx: Transaction, group_id: int) -> DeletedGroup:
    """Delete a group, whose row is locked, and all its rows."""
    kinds = ("cursors", "lanes", "entries", "dead", "notes", "fallbacks")
    gone = {kind: tx.change("delivery", f"group_{kind}_delete", group_id=group_id) for kind in kinds}
    tx.change("delivery", "group_delete", group_id=group_id)
    return DeletedGroup(gone["cursors"], gone["lanes"], gone["dead"])


def forget_topic(tx: Transaction, topic_id: int) -> None:
    """Remove every group's cursors on a topic, and everything that waits there."""
    tx.change("delivery", "cursors_delete", topic_id=topic_id)
    forget_waiting(tx, topic_id)


def forget_waiting(tx: Transaction, topic_id: int) -> None:
    """Remove the lanes, dead letters, notes and completed fallbacks of a topic, in all groups."""
    for statement in _WAITING:
        tx.change("delivery", statement, topic_id=topic_id)


def read_cursors(tx: Transaction, owner: str, living: Sequence[str]) -> list[CursorNumbers]:
    """Return the cursors of all groups."""
    rows = tx.rows("delivery", "gauge_cursors", owner=owner, living=list(living))
    return [CursorNumbers(*row) for row in rows]


def read_waiting(tx: Transaction, most: int) -> dict[str, list[int]]:
    """Return for each group how many lanes wait and are held, and how many records are dead letters."""
    return {group: numbers for group, *numbers in tx.rows("delivery", "gauge_waiting", most=most)}


def unread_topics(tx: Transaction, log: Log) -> dict[str, int]:
    """Return the topics that have records and no group, each with the number: often a handler is missing."""
    read = {row[0] for row in tx.rows("delivery", "topics_read")}
    topics = [each for each in log.topics() if each.id not in read]
    bounds = log.bounds_of(topics)
    counts = {each.name: sum(end - start for start, end in bounds[each.id].values()) for each in topics}
    return {name: count for name, count in counts.items() if count}


def measure_unread(store: Store) -> None:
    """Set the series of records that no group reads; topics that have a reader now go to 0."""
    found = store.database.look(lambda tx: unread_topics(tx, store.log_in(tx)))
    known = {topic for name, topic in metrics.UNREAD.values() if name == store.name}
    for topic in known | found.keys():
        metrics.UNREAD.set(found.get(topic, 0), store=store.name, topic=topic)
