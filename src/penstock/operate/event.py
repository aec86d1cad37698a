"""Shows one event: its content, its state, and its progress in each group."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

import msgspec

from penstock.clock import SYSTEM, Clock, from_ms
from penstock.database.database import Transaction
from penstock.errors import UnknownEvent
from penstock.log.contract import Log, Position
from penstock.log.entry import Entry, key_bytes, readable
from penstock.log.store import Store
from penstock.model.limits import ERASED
from penstock.model.record import Record

from .operation import operation, storable
from .why import Answer, QuestionKind, why
from .why.finder import Finder, Logged, Missing, UnloggedEvent

_NO_PLACE = -1
_PlacedEntry = tuple["EventPlace", str, Entry, datetime | None]  # with its topic, and when it is due


class EventPlace(Enum):
    """The state of an event."""

    SCHEDULED = "scheduled"  # until it is due
    STAGED = "staged"  # committed, but not in the log yet
    LOGGED = "logged"  # in the log
    KEPT = "kept"  # retention deleted it from the log, but a lane or a dead letter still holds it
    ERASED = "erased"  # its content was erased from the log


@dataclass(frozen=True, slots=True)
class ShownEvent:
    """One event. `record` has no content after an erasure, and no place before it is logged.

    `groups`: one answer per group that reads its topic; before it is logged, or if no group reads the topic,
    one answer without a group. `damage`: why its headers cannot be read, if so.
    """

    place: EventPlace
    topic: str
    record: Record
    owner: str | None
    due_at: datetime | None
    groups: tuple[Answer, ...]
    damage: str | None = None


@operation
def show_event(
    store: Store, id: str, *, key: str | None = None, everything: bool = False, clock: Clock = SYSTEM
) -> ShownEvent:
    """Return an event in any state, with its progress in each group; changes nothing.

    `key` narrows the search and `everything` widens it, as in `why`. Raises UnknownEvent.
    """

    def look(tx: Transaction) -> _PlacedEntry | None:
        log = store.log_in(tx)
        finder = Finder(tx, log, log.topics(), None, everything=everything)
        found = finder.by_id(storable(id), key)
        if isinstance(found, Missing):
            return None
        if isinstance(found, UnloggedEvent):
            return _unlogged(tx, found, finder.staged_walk)
        return _logged(tx, log, found)

    found = store.database.look_once(look)
    answers = why(store, id, kind=QuestionKind.ID, key=key, everything=everything, clock=clock)
    if found is None:
        raise UnknownEvent(answers[0].sentence.removesuffix("."))
    place, topic, entry, due_at = found
    record, error = readable(topic, entry)
    if entry.offset == _NO_PLACE:
        record = msgspec.structs.replace(record, topic=None, partition=None, offset=None)
    damage = None if error is None else str(error)
    return ShownEvent(place, topic, record, entry.owner, due_at, tuple(answers), damage)


def _unlogged(tx: Transaction, event: UnloggedEvent, walk: int) -> _PlacedEntry:
    if event.due_ms is not None:
        ((*_, owner, type, id, _, value, headers, timestamp_ms),) = tx.rows("operate", "scheduled_show", id=event.id)
        place, due_at = EventPlace.SCHEDULED, from_ms(event.due_ms)
    else:
        ((owner, type, id, value, headers, timestamp_ms),) = tx.rows("operate", "staged_show", id=event.id, walk=walk)
        place, due_at = EventPlace.STAGED, None
    content = id, key_bytes(event.key), type, value, headers, timestamp_ms, owner
    return place, event.topic, Entry(_NO_PLACE, _NO_PLACE, *content), due_at


def _logged(tx: Transaction, log: Log, record: Logged) -> _PlacedEntry:
    held = log.at(record.topic, [Position(record.partition, record.offset)])
    if held:
        place = EventPlace.ERASED if record.type == ERASED else EventPlace.LOGGED
        return place, record.topic.name, held[0], None
    rows = tx.rows("operate", "kept_records", id=record.id, topic_id=record.topic.id)
    value, headers, owner = rows[0][7:] if rows else (None, None, None)
    where = record.partition, record.offset, record.id, key_bytes(record.key), record.type
    return EventPlace.KEPT, record.topic.name, Entry(*where, value, headers, record.timestamp_ms, owner), None
