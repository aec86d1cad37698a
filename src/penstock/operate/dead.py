"""Dead letters: list, show, requeue, skip, discard.

A requeued record goes back to the head of the lane it holds, before all later records of its key. A record that did not
hold its lane (later records of its key were delivered), or that is requeued `last`, comes back alone and so out of
order: the result counts these. A skipped record stays a dead letter while its key flows again. All may be called while
workers run, and repeated when the outcome is in doubt: each letter is decided on once.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import methodcaller
from typing import Any

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.delivery.dead import DeadLetters, Decided, LetterPlace, edit_of
from penstock.errors import InvalidSelection, UnknownDeadLetter
from penstock.log.entry import Entry, key_bytes, key_text, readable
from penstock.log.store import Store
from penstock.model.limits import Headers, check_moment
from penstock.model.record import Record, display_name

from . import audit
from .members import living_at, touch_group
from .operation import (
    LAST,
    PAGE_ROWS,
    Page,
    SeesTopic,
    every_topic,
    group_id,
    hidden_topics,
    ids,
    operation,
    page,
    places_after,
    storable,
    with_topic_names,
)

BATCH = 500  # letters decided on in one transaction

_PLACE = ("died_ms", "after_group", "after_topic", "after_partition", "after_offset")
_NARROW = ("id", "key", "type", "error", "since", "before")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that a group gave up. `holding`: later records of its key wait for a decision.

    `reset_at`: when the group was reset after this death; the record may have been delivered again since.
    `name`: the event's display name in listings.
    """

    group: str
    topic: str
    partition: int
    offset: int
    id: str
    key: str | None
    type: str
    failures: int
    reason: str
    died_at: datetime
    holding: bool
    reset_at: datetime | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """A dead letter with its record. `damage`: which part of it cannot be read."""

    letter: DeadLetter
    record: Record
    damage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadSelection:
    """The dead letters of one group to act on: by record id, key, type, error or time, or all.

    `error`: a prefix of the reason. `topic`: None for any. `since` and `before`: the span of time in which
    they died, `before` excluded. Raises InvalidTime, and InvalidSelection if there is neither a filter nor
    `all`, if there are both, or if the span of time is empty.
    """

    group: str
    id: str | None = None
    key: str | None = None
    type: str | None = None
    topic: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    all: bool = False
    error: str | None = None

    def __post_init__(self) -> None:
        _span(self.since, self.before)
        narrow = [name for name in _NARROW if getattr(self, name) is not None]
        if not narrow and not self.all:
            raise InvalidSelection("select dead letters by id, key, type, error or time, or select all")
        if narrow and self.all:
            raise InvalidSelection(f"all and {narrow[0]} contradict each other; give only one of them")


@dataclass(frozen=True, slots=True)
class LetterOutcome:
    """The result of a requeue, a skip or a discard, or of its dry run.

    `out_of_order`: how many came back alone, because later records of their keys were delivered or because of
    `last`. `unedited`: how many the group reads from the log anyway after a reset, so their headers stay.
    """

    count: int
    out_of_order: int = 0
    unedited: int = 0


@operation
def dead_letters(
    store: Store,
    *,
    group: str | None = None,
    topic: str | None = None,
    id: str | None = None,
    key: str | None = None,
    type: str | None = None,
    error: str | None = None,
    since: datetime | None = None,
    before: datetime | None = None,
    after: str | None = None,
    limit: int = PAGE_ROWS,
    seen: SeesTopic = every_topic,
) -> Page[DeadLetter]:
    """Return a page of dead letters, newest first, that died from `since` to before `before`.

    `error`: a prefix of the reason. Only those on topics that are `seen`.

    Raises InvalidPage, InvalidTime, InvalidSelection, UnknownGroup, UnknownTopic.
    """
    place = places_after(after, limit, dict.fromkeys(_PLACE, LAST))
    params = ids(store, group, topic) | _filter(id, key, type, error) | _span(since, before) | place
    hidden = [each.id for each in hidden_topics(store.log, seen)]
    found = store.database.look(lambda tx: tx.rows("operate", "dead_list", limit=limit + 1, hidden=hidden, **params))
    rows = with_topic_names(store.log, found, id_at=2, name_at=6)
    return page(rows, limit, len(_PLACE), _letter)


@operation
def show(store: Store, group: str, topic: str, partition: int, offset: int) -> DeadRecord:
    """Return a dead letter with its record. Raises UnknownDeadLetter, UnknownGroup, UnknownTopic."""
    place: dict[str, Any] = ids(store, group, topic) | {"partition": partition, "offset": offset}
    rows = store.database.look(lambda tx: tx.rows("operate", "dead_find", **place))
    named = with_topic_names(store.log, rows, id_at=2, name_at=6)
    if not named:  # or its topic was deleted meanwhile
        raise UnknownDeadLetter(f"{topic}/{partition}/{offset} of group {group}")
    return _dead_record(named[0])


@operation
def show_by_id(store: Store, id: str, *, group: str | None = None) -> list[DeadRecord]:
    """Return the dead letters of a record, at most one for each group. Raises UnknownDeadLetter, UnknownGroup."""
    letters = dead_letters(store, group=group, id=id, limit=1000).items
    found = []
    for each in letters:
        try:
            found.append(show(store, each.group, each.topic, each.partition, each.offset))
        except UnknownDeadLetter:
            continue  # decided on meanwhile
    if not found:
        raise UnknownDeadLetter(f"of record {id}" + ("" if group is None else f" in group {group}"))
    return found


@operation
def requeue(
    store: Store,
    selection: DeadSelection,
    *,
    last: bool = False,
    set_headers: Headers | None = None,
    drop_headers: Collection[str] = (),
    dry_run: bool = False,
    clock: Clock = SYSTEM,
    actor: str | None = None,
) -> LetterOutcome:
    """Requeue records at the head of their lane, in order; alone if later records of the key were delivered.

    `last`: put each alone, behind all waiting records of its key, and release the key at once. `set_headers`
    and `drop_headers` edit the headers that this group sees from now on; the log does not change.
    Raises InvalidHeaders, UnknownGroup, UnknownTopic.
    """
    edit = edit_of(set_headers, drop_headers)
    headers = edit and edit.names
    note = _noting("dead requeue", selection, clock, actor, last=last or None, headers=headers)
    act = partial(DeadLetters.requeue, last=last, edit=edit)
    planned = (lambda holding: Decided(1, int(last or not holding))) if dry_run else None
    done = _decide(store, selection, act, note, clock, planned)
    return done if edit is not None else replace(done, unedited=0)


@operation
def skip(
    store: Store, selection: DeadSelection, *, dry_run: bool = False, clock: Clock = SYSTEM, actor: str | None = None
) -> LetterOutcome:
    """Release the keys that dead letters hold; the letters stay, to be decided on later.

    Counts the letters that held their key. Raises UnknownGroup, UnknownTopic.
    """
    note = _noting("dead skip", selection, clock, actor)
    planned = (lambda holding: Decided(int(holding))) if dry_run else None
    return _decide(store, selection, DeadLetters.skip, note, clock, planned)


@operation
def discard(
    store: Store, selection: DeadSelection, *, dry_run: bool = False, clock: Clock = SYSTEM, actor: str | None = None
) -> LetterOutcome:
    """Discard records; a lane that one of them held continues with its later records.

    Raises UnknownGroup, UnknownTopic.
    """
    note = _noting("dead discard", selection, clock, actor)
    planned = (lambda _: Decided(1)) if dry_run else None
    return _decide(store, selection, DeadLetters.discard, note, clock, planned)


def _decide(
    store: Store,
    selection: DeadSelection,
    decide: Callable[[DeadLetters, Transaction, list[LetterPlace]], Decided],
    note: Callable[[Transaction, int], None],
    clock: Clock,
    planned: Callable[[bool], Decided] | None,
) -> LetterOutcome:
    """Decide on the selected letters, batch by batch; `planned`: change nothing, count each letter by this."""
    total, group = Decided(), group_id(store, selection.group)

    def settle(letters: DeadLetters, places: list[LetterPlace], tx: Transaction) -> Decided:
        decided = decide(letters, tx, places)
        if decided.count:
            note(tx, decided.count)
        return decided

    for batch in _batches(store, group, selection):
        for topic_id, rows in groupby(batch, key=lambda row: row[0]):
            picked = list(rows)
            if planned is not None:
                total = sum((planned(bool(row[3])) for row in picked), total)
                continue
            letters = DeadLetters(group, topic_id, living=living_at(clock), touch=touch_group)
            total += store.database.run(partial(settle, letters, [(row[1], row[2]) for row in picked]))
    return LetterOutcome(total.count, total.alone, total.anyway)


def _noting(
    action: str, selection: DeadSelection, clock: Clock, actor: str | None, **how: Any
) -> Callable[[Transaction, int], None]:
    """Return a function that writes how many letters were decided on to the audit."""
    given = {each.name: getattr(selection, each.name) or None for each in fields(selection)}
    subject = {name: each.isoformat() if isinstance(each, datetime) else each for name, each in given.items()} | how
    now_ms = own_ms(clock)
    return lambda tx, count: audit.write(tx, action, subject, count, now_ms, actor)


def _batches(store: Store, group: int, selection: DeadSelection) -> Iterator[list[Row]]:
    """Yield the places of the selected letters in log order, each once, even if it dies again."""
    topic = None if selection.topic is None else store.log.topic(selection.topic).id
    params = {"group_id": group, "topic_id": topic, **_span(selection.since, selection.before)}
    params |= _filter(selection.id, selection.key, selection.type, selection.error)
    after = (0, 0, -1)
    while True:
        places = dict(zip(("after_topic", "after_partition", "after_offset"), after, strict=True)) | params
        rows = store.database.look(methodcaller("rows", "operate", "dead_pick", limit=BATCH, **places))
        if rows:
            yield rows
        if len(rows) < BATCH:
            return
        after = rows[-1][:3]


def _span(since: datetime | None, before: datetime | None) -> dict[str, int | None]:
    """Return the parameters for a span of time. Raises InvalidTime, InvalidSelection."""
    given = {"since": since, "before": before}
    span = {f"{name}_ms": None if at is None else check_moment(name, at, 0) for name, at in given.items()}
    if since is not None and before is not None and since >= before:
        raise InvalidSelection(f"the span from {since} to before {before} is empty; since must be earlier")
    return span


def _filter(id: str | None, key: str | None, type: str | None, error: str | None) -> dict[str, Any]:
    texts = {"id": id, "type": type, "error": error}
    return {"key": key_bytes(key)} | {name: None if text is None else storable(text) for name, text in texts.items()}


def _letter(row: Row) -> DeadLetter:
    died_ms, _, _, partition, offset, group, topic, id, key, type, failures, reason = row[:12]
    reset_at = None if row[13] is None else from_ms(row[13])
    name, died_at = display_name(type, partition, row[-1], id), from_ms(died_ms)
    content = id, key_text(key), type, failures, reason, died_at, bool(row[12]), reset_at, name
    return DeadLetter(group, topic, partition, offset, *content)


def _dead_record(row: Row) -> DeadRecord:
    letter, (value, headers, timestamp_ms) = _letter(row), row[14:]
    content = letter.id, key_bytes(letter.key), letter.type or None, value, headers, timestamp_ms, None
    record, error = readable(letter.topic, Entry(letter.partition, letter.offset, *content))
    return DeadRecord(letter, record, None if error is None else f"its headers cannot be decoded: {error}")
