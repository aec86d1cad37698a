"""Groups: list, show, create, pause, resume, delete. `reset.py` moves one.

A paused group gets no records: its members finish running calls, release its partitions within a second or
so, and take none until it is resumed. Its cursors stay, and retention still waits for them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.delivery.cursor_state import DoneSet
from penstock.delivery.groups import delete_group, pause_group, resume_group
from penstock.delivery.store import GroupStore
from penstock.errors import GroupBusy, InvalidInput, UnknownGroup
from penstock.log.contract import Bounds, Log
from penstock.log.store import Store
from penstock.membership.domain import touch
from penstock.membership.serving import Domain
from penstock.worker.handler_options import Start, is_name

from . import audit
from .catch_up import passed_over_by
from .members import living, serving
from .operation import (
    PAGE_ROWS,
    Page,
    SeesTopic,
    every_topic,
    group_id,
    hidden_topics,
    ids,
    operation,
    page,
    place_after,
    seen_by_name,
    storable,
)
from .progress import Group, GroupShown, GroupTopic, LogReader, as_groups, group_on, progress_of, reader_named, readers


@dataclass(frozen=True, slots=True)
class GroupPartition:
    """One cursor. `passed`: done offsets beyond it. `wanted`: the member that should own it."""

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
    """How much a deleted group had: cursors, waiting lanes, dead letters."""

    cursors: int
    lanes: int
    dead: int


@operation
def groups(
    store: Store,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
    counted: bool = True,
    seen: SeesTopic = every_topic,
    seen_group: Callable[[str], bool] = lambda _: True,
    clock: Clock = SYSTEM,
) -> Page[Group]:
    """Return a page of the groups that the caller may see, by name, with sums over such topics.

    Raises InvalidPage. `counted` False: do not count lanes and dead letters, of which there may be millions; report 0.
    """
    (name,) = place_after(after, limit, "")

    def look(tx: Transaction) -> tuple[list[Row], dict[int, list[GroupTopic]], dict[int, list[str]]]:
        def read(after: str) -> list[Row]:
            return tx.rows("operate", "group_list", after=after, limit=limit + 1)

        rows = seen_by_name(read, name, limit, lambda row: seen_group(row[0]))
        numbers = [row[1] for row in rows[:limit]]
        topics = _on_topics(tx, store.log_in(tx), numbers, counted=counted, seen=seen)
        return rows, topics, serving(tx, clock).groups

    rows, topics, members = store.database.look(look)
    others = as_groups(
        store.log, [each for each in readers(store.log) if each.name > name and seen_group(each.name)], seen
    )
    merged = sorted([*rows, *((each,) for each in others)], key=lambda row: str(row[0]))

    def item(row: Row) -> Group:
        if len(row) == 1:
            return others[row[0]][0]
        return _group(row, topics.get(row[1], []), members.get(row[1], []))

    return page(merged[: limit + 1], limit, 1, item)


@operation
def show(store: Store, name: str, *, seen: SeesTopic = every_topic, clock: Clock = SYSTEM) -> GroupShown:
    """Return a group with those of its topics that the caller may see. Raises UnknownGroup."""

    def look(tx: Transaction) -> GroupShown:
        rows, log = tx.rows("operate", "group_show", name=storable(name)), store.log_in(tx)
        if not rows:
            reader = reader_named(log, name)
            if reader is None:
                raise UnknownGroup(name)
            group, on_topics = as_groups(log, [reader], seen)[name]
            return GroupShown(group, None, (), (), tuple(on_topics))
        (row,) = rows
        _, id, created_ms, _, _, _, filters = row
        topics = _on_topics(tx, log, [id], seen=seen).get(id, [])
        at_work = serving(tx, clock)
        members = at_work.groups.get(id, [])
        known = msgspec.json.decode(filters, type=list[tuple[str, ...]])
        present = tuple(each for each in known[0] if seen(each.partition(":")[0])) if known else ()
        group, stopping = _group(row, topics, members), tuple(each for each in members if each in at_work.stopping)
        over = tuple(each for each in passed_over_by(tx, log, id) if seen(each.topic))
        return GroupShown(group, from_ms(created_ms), present, tuple(members), tuple(topics), over, stopping)

    return store.database.look(look)


@operation
def partitions(
    store: Store,
    name: str,
    *,
    topic: str | None = None,
    after: str | None = None,
    limit: int = PAGE_ROWS,
    seen: SeesTopic = every_topic,
) -> Page[GroupPartition]:
    """Return a page of a group's cursors on topics that are `seen`, by topic and partition.

    Raises InvalidPage, UnknownGroup, UnknownTopic.
    """
    after_topic, after_partition = place_after(after, limit, 0, 0)
    params = ids(store, name, topic) | {"after_topic": after_topic, "after_partition": after_partition}
    hidden = [each.id for each in hidden_topics(store.log, seen)]
    rows = store.database.look(
        lambda tx: tx.rows("operate", "group_partitions", limit=limit + 1, hidden=hidden, **params)
    )
    topics = {each.id: each for each in store.log.topics()}
    there = [row for row in rows if row[0] in topics]  # skip topics deleted since
    bounds = store.log.bounds_of([topics[id] for id in sorted({row[0] for row in there})])

    def cursor(row: Row) -> GroupPartition:
        topic_id, partition, offset, bitmap, *service = row
        end, passed = bounds[topic_id].get(partition, Bounds(0, 0)).end, DoneSet.count_in(bitmap)
        lag = max(0, end - offset - passed)
        return GroupPartition(topics[topic_id].name, partition, offset, end, lag, passed, *service)

    return page(there, limit, 2, cursor)


@operation
def pause(store: Store, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> bool:
    """Pause a group; return whether it was running before. Raises UnknownGroup."""
    now_ms = own_ms(clock)
    return _change(store, name, lambda tx, id: pause_group(tx, id, now_ms), "group pause", now_ms, actor)


@operation
def resume(store: Store, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> bool:
    """Resume a paused group where it stopped; return whether it was paused. Raises UnknownGroup."""
    return _change(store, name, resume_group, "group resume", own_ms(clock), actor)


@operation
def delete(
    store: Store, name: str, *, dry_run: bool = False, clock: Clock = SYSTEM, actor: str | None = None
) -> Forgotten:
    """Delete a group: cursors, lanes, dead letters, notes. The log and other groups are not affected.

    For a pipeline of that name, delete its hold on retention. Raises UnknownGroup, and GroupBusy while a
    living member serves the group or owns one of its partitions.
    """
    reader, named = reader_named(store.log, name), {"name": storable(name)}
    if reader is not None and not store.database.look(lambda tx: tx.rows("delivery", "group_find", **named)):
        return _release(store, reader, clock, actor, dry_run=dry_run)
    id = group_id(store, name)

    def forget(tx: Transaction) -> Forgotten:
        domains = _touch(tx, id)
        if not tx.rows("delivery", "group_lock", group_id=id):
            raise UnknownGroup(name)
        owners = {row[0] for row in tx.rows("operate", "group_owners", group_id=id)}
        busy = sorted({*serving(tx, clock).groups.get(id, []), *(owners & living(tx, clock))})
        if busy:
            raise GroupBusy(name, busy)
        deleted = delete_group(tx, id)
        for domain in domains:
            tx.change("membership", "domain_delete", name=domain.name)
        audit.write(tx, "group delete", {"group": name}, deleted.cursors, own_ms(clock), actor=actor)
        return Forgotten(*deleted)

    def would_forget(tx: Transaction) -> Forgotten:
        topics = _on_topics(tx, store.log_in(tx), [id]).get(id, [])
        lanes = sum(each.waiting + each.held for each in topics)
        return Forgotten(sum(each.partitions for each in topics), lanes, sum(each.dead for each in topics))

    return store.database.look(would_forget) if dry_run else store.database.run(forget)


def _release(store: Store, reader: LogReader, clock: Clock, actor: str | None, *, dry_run: bool) -> Forgotten:
    """Delete a reader's offsets; a pipeline that still runs stores them again with its next batch."""
    places = sum(len(offsets) for offsets in reader.places.values())

    def forget(tx: Transaction) -> None:
        audit.write(tx, "group delete", {"group": reader.name}, places, own_ms(clock), actor=actor)
        for topic in reader.places:
            store.log_in(tx).hold(reader.name, topic, {})

    if not dry_run:
        store.database.run(forget)
    return Forgotten(places, 0, 0)


def _change(
    store: Store, name: str, act: Callable[[Transaction, int], bool], action: str, now_ms: int | None, actor: str | None
) -> bool:
    id = group_id(store, name)

    def change(tx: Transaction) -> bool:
        _touch(tx, id)
        changed = act(tx, id)
        if changed:
            audit.write(tx, action, {"group": name}, 1, now_ms, actor=actor)
        return changed

    return store.database.run(change)


def _touch(tx: Transaction, id: int) -> list[Domain]:
    """Make all members of a group reload, before any other lock; return the group's domains."""
    found = (Domain(id, row[0]) for row in tx.rows("delivery", "group_topics", group_id=id))
    domains = sorted(found, key=lambda each: each.name)
    for domain in domains:
        touch(tx, domain)
    return domains


def _on_topics(
    tx: Transaction, log: Log, numbers: list[int], *, counted: bool = True, seen: SeesTopic = every_topic
) -> dict[int, list[GroupTopic]]:
    """Return each group's topics that the caller may see, with its progress on them."""
    if not numbers:
        return {}
    passed: dict[Row, int] = {}
    for group, topic, bitmap in tx.rows("operate", "group_passed", groups=numbers):
        passed[group, topic] = passed.get((group, topic), 0) + DoneSet.count_in(bitmap)
    counts_of = numbers if counted else []
    lanes = {row[:2]: row[2:] for row in tx.rows("operate", "group_lanes", groups=counts_of)}
    dead = {row[:2]: row[2] for row in tx.rows("operate", "group_dead", groups=counts_of)}
    progress = progress_of(log, tx.rows("operate", "group_places", groups=numbers))
    found: dict[int, list[GroupTopic]] = {}
    visible = [each for each in progress if seen(each.topic.name)]
    for each in sorted(visible, key=lambda each: each.topic.name):
        place = each.group_id, each.topic.id
        waiting, held = lanes.get(place, (0, 0))
        lag = max(0, each.lag - passed.get(place, 0))
        oldest = None if each.oldest_ms is None or not lag else from_ms(each.oldest_ms)
        counts = int(waiting), int(held), dead.get(place, 0)
        one = GroupTopic(each.topic.name, each.partitions, lag, oldest, *counts)
        found.setdefault(each.group_id, []).append(one)
    return found


def _group(row: Row, topics: list[GroupTopic], members: list[str]) -> Group:
    name, _, _, paused_ms, version, kind = row[:6]
    paused_at = None if paused_ms is None else from_ms(paused_ms)
    group = group_on(topics, name, kind)
    return replace(group, members=len(members), paused_at=paused_at, filter_version=version)


NOBODY = "nobody"  # the owner of a group that no member serves yet


@operation
def create(store: Store, name: str, topic: str, *, start: Start = "earliest", clock: Clock = SYSTEM) -> None:
    """Create a group on a topic, at its first record or after its last; an existing group is not changed.

    Raises InvalidInput, UnknownTopic, GroupKindDiffers.
    """
    if not is_name(name):
        raise InvalidInput("a group's name has 1 to 255 printable characters")
    found = store.log.topic(topic)
    GroupStore(store, clock, group=name, topic=found, owner=NOBODY, from_start=start == "earliest")
