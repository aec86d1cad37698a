"""Scheduled events: list, show, cancel, run now.

Cancelling and a sequencer that moves due events do not wait for each other: an event that is being moved into
the log at that moment is neither cancelled nor counted.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.errors import InvalidPage, InvalidSelection, UnknownScheduled
from penstock.log.entry import key_text
from penstock.log.store import Store
from penstock.model.limits import check_moment, check_topic
from penstock.model.partition import key_hash
from penstock.model.record import Record, display_name
from penstock.wire.kafka.headers import decode_headers

from . import audit
from .erase import digest
from .operation import PAGE_ROWS, Page, SeesTopic, every_topic, hidden_topics, operation, page, place_after, storable

BATCH = 1000  # events cancelled in one transaction


@dataclass(frozen=True, slots=True)
class ScheduledEvent:
    """An event that waits for its time. `name`: its display name in listings."""

    due_at: datetime
    topic: str
    key: str | None
    owner: str | None
    type: str
    id: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class ScheduledRecord:
    """A scheduled event with its record, which has no place in the log yet."""

    event: ScheduledEvent
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSelection:
    """A filter of scheduled events: by id, topic, key, owner, or due before a moment.

    An event must match every filter that is given; without any, all events match. Raises InvalidTime, InvalidTopic.
    """

    id: str | None = None
    topic: str | None = None
    key: str | None = None
    owner: str | None = None
    before: datetime | None = None

    def __post_init__(self) -> None:
        if self.before is not None:
            check_moment("before", self.before, 0)
        if self.topic is not None:
            check_topic(self.topic)

    @property
    def is_narrow(self) -> bool:
        """Whether any filter is given."""
        return any(each is not None for each in (self.id, self.topic, self.key, self.owner, self.before))

    def params(self) -> dict[str, Any]:
        """Return the parameters for the statements."""
        text = None if self.key is None else storable(self.key)
        return {
            "id": None if self.id is None else storable(self.id),
            "topic": self.topic,
            "key": None if text is None else text.encode(),
            "key_hash": None if text is None else key_hash(text),
            "owner": None if self.owner is None else storable(self.owner),
            "before_ms": None if self.before is None else check_moment("before", self.before, 0),
        }


ALL = ScheduledSelection()


@operation
def scheduled(
    store: Store,
    selection: ScheduledSelection = ALL,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
    seen: SeesTopic = every_topic,
) -> Page[ScheduledEvent]:
    """Return a page of scheduled events of the topics that are `seen`, the next due first. Raises InvalidPage."""
    due_ms, seq = place_after(after, limit, -1, 0)
    params = selection.params()
    if after is not None and params["before_ms"] is not None and due_ms >= params["before_ms"]:
        raise InvalidPage("the place to go on from", after, "before the moment that the listing ends at")
    params |= {"after_due": due_ms, "after_seq": seq}

    def look(tx: Transaction) -> list[Row]:
        hidden = [each.name for each in hidden_topics(store.log_in(tx), seen)]
        while True:
            rows = tx.rows("operate", "scheduled_list", limit=limit + 1, hidden=hidden, **params)
            unlogged = {row[2] for row in rows if not seen(row[2])}  # topics that have no record yet
            if not unlogged:
                return rows
            hidden += unlogged

    return page(store.database.look(look), limit, 2, _event)


@operation
def show(store: Store, id: str) -> ScheduledRecord:
    """Return a scheduled event with its record. Raises UnknownScheduled."""
    rows = store.database.look(lambda tx: tx.rows("operate", "scheduled_show", id=storable(id)))
    if not rows:
        raise UnknownScheduled(id)
    event, (value, headers, timestamp_ms) = _event(rows[0]), rows[0][8:]
    pairs = decode_headers(headers) if headers else ()
    return ScheduledRecord(event, Record(event.id, event.key, value, event.type, pairs, timestamp_ms))


@operation
def cancel(
    store: Store,
    selection: ScheduledSelection,
    *,
    all: bool = False,
    dry_run: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> int:
    """Cancel scheduled events, in transactions of its own; return how many. It cannot be undone.

    Raises InvalidSelection if there is neither a filter nor `all`, or if there are both.
    """
    if selection.is_narrow == all:
        raise InvalidSelection("select scheduled events by id, topic, key, owner or time, or select all")
    params = selection.params()
    if dry_run:
        return int(store.database.look(lambda tx: tx.rows("operate", "scheduled_count", **params))[0][0])
    subject: dict[str, Any] = {"id": selection.id, "topic": selection.topic, "key": selection.key}
    before = None if selection.before is None else selection.before.isoformat()
    owner = None if selection.owner is None else digest(storable(selection.owner))
    subject |= {"owner_sha256": owner, "before": before, "all": all or None}

    def batch(tx: Transaction) -> int:
        gone = tx.change("outbox", "scheduled_cancel", limit=BATCH, **params)
        if gone:
            audit.write(tx, "scheduled cancel", subject, gone, own_ms(clock), actor=actor)
        return gone

    return sum(iter(partial(store.database.run, batch), 0))


@operation
def run_now(store: Store, id: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> None:
    """Make a scheduled event due now; a sequencer moves it on its next turn. Raises UnknownScheduled."""

    def change(tx: Transaction) -> None:
        now_ms = own_ms(clock)
        if not tx.change("outbox", "scheduled_hasten", id=storable(id), now_ms=now_ms):
            raise UnknownScheduled(id)
        audit.write(tx, "scheduled run-now", {"id": id}, 1, now_ms, actor=actor)

    store.database.run(change)


def _event(row: Row) -> ScheduledEvent:
    due_ms, _, topic, key, owner, type, id = row[:7]
    return ScheduledEvent(from_ms(due_ms), topic, key_text(key), owner, type, id, display_name(type, None, due_ms, id))
