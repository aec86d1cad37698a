"""The staged event: checked, encoded and placed in a partition before any database access."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.errors import InvalidInput, ValueTooLarge, shown
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
from penstock.model.partition import place
from penstock.model.record import TOKEN, RawHeaders
from penstock.model.token import GivenToken, Token, check_token
from penstock.wire.kafka.headers import encode_headers

DEFAULT_TOPIC = "events"
NOT_GIVEN: Any = object()  # in place of a value: the event object is the value
_checked_type = lru_cache(maxsize=1024)(check_type)  # a program has few types
_made = tuple.__new__
OPTIONS = frozenset({"key", "topic", "headers", "at", "owner", "token"})


class StagedEvent(NamedTuple):
    """One row of `staged`, or of `scheduled` when `due_ms` is set; its token has its own row."""

    slot: int
    key_hash: int
    topic: str
    id: str
    key: bytes | None
    type: str
    value: bytes | None
    headers: bytes | None
    timestamp_ms: int
    owner: str | None
    due_ms: int | None
    token: Token | None = None


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
    """Return the checked event.

    Without a key, the hash of its id places it, and no order is promised. An event due now or earlier is not
    scheduled. `context`: headers from the context; the event's own win over them.
    Raises a subclass of InvalidInput.
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
        raw_headers = _in_context(raw_headers, context, limits)
    if content_type == BINARY:
        raw_headers = _marked_binary(raw_headers)
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
    return _made(StagedEvent, fields)  # what `_make` does, without its calls: this runs for every event


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
        unknown = options.keys() - OPTIONS
        known = ", ".join(sorted(OPTIONS))
        raise InvalidInput(f"an event has no option {shown(unknown.pop())}; its options are {known}")


def parts_of(event: Mapping[str, Any], topic: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return the type, the value and the options of an event that a mapping describes.

    Both are required: a value left out by mistake would be a tombstone. Raises InvalidInput.
    """
    options = {"topic": topic, **event}
    try:
        return options.pop("type"), options.pop("value"), options
    except KeyError as exc:
        given = shown(sorted(map(str, event)))  # without values: errors are logged
        raise InvalidInput(f"an event with the keys {given} lacks {exc}") from None


def _in_context(headers: RawHeaders, context: RawHeaders, limits: LimitsSettings) -> RawHeaders:
    """Return an event's own headers, then those of its context that it does not override."""
    own = {name for name, _ in headers}
    return check_headers((*headers, *(each for each in context if each[0] not in own)), limits)


def _marked_binary(headers: RawHeaders) -> RawHeaders:
    """Return the headers with the binary content type, unless the caller has given another."""
    if any(name == CONTENT_TYPE for name, _ in headers):
        return headers
    return (*headers, (CONTENT_TYPE, BINARY.encode()))
