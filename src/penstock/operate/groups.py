"""Groups: list, show, pause, resume, delete. Moving one to another place is in `reset.py`.

A paused group is given nothing: whoever serves it finishes what runs, gives its partitions back within a
second or so, and takes none until it is resumed. Its cursors stay, and hold retention back as before.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.errors import GroupBusy, UnknownGroup
from penstock.log.sql.contract import Row
from penstock.log.sql.database import Database, Transaction
from penstock.membership.domain import touch
from penstock.membership.serving import Domain

from . import audit
from .lookup import group_id, ids, storable
from .paging import PAGE_ROWS, Page, check_limit, page, place_after
from .presence import living, serving

_FORGET = ("group_cursors_delete", "group_lanes_delete", "group_entries_delete", "group_dead_delete")


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """A group on one topic.

    `lag`: offsets it has not passed. `oldest_unread_at`: when the oldest of these was published. `waiting`:
    lanes that wait by themselves; `held`: lanes that wait for a person.
    """

    topic: str
    partitions: int
    lag: int
    oldest_unread_at: datetime | None
    waiting: int
    held: int
    dead: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group as a whole: the sums over its topics. `members`: how many serve it now."""

    name: str
    topics: tuple[str, ...]
    lag: int
    oldest_unread_at: datetime | None
    waiting: int
    held: int
    dead: int
    members: int
    paused_at: datetime | None
    filter_version: int


@dataclass(frozen=True, slots=True)
class GroupShown:
    """A group with its topics one by one, the filter of its handlers, and the members that serve it."""

    group: Group
    created_at: datetime
    filter: tuple[str, ...]
    member_ids: tuple[str, ...]
    on_topics: tuple[GroupTopic, ...]


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """One cursor. `passed`: offsets above it that are done. `wanted`: who should own it."""

    topic: str
    partition: int
    offset: int
    end: int
    lag: int
    passed: int
    owner: str | None
    wanted: str | None
    epoch: int
    crashes: int


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a deleted group had: cursors, lanes that waited, dead letters."""

    cursors: int
    lanes: int
    dead: int


def groups(
    database: Database, *, after: str | None = None, limit: int = PAGE_ROWS, clock: Clock = SYSTEM
) -> Page[Group]:
    """Return a page of the groups, by name. Raises InvalidPage."""
    check_limit(limit)
    (name,) = place_after(after, (str,), ("",))

    def look(tx: Transaction) -> tuple[list[Row], dict[int, list[GroupTopic]], dict[int, list[str]]]:
        rows = tx.rows("operate", "group_list", after=name, limit=limit + 1)
        numbers = [row[1] for row in rows[:limit]]
        return rows, _on_topics(tx, numbers), serving(tx, clock).groups

    rows, topics, members = database.look(look)
    return page(rows, limit, 1, lambda row: _group(row, topics.get(row[1], []), members.get(row[1], [])))


def show(database: Database, name: str, *, clock: Clock = SYSTEM) -> GroupShown:
    """Return a group with its topics. Raises UnknownGroup."""

    def look(tx: Transaction) -> GroupShown:
        rows = tx.rows("operate", "group_show", name=storable(name))
        if not rows:
            raise UnknownGroup(name)
        (row,) = rows
        _, id, created_ms, _, _, filters = row
        topics, members = _on_topics(tx, [id]).get(id, []), serving(tx, clock).groups.get(id, [])
        known = msgspec.json.decode(filters, type=list[tuple[str, ...]])
        present = known[0] if known else ()
        return GroupShown(
            _group(row, topics, members), from_ms(created_ms), present, tuple(members), tuple(topics)
        )

    return database.look(look)


def partitions(
    database: Database,
    name: str,
    *,
    topic: str | None = None,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[GroupPartition]:
    """Return a page of a group's cursors, by topic and partition.

    Raises InvalidPage, UnknownGroup, UnknownTopic.
    """
    check_limit(limit)
    place = dict(zip(("after_topic", "after_partition"), place_after(after, (int, int), (0, 0)), strict=True))
    params = ids(database, name, topic) | place
    rows = database.look(lambda tx: tx.rows("operate", "group_partitions", limit=limit + 1, **params))
    return page(rows, limit, 2, _partition)


def pause(database: Database, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> bool:
    """Give a group nothing until it is resumed; return whether it flowed before. Raises UnknownGroup."""
    return _set_paused(database, name, "group_pause", "group pause", clock, actor)


def resume(database: Database, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> bool:
    """Let a paused group go on where it was; return whether it was paused. Raises UnknownGroup."""
    return _set_paused(database, name, "group_resume", "group resume", clock, actor)


def delete(
    database: Database, name: str, *, dry_run: bool = False, clock: Clock = SYSTEM, actor: str | None = None
) -> Forgotten:
    """Forget a group: cursors, lanes, dead letters. The log and other groups are not concerned.

    Raises UnknownGroup, and GroupBusy while a living member serves it or owns a partition of it.
    """
    id = group_id(database, name)

    def forget(tx: Transaction) -> Forgotten:
        domains = _touch(tx, id)
        if not tx.rows("delivery", "group_lock", group_id=id):
            raise UnknownGroup(name)
        owners = {row[0] for row in tx.rows("operate", "group_owners", group_id=id)}
        busy = sorted({*serving(tx, clock).groups.get(id, []), *(owners & living(tx, clock))})
        if busy:
            raise GroupBusy(name, busy)
        cursors, lanes, _, dead = (tx.change("operate", each, group_id=id) for each in _FORGET)
        for domain in domains:
            tx.change("operate", "domain_delete", name=domain.name)
        tx.change("operate", "group_delete", group_id=id)
        audit.write(tx, "group delete", {"group": name}, cursors, own_ms(clock), actor=actor)
        return Forgotten(cursors, lanes, dead)

    return database.run(forget) if not dry_run else database.look(lambda tx: _would_forget(tx, id))


def _would_forget(tx: Transaction, id: int) -> Forgotten:
    topics = _on_topics(tx, [id]).get(id, [])
    cursors, lanes = sum(each.partitions for each in topics), sum(each.waiting + each.held for each in topics)
    return Forgotten(cursors, lanes, sum(each.dead for each in topics))


def _set_paused(
    database: Database, name: str, statement: str, action: str, clock: Clock, actor: str | None
) -> bool:
    id, now_ms = group_id(database, name), own_ms(clock)

    def change(tx: Transaction) -> bool:
        _touch(tx, id)
        changed = bool(tx.change("operate", statement, group_id=id, now_ms=now_ms))
        if changed:
            audit.write(tx, action, {"group": name}, 1, now_ms, actor=actor)
        return changed

    return database.run(change)


def _touch(tx: Transaction, id: int) -> list[Domain]:
    """Make all members of a group look, before any other lock; return what they share."""
    found = (Domain(id, row[0]) for row in tx.rows("operate", "group_topics", group_id=id))
    domains = sorted(found, key=lambda each: each.name)
    for domain in domains:
        touch(tx, domain)
    return domains


def _on_topics(tx: Transaction, numbers: list[int]) -> dict[int, list[GroupTopic]]:
    """Return each group's topics with its progress on them."""
    if not numbers:
        return {}
    passed: dict[Row, int] = {}
    for group, topic, bitmap in tx.rows("operate", "group_passed", groups=numbers):
        passed[group, topic] = passed.get((group, topic), 0) + _bits(bitmap)
    lanes = {row[:2]: row[2:] for row in tx.rows("operate", "group_lanes", groups=numbers)}
    dead = {row[:2]: row[2] for row in tx.rows("operate", "group_dead", groups=numbers)}
    found: dict[int, list[GroupTopic]] = {}
    for group, topic, name, count, lag, oldest_ms in tx.rows("operate", "group_progress", groups=numbers):
        place = group, topic
        waiting, held = lanes.get(place, (0, 0))
        lag = max(0, int(lag) - passed.get(place, 0))
        oldest = None if oldest_ms is None or not lag else from_ms(oldest_ms)
        one = GroupTopic(name, count, lag, oldest, waiting, held, dead.get(place, 0))
        found.setdefault(group, []).append(one)
    return found


def _group(row: Row, topics: list[GroupTopic], members: list[str]) -> Group:
    name, _, _, paused_ms, version = row[:5]
    return Group(
        name,
        tuple(each.topic for each in topics),
        sum(each.lag for each in topics),
        _oldest(each.oldest_unread_at for each in topics),
        sum(each.waiting for each in topics),
        sum(each.held for each in topics),
        sum(each.dead for each in topics),
        len(members),
        None if paused_ms is None else from_ms(paused_ms),
        version,
    )


def _oldest(moments: Iterable[datetime | None]) -> datetime | None:
    return min((each for each in moments if each is not None), default=None)


def _partition(row: Row) -> GroupPartition:
    _, partition, topic, offset, end, bitmap, owner, wanted, epoch, crashes = row
    passed = _bits(bitmap)
    lag = max(0, end - offset - passed)
    return GroupPartition(topic, partition, offset, end, lag, passed, owner, wanted, epoch, crashes)


def _bits(bitmap: str) -> int:
    return int(bitmap or "0", 16).bit_count()
