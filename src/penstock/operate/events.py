"""Events by their state: lists a page of them, and deletes those before a moment.

| state     | the event is                                                        | deleted before      |
|-----------|---------------------------------------------------------------------|---------------------|
| scheduled | not due yet                                                         | cancelled: due then |
| staged    | committed, but without an offset yet                                | refused             |
| pending   | in the log, but not yet passed by every group                       | refused             |
| waiting   | parked in a lane of a group, for a retry or its turn                | refused             |
| done      | in the log, passed by every group, and neither waiting nor dead     | deleted: published  |
| dead      | given up by a group, until a person decides                         | discarded: died     |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import islice
from operator import methodcaller
from typing import Any, Literal

from penstock.clock import SYSTEM, Clock, from_ms
from penstock.database.contract import Row
from penstock.errors import InvalidSelection, shown
from penstock.log.contract import Log, Position
from penstock.log.entry import Entry, key_text
from penstock.log.store import Store
from penstock.model.limits import check_topic
from penstock.model.record import display_name

from . import dead, scheduled
from .operation import PAGE_ROWS, Page, ids, operation, page, place_after
from .records import delete_done, logged

EventWord = Literal["scheduled", "staged", "pending", "waiting", "done", "dead"]


class EventState(Enum):
    """The state of an event."""

    SCHEDULED = "scheduled"
    STAGED = "staged"
    PENDING = "pending"
    WAITING = "waiting"
    DONE = "done"
    DEAD = "dead"


OF_GROUPS = (EventState.WAITING, EventState.DEAD)
_FIRST_PLACE = 0, 0, -1  # before all of topic, partition and offset
DELETABLE = (EventState.SCHEDULED, EventState.DONE, EventState.DEAD)


@dataclass(frozen=True, slots=True)
class Event:
    """One event in a state. `at`: when it was published, is due (scheduled) or died (dead).

    `group`: that of a waiting or dead record.
    """

    state: str
    at: datetime
    name: str
    topic: str
    partition: int | None
    offset: int | None
    key: str | None
    type: str
    id: str
    group: str | None = None


@operation
def events(
    store: Store,
    state: EventState | EventWord,
    *,
    topic: str | None = None,
    group: str | None = None,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Event]:
    """Return a page of the events in a state; scheduled events by due time, dead ones newest first.

    `group` filters waiting and dead events. Raises InvalidSelection, InvalidPage, UnknownTopic, InvalidTopic,
    UnknownGroup.
    """
    wanted = _state(state)
    if topic is not None:
        check_topic(topic)
    _check_group(wanted, group)
    match wanted:
        case EventState.SCHEDULED:
            return _scheduled(store, topic, after, limit)
        case EventState.DEAD:
            return _dead(store, topic, group, after, limit)
        case EventState.STAGED:
            return _staged(store, topic, after, limit)
        case EventState.WAITING:
            return _waiting(store, ids(store, group, topic), after, limit)
    place = place_after(after, limit, *_FIRST_PLACE)
    only = None if topic is None else store.log.topic(topic).id
    rows = list(islice(logged(store, wanted is EventState.PENDING, only, place), limit + 1))
    return page(rows, limit, 3, lambda row: _logged(wanted, *row[3:]))


@operation
def delete(
    store: Store,
    state: EventState | EventWord,
    before: datetime,
    *,
    topic: str | None = None,
    group: str | None = None,
    dry_run: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> int:
    """Delete the events of a state before a moment, in bounded transactions, audited; return how many.

    Refuses states whose events are yet to be delivered. Raises InvalidSelection, InvalidTime, UnknownTopic,
    UnknownGroup.
    """
    wanted = _state(state)
    _check_group(wanted, group)
    if wanted not in DELETABLE:
        raise InvalidSelection(
            f"{wanted.value} events are yet to be delivered and cannot be deleted by time; to empty a topic "
            "in every state, clear it"
        )
    how: dict[str, Any] = {"dry_run": dry_run, "clock": clock, "actor": actor}
    if wanted is EventState.SCHEDULED:
        return scheduled.cancel(store, scheduled.ScheduledSelection(topic=topic, before=before), **how)
    if wanted is EventState.DONE:
        return delete_done(store, before, topic=topic, **how).count
    known = store.database.look(lambda tx: tx.rows("operate", "groups_all", name=None))
    readers = [group] if group is not None else sorted(row[1] for row in known)
    picked = [dead.DeadSelection(group=each, topic=topic, before=before) for each in readers]
    return sum(dead.discard(store, each, **how).count for each in picked)


def _state(state: EventState | str) -> EventState:
    try:
        return EventState(state)
    except ValueError:
        known = ", ".join(each.value for each in EventState)
        raise InvalidSelection(f"unknown state {shown(state)}; the states are {known}") from None


def _check_group(state: EventState, group: str | None) -> None:
    if group is not None and state not in OF_GROUPS:
        raise InvalidSelection(f"{state.value} events belong to no group; omit the group")


def _scheduled(store: Store, topic: str | None, after: str | None, limit: int) -> Page[Event]:
    found = scheduled.scheduled(store, scheduled.ScheduledSelection(topic=topic), after=after, limit=limit)

    def event(each: scheduled.ScheduledEvent) -> Event:
        return Event("scheduled", each.due_at, each.name, each.topic, None, None, each.key, each.type, each.id)

    return Page(list(map(event, found.items)), found.after)


def _dead(store: Store, topic: str | None, group: str | None, after: str | None, limit: int) -> Page[Event]:
    found = dead.dead_letters(store, topic=topic, group=group, after=after, limit=limit)

    def event(each: dead.DeadLetter) -> Event:
        place = each.topic, each.partition, each.offset
        return Event("dead", each.died_at, each.name, *place, each.key, each.type, each.id, each.group)

    return Page(list(map(event, found.items)), found.after)


def _staged(store: Store, topic: str | None, after: str | None, limit: int) -> Page[Event]:
    slot, seq = place_after(after, limit, -1, 0)
    params = {"topic": topic, "after_slot": slot, "after_seq": seq, "limit": limit + 1}
    rows = store.database.look(lambda tx: tx.rows("operate", "staged_page", **params))

    def event(row: Row) -> Event:
        _, _, topic, id, key, type, ms = row
        name = display_name(type, None, ms, id)
        return Event("staged", from_ms(ms), name, topic, None, None, key_text(key), type, id)

    return page(rows, limit, 2, event)


def _waiting(store: Store, narrow: Mapping[str, int | None], after: str | None, limit: int) -> Page[Event]:
    place: tuple[Any, ...] = place_after(after, limit, 0, *_FIRST_PLACE)
    found: list[Row] = []
    while len(found) <= limit:
        named = dict(zip(("after_group", "after_topic", "after_partition", "after_offset"), place, strict=True))
        params = {**narrow, **named, "limit": limit + 1}
        rows = store.database.look(methodcaller("rows", "operate", "entries_page", **params))
        found += _with_contents(store.log, rows)
        if len(rows) <= limit:
            break
        place = rows[-1][:4]

    def event(row: Row) -> Event:
        _, _, partition, offset, topic, group, id, key, type, ms = row
        name = display_name(type, partition, ms, id)
        return Event("waiting", from_ms(ms), name, topic, partition, offset, key_text(key), type, id, group)

    return page(found[: limit + 1], limit, 4, event)


def _with_contents(log: Log, rows: list[Row]) -> list[Row]:
    """Return waiting records with their topic's name and their content, from their copy or from the log."""
    topics = {each.id: each for each in log.topics()} if rows else {}
    logged: dict[tuple[int, int, int], Entry] = {}
    for id in {row[1] for row in rows if row[5] is None} & topics.keys():
        places = [Position(row[2], row[3]) for row in rows if row[1] == id and row[5] is None]
        logged |= {(id, each.partition, each.offset): each for each in log.at(topics[id], places, bare=True)}
    found: list[Row] = []
    for row in rows:
        group_id, topic_id, partition, offset, group, id, key, type, timestamp_ms = row
        content = id, key, type, timestamp_ms
        if id is None and (entry := logged.get((topic_id, partition, offset))) is not None:
            content = entry.id, entry.key, entry.type or "", entry.timestamp_ms
        if topic_id in topics and content[0] is not None:
            found.append((group_id, topic_id, partition, offset, topics[topic_id].name, group, *content))
    return found


def _logged(state: EventState, topic: str, entry: Entry) -> Event:
    partition, offset, id, key, type = *entry[:4], entry.type or ""
    name, at = display_name(type, partition, entry.timestamp_ms, id), from_ms(entry.timestamp_ms)
    return Event(state.value, at, name, topic, partition, offset, key_text(key), type, id)
