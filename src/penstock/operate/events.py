"""Events by the state they are in: a page of them, and deleting those of a state before a moment.

| state     | an event is in it                                                   | before a moment     |
|-----------|---------------------------------------------------------------------|---------------------|
| scheduled | until it is due                                                     | cancelled: due then |
| staged    | from its commit until it has an offset                              | refused             |
| pending   | in the log, and some group has yet to pass it                       | refused             |
| waiting   | passed by a group that has it in a lane, for a retry or its turn    | refused             |
| done      | in the log, passed by every group, and none has it waiting or dead  | deleted: published  |
| dead      | given up by a group, until a person decides                         | discarded: died     |
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from penstock.clock import SYSTEM, Clock, from_ms
from penstock.errors import InvalidSelection, shown
from penstock.log.sql.contract import Row
from penstock.log.sql.database import Database
from penstock.model.display import display_name
from penstock.model.limits import check_topic

from . import dead, scheduled
from .groups import groups
from .lookup import ids
from .paging import PAGE_ROWS, Page, check_limit, page, place_after
from .records import delete_done


class State(Enum):
    """Where an event is on its way."""

    SCHEDULED = "scheduled"
    STAGED = "staged"
    PENDING = "pending"
    WAITING = "waiting"
    DONE = "done"
    DEAD = "dead"


OF_GROUPS = (State.WAITING, State.DEAD)
DELETABLE = (State.SCHEDULED, State.DONE, State.DEAD)


@dataclass(frozen=True, slots=True)
class Event:
    """One event in a state. `at`: when it was published; of a scheduled one when it is due, of a dead one
    when it died. `group`: whose waiting or dead record it is.
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


def events(
    database: Database,
    state: State | str,
    *,
    topic: str | None = None,
    group: str | None = None,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Event]:
    """Return a page of the events in a state; scheduled the next due first, dead the newest first.

    `group` narrows what is waiting or dead. Raises InvalidSelection, InvalidPage, UnknownTopic, InvalidTopic,
    UnknownGroup.
    """
    check_limit(limit)
    wanted = _state(state)
    if topic is not None:
        check_topic(topic)
    _check_group(wanted, group)
    if wanted is State.SCHEDULED:
        return _scheduled(database, topic, after, limit)
    if wanted is State.DEAD:
        return _dead(database, topic, group, after, limit)
    asked: Mapping[str, Any]
    if wanted is State.STAGED:
        listing, asked = _STAGED, {"topic": topic}
    elif wanted is State.WAITING:
        listing, asked = _WAITING, ids(database, group, topic)
    else:
        listing = _PENDING if wanted is State.PENDING else _DONE
        asked = {"topic_id": ids(database, None, topic)["topic_id"], "pending": wanted is State.PENDING}
    return _listed(database, listing, asked, after, limit)


def delete(
    database: Database,
    state: State | str,
    before: datetime,
    *,
    topic: str | None = None,
    group: str | None = None,
    dry_run: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> int:
    """Delete the events of a state before a moment; return how many. In bounded transactions, audited.

    What is yet to be delivered is refused. Raises InvalidSelection, InvalidTime, UnknownTopic, UnknownGroup.
    """
    wanted = _state(state)
    _check_group(wanted, group)
    if wanted not in DELETABLE:
        raise InvalidSelection(
            f"what is {wanted.value} is yet to be delivered and is not deleted by its time; to empty a topic "
            "in every state, clear it"
        )
    how: dict[str, Any] = {"dry_run": dry_run, "clock": clock, "actor": actor}
    if wanted is State.SCHEDULED:
        return scheduled.cancel(database, scheduled.Selection(topic=topic, before=before), **how)
    if wanted is State.DONE:
        return delete_done(database, before, topic=topic, **how).count
    readers = [group] if group is not None else _groups(database)
    picked = [dead.Selection(group=each, topic=topic, before=before) for each in readers]
    return sum(dead.discard(database, each, **how).count for each in picked)


def _state(state: State | str) -> State:
    try:
        return State(state)
    except ValueError:
        known = ", ".join(each.value for each in State)
        raise InvalidSelection(f"no event is in state {shown(state)}; there are {known}") from None


def _check_group(state: State, group: str | None) -> None:
    if group is not None and state not in OF_GROUPS:
        raise InvalidSelection(f"what is {state.value} belongs to no group; leave the group out")


def _groups(database: Database) -> list[str]:
    found, after = list[str](), None
    while True:
        listed = groups(database, after=after, limit=1000)
        found, after = found + [each.name for each in listed.items], listed.after
        if after is None:
            return found


def _listed(
    database: Database, listing: "_Listing", asked: Mapping[str, Any], after: str | None, limit: int
) -> Page[Event]:
    place = place_after(after, (int,) * len(listing.first), tuple(listing.first.values()))
    params = {**asked, **dict(zip(listing.first, place, strict=True)), "limit": limit + 1}
    rows = database.look(lambda tx: tx.rows("operate", listing.statement, **params))
    return page(rows, limit, len(place), listing.item)


def _scheduled(database: Database, topic: str | None, after: str | None, limit: int) -> Page[Event]:
    found = scheduled.scheduled(database, scheduled.Selection(topic=topic), after=after, limit=limit)
    return Page(
        [
            Event("scheduled", each.due_at, each.name, each.topic, None, None, each.key, each.type, each.id)
            for each in found.items
        ],
        found.after,
    )


def _dead(
    database: Database, topic: str | None, group: str | None, after: str | None, limit: int
) -> Page[Event]:
    found = dead.dead_letters(database, topic=topic, group=group, after=after, limit=limit)
    return Page(
        [
            Event(
                "dead",
                each.died_at,
                each.name,
                each.topic,
                each.partition,
                each.offset,
                each.key,
                each.type,
                each.id,
                each.group,
            )
            for each in found.items
        ],
        found.after,
    )


def _staged(row: Row) -> Event:
    _, _, topic, id, key, type, ms = row
    name = display_name(type, None, ms, id)
    return Event("staged", from_ms(ms), name, topic, None, None, _text(key), type, id)


def _waiting(row: Row) -> Event:
    _, _, partition, offset, topic, id, key, type, ms, group = row
    name = display_name(type, partition, ms, id)
    return Event("waiting", from_ms(ms), name, topic, partition, offset, _text(key), type, id, group)


def _logged(state: str, row: Row) -> Event:
    _, partition, offset, topic, id, key, type, ms = row
    name = display_name(type, partition, ms, id)
    return Event(state, from_ms(ms), name, topic, partition, offset, _text(key), type, id)


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "surrogateescape")


class _Listing(NamedTuple):
    """A statement, the parameters that say where a page begins with their first values, and its rows."""

    statement: str
    first: Mapping[str, int]
    item: Callable[[Row], Event]


_LOG = {"after_topic": 0, "after_partition": 0, "after_offset": -1}
_STAGED = _Listing("events_staged", {"after_slot": -1, "after_seq": 0}, _staged)
_WAITING = _Listing("events_waiting", {"after_group": 0} | _LOG, _waiting)
_PENDING = _Listing("events_logged", _LOG, partial(_logged, "pending"))
_DONE = _Listing("events_logged", _LOG, partial(_logged, "done"))
