"""The core of publishing: events are checked, encoded and placed; steps stage, cancel and reschedule them.

No I/O; an adapter runs the steps.

One event costs one statement; one with a token costs one or two more. Rows for the future go to `scheduled`,
all others to `staged`, each in the caller's order.

The move skips a scheduled row that a caller has locked, and a caller waits for a move that has locked the row. The
second to arrive finds nothing, so the answer "in time" is always correct and neither can block the other forever.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from penstock import points
from penstock.errors import InvalidInput, InvalidSelection, ValueTooLarge, shown
from penstock.model.content import BINARY, CONTENT_TYPE, encode_value
from penstock.model.ids import new_id
from penstock.model.limits import (
    Headers,
    LimitsSettings,
    check_headers,
    check_key,
    check_moment,
    check_owner,
    check_topic,
    check_type,
)
from penstock.model.partition import key_hash, place
from penstock.model.record import TOKEN, RawHeaders
from penstock.model.token import GivenToken, check_token
from penstock.wire.kafka.headers import encode_headers

from .contract import StagedEvent, Step, Steps
from .tokens import take_steps

DEFAULT_TOPIC = "events"
NOT_GIVEN: Any = object()  # in place of a value: the event object is the value
_checked_type = lru_cache(maxsize=1024)(check_type)  # a program has few types
_made = tuple.__new__  # makes a named tuple without a call in Python: this runs for every event
OPTIONS = frozenset({"key", "topic", "headers", "at", "owner", "token"})


def staged_event(
    type: str,
    value: Any,
    *,
    now_ms: int,
    limits: LimitsSettings,
    key: str | None = None,
    topic: str = DEFAULT_TOPIC,
    headers: Headers | None = None,
    at: object = None,
    owner: str | None = None,
    token: GivenToken | None = None,
    context: RawHeaders = (),
) -> StagedEvent:
    """Return the checked event. Raises a subclass of InvalidInput.

    Without a key, the hash of its id places it. One due now or earlier is not scheduled. `context`: headers from the
    context; the event's own win.
    """
    _checked_type(type)
    if key is not None:
        check_key(key)
    if topic != DEFAULT_TOPIC:
        check_topic(topic)
    if owner is not None:
        check_owner(owner, limits)
    data, content_type = encode_value(type, value)
    if data is not None and len(data) > limits.event_bytes:
        raise ValueTooLarge(type, len(data), limits.event_bytes)
    raw_headers = check_headers(headers, limits) if headers else ()
    if context:
        own = {name for name, _ in raw_headers}
        raw_headers = check_headers((*raw_headers, *(each for each in context if each[0] not in own)), limits)
    if content_type == BINARY and all(name != CONTENT_TYPE for name, _ in raw_headers):
        raw_headers = (*raw_headers, (CONTENT_TYPE, BINARY.encode()))
    checked_token = None if token is None else check_token(token, topic)
    if checked_token is not None:
        raw_headers = (*raw_headers, (TOKEN, checked_token.data))
    due_ms = None if at is None else check_moment("at", at, now_ms)
    event_id = new_id(now_ms)
    slot, hashed = place(event_id if key is None else key)
    fields = (
        slot,
        hashed,
        topic,
        event_id,
        None if key is None else key.encode(),
        type,
        data,
        encode_headers(raw_headers) if raw_headers else None,
        now_ms,
        owner,
        None if due_ms is None or due_ms <= now_ms else due_ms,
        checked_token,
    )
    return _made(StagedEvent, fields)


def with_id(event: StagedEvent, id: str) -> StagedEvent:
    """Return an event with another id, which also determines its partition if it has no key."""
    if event.key is not None:
        return event._replace(id=id)
    slot, hashed = place(id)
    return event._replace(id=id, key_hash=hashed, slot=slot)


def check_id(id: object) -> str:
    """Return a valid event id. Raises InvalidInput for any other value, which a database could reject."""
    if isinstance(id, str) and id.isprintable():
        return id
    raise InvalidInput(f"id {shown(id)} must be the string that publish returned")


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse unknown options of an event. Raises InvalidInput."""
    if not options.keys() <= OPTIONS:
        unknown, known = (options.keys() - OPTIONS).pop(), ", ".join(sorted(OPTIONS))
        raise InvalidInput(f"an event has no option {shown(unknown)}; its options are {known}")


def parts_of(event: Mapping[str, Any], topic: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return the type, the value and the options of an event that a mapping describes. Raises InvalidInput.

    Both are required: a value left out by mistake would be a tombstone.
    """
    options = {"topic": topic, **event}
    try:
        return options.pop("type"), options.pop("value"), options
    except KeyError as exc:
        given = shown(sorted(map(str, event)))  # without values: errors are logged
        raise InvalidInput(f"an event with the keys {given} lacks {exc}") from None


BEFORE_STAGE = points.declare("outbox.before_stage", "Events are checked, nothing is written yet.")
AFTER_STAGE = points.declare("outbox.after_stage", "Events are written in the caller's open transaction.")

_COLUMNS_STAGED, _COLUMNS_SCHEDULED = 10, 11


class Staged(NamedTuple):
    """The ids of all events in the given order, the events written now, and all tokens."""

    ids: list[str]
    events: Sequence[StagedEvent]
    tokens: Sequence[GivenToken] = ()


def plain_step(events: Sequence[StagedEvent]) -> Step | None:
    """Return the one step of the most common publish, a single unscheduled event without a token."""
    event = events[0]
    if len(events) > 1 or event.token is not None or event.due_ms is not None:
        return None
    return _made(Step, ("stage", (event[:_COLUMNS_STAGED],), False, False))


def stage_steps(events: Sequence[StagedEvent], window_ms: int) -> Steps[Staged]:
    """Stage events."""
    points.reach(BEFORE_STAGE)
    staged, ids = events, [event.id for event in events]
    tokens = [event.token.given for event in events if event.token is not None]
    if tokens:
        resolved = yield from take_steps(events, window_ms)
        ids = [event.id if event.token is None else resolved[event.token.hash] for event in events]
        staged = [event for event, id in zip(events, ids, strict=True) if event.id == id]
    now = [event[:_COLUMNS_STAGED] for event in staged if event.due_ms is None]
    if now:
        yield Step("stage", now)
    if len(now) < len(staged):
        yield Step("schedule", [event[:_COLUMNS_SCHEDULED] for event in staged if event.due_ms is not None])
    points.reach(AFTER_STAGE)
    return Staged(ids, staged, tokens)


def cancel_steps(
    id: str | None, topic: str, *, key: str | None, owner: str | None, limits: LimitsSettings
) -> Steps[int]:
    """Cancel scheduled events; return how many were in time. Raises InvalidSelection or as `staged_event` does."""
    statement, which = _selected("cancel", id, key, owner, topic, limits)
    cancelled: int = yield Step(statement, [which], counts=True)
    return cancelled


def reschedule_steps(
    id: str | None,
    at: object,
    topic: str,
    now_ms: int,
    *,
    key: str | None = None,
    owner: str | None = None,
    limits: LimitsSettings,
) -> Steps[int]:
    """Reschedule events; return how many were in time, or by id whether it was. Raises as `cancel_steps` does."""
    statement, which = _selected("reschedule", id, key, owner, topic, limits)
    changed: int = yield Step(statement, [(max(check_moment("at", at, now_ms), now_ms), *which)], counts=True)
    return changed if id is None else changed == 1


def _selected(
    act: str, id: str | None, key: str | None, owner: str | None, topic: str, limits: LimitsSettings
) -> tuple[str, tuple[Any, ...]]:
    given = [name for name, value in (("id", id), ("key", key), ("owner", owner)) if value is not None]
    if len(given) != 1:
        how = "none was given" if not given else f"{' and '.join(given)} were given"
        raise InvalidSelection(f"{act} takes exactly one of id, key=... and owner=...; {how}")
    check_topic(topic)
    if id is not None:
        return act, (check_id(id), topic)
    if key is not None:
        check_key(key)
        return f"{act}_key", (key_hash(key), key.encode(), topic)
    return f"{act}_owner", (check_owner(owner, limits), topic)
