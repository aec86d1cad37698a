"""Delivers late the records that a group passed over because it had no handler for their type."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.database.database import Transaction
from penstock.delivery.notes import OPEN, Note, want_late
from penstock.errors import InvalidSelection, UnknownGroup
from penstock.log.contract import Log, Position, Topic
from penstock.log.store import Store
from penstock.membership.filters import Filter, wanted
from penstock.membership.serving import Domain
from penstock.model.limits import check_moment

from . import audit
from .members import living, touch_group
from .operation import group_id, operation, storable

_MOST_NOTES = 20_000


@dataclass(frozen=True, slots=True)
class PassedOverType:
    """A type that a group has passed over on a topic. `records`: about how many, in `partitions` partitions.

    `first_at`: the time of the oldest one still in the log. `coming`: some of them are being delivered late.
    """

    topic: str
    type: str
    records: int
    partitions: int
    first_at: datetime | None
    coming: bool


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The result of a catch-up or its dry run: the types, about how many records, and since when."""

    types: tuple[str, ...]
    records: int
    partitions: int
    since: datetime | None


@operation
def passed_over(store: Store, group: str) -> list[PassedOverType]:
    """Return the types that a group has passed over, by topic and type. Raises UnknownGroup."""
    id = group_id(store, group)
    return store.database.look(lambda tx: passed_over_by(tx, store.log_in(tx), id))


def passed_over_by(tx: Transaction, log: Log, group: int) -> list[PassedOverType]:
    """Return the types that a group has passed over, in the caller's transaction."""
    found = list[PassedOverType]()
    for topic, notes in _notes(tx, log, group).items():
        firsts = [Position(each.partition, each.first) for each in notes]
        times = {Position(*each[:2]): each.timestamp_ms for each in log.at(topic, firsts, bare=True)}
        for type in sorted({each.type for each in notes}):
            mine = [each for each in notes if each.type == type]
            known = [times[at] for each in mine if (at := Position(each.partition, each.first)) in times]
            counts = sum(each.records for each in mine), len({each.partition for each in mine})
            first_at, coming = from_ms(min(known)) if known else None, any(each.is_coming for each in mine)
            found.append(PassedOverType(topic.name, type, *counts, first_at, coming))
    return found


@operation
def catch_up(
    store: Store,
    group: str,
    *,
    type: str | None = None,
    since: datetime | None = None,
    dry_run: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> CaughtUp:
    """Deliver late the records a group has passed over, however old: of one type, or of all it handles now.

    `since`: only records published from then on. They are not ordered against records already settled. Safe
    while workers run, which start delivering within a second or so. Raises UnknownGroup, InvalidTime, and
    InvalidSelection for a type that none of the group's handlers matches.
    """
    id = group_id(store, group)
    since_ms = 0 if since is None else check_moment("since", since, clock.now_ms())

    def choose(tx: Transaction) -> tuple[dict[Topic, list[Note]], CaughtUp]:
        log = store.log_in(tx)
        rows = tx.rows("operate", "groups_all", name=storable(group))
        if not rows:
            raise UnknownGroup(group)
        filters = msgspec.json.decode(rows[0][3], type=list[Filter])[:1]
        chosen = _chosen(_notes(tx, log, id), filters, group, type)
        parts = [part for topic, notes in chosen.items() for part in _since(log, topic, notes, since_ms)]
        types = tuple(sorted({each.type for each in parts}))
        places = {(topic.id, each.partition) for topic, notes in chosen.items() for each in notes}
        return chosen, CaughtUp(types, sum(each.records for each in parts), len(places), since)

    def change(tx: Transaction) -> CaughtUp:
        for topic in sorted(_notes(tx, store.log_in(tx), id), key=lambda each: Domain(id, each.id).name):
            touch_group(tx, id, topic.id)
        chosen, done = choose(tx)
        for topic, notes in chosen.items():
            want_late(tx, id, topic.id, notes, since_ms, sorted(living(tx, clock)))
        subject = {"group": group, "type": type, "since": None if since is None else str(since)}
        audit.write(tx, "group catch-up", subject, done.records, own_ms(clock), actor=actor)
        return done

    return store.database.look(choose)[1] if dry_run else store.database.run(change)


def _notes(tx: Transaction, log: Log, group: int) -> dict[Topic, list[Note]]:
    """Return the notes of a group by topic; those of a deleted topic are left out."""
    topics = {each.id: each for each in log.topics()}
    found: dict[Topic, list[Note]] = {}
    for topic_id, *row in tx.rows("operate", "notes_of_group", group_id=group, limit=_MOST_NOTES):
        if topic_id in topics:
            found.setdefault(topics[topic_id], []).append(Note(*row))
    return found


def _chosen(
    notes: Mapping[Topic, list[Note]], filters: list[Filter], group: str, type: str | None
) -> dict[Topic, list[Note]]:
    """Return the selected notes: of one type, or of all types that the group has handlers for."""
    found: dict[Topic, list[Note]] = {}
    handled_on = {text.partition(":")[0] for filter in filters for text in filter}
    no_topic = bool(filters) and all(wanted(filters, topic, type or "") is False for topic in handled_on)
    refused = [type] if type is not None and no_topic else []
    for topic, each in notes.items():
        for note in each:
            if type not in (None, note.type):
                continue
            if filters and wanted(filters, topic.name, note.type) is False:
                refused.append(note.type)
            else:
                found.setdefault(topic, []).append(note)
    if not found and refused:
        raise InvalidSelection(
            f"group {group} has no handler for {', '.join(sorted(set(refused)))}: "
            "start a worker that has one, then try again"
        )
    return found


def _since(log: Log, topic: Topic, notes: list[Note], since_ms: int) -> list[Note]:
    if not since_ms:
        return notes
    begins = log.offsets_at(topic, since_ms)
    parts = []
    for each in notes:
        until = each.reach if each.until == OPEN else each.until
        begin = max(each.first, begins.get(each.partition, until))
        if begin < until:
            parts.append(each._replace(until=until).part(begin, until, None))
    return parts
