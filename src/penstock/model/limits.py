"""The checks of a publish, before anything is written.

Each refusal has its own error class. The checks know no database; adjustable limits are settings, the others
are fixed by storage (columns of 255 characters, Kafka's topic names).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from penstock.clock import to_ms
from penstock.errors import InvalidHeaders, InvalidKey, InvalidOwner, InvalidTime, InvalidTopic, InvalidType
from penstock.settings import Settings, setting

from .record import TOKEN, RawHeaders

ERASED = "penstock.erased"  # the type of a record whose content was erased; readers skip it
LAST_TIME_MS = 253_402_300_799_999  # the latest time of a record: the end of the year 9999
MOST_RECORDS = 10_000  # added by one request
NAME_CHARACTERS = 255
HEADER_NAME_CHARACTERS = 255
Headers = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# Derived from the record whenever it is shown as a CloudEvent; a second value could contradict it.
_RESERVED = {"ce_id", "ce_type", "ce_source", "ce_time", "ce_specversion"}


class LimitsSettings(Settings, room="limits"):
    """Size limits of published events."""

    event_bytes: int = setting(1_048_576, "Largest value of one event, in bytes.", at_least=1)
    headers_bytes: int = setting(65_536, "Most bytes of all header names and values of one event.", at_least=0)
    owner_bytes: int = setting(512, "Longest owner tag, in bytes of UTF-8.", at_least=1, at_most=512)


def check_type(name: object) -> str:
    """Return an event type's name. Raises InvalidType."""
    if isinstance(name, str) and 0 < len(name) <= NAME_CHARACTERS and name.isprintable() and name != ERASED:
        return name
    raise InvalidType(name, NAME_CHARACTERS, "it is reserved for erased records" if name == ERASED else "")


def check_key(key: object) -> str | None:
    """Return a key, or None for none. Raises InvalidKey."""
    if key is None:
        return None
    if isinstance(key, str) and 0 < len(key) <= NAME_CHARACTERS and key.isprintable():
        return key
    hint = "" if isinstance(key, str) else "turn it into a string, for example key=str(...)"
    raise InvalidKey(key, NAME_CHARACTERS, hint)


def check_topic(topic: object) -> str:
    """Return a topic's name. Raises InvalidTopic."""
    if isinstance(topic, str) and _TOPIC.fullmatch(topic) and topic not in (".", ".."):
        return topic
    raise InvalidTopic(topic)


def check_owner(owner: object, limits: LimitsSettings) -> str | None:
    """Return an owner tag, or None for none. Raises InvalidOwner."""
    if owner is None:
        return None
    if isinstance(owner, str) and owner.isprintable() and 0 < len(owner.encode()) <= limits.owner_bytes:
        return owner
    raise InvalidOwner(owner, limits.owner_bytes)


def check_headers(headers: Headers | None, limits: LimitsSettings) -> RawHeaders:
    """Return headers in stored form, without a token: they may be copied from another record. Raises InvalidHeaders."""
    if not headers:
        return ()
    checked = tuple(check_header(name, value) for name, value in _pairs(headers) if name != TOKEN)
    size = sum(len(name.encode()) + len(value or b"") for name, value in checked)
    if size > limits.headers_bytes:
        raise InvalidHeaders("*", f"all together have {size} bytes, and limits.headers_bytes is {limits.headers_bytes}")
    return checked


def check_moment(name: str, value: object, now_ms: int) -> int:
    """Return an aware datetime, or a timedelta from now, as milliseconds since 1970. Raises InvalidTime."""
    if isinstance(value, timedelta):
        moment_ms = now_ms + value // timedelta(milliseconds=1)
    elif isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise InvalidTime(
                name, value, "a naive datetime is not a definite moment; add a time zone, e.g. tzinfo=UTC"
            )
        moment_ms = to_ms(value)
    else:
        raise InvalidTime(name, value, "must be an aware datetime or a timedelta from now")
    if not 0 <= moment_ms <= LAST_TIME_MS:
        raise InvalidTime(name, value, "must lie between the years 1970 and 9999")
    return moment_ms


def _pairs(headers: Headers) -> Iterator[tuple[object, object]]:
    """Yield names with values; a string is not a pair, even if it has two characters."""
    if isinstance(headers, Mapping):
        yield from headers.items()
    elif isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise InvalidHeaders("*", f"must be a dict or (name, value) pairs, not {type(headers).__name__}")
    else:
        for pair in headers:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise InvalidHeaders(pair, "must be a pair of name and value")
            yield pair[0], pair[1]


def check_header(name: object, value: object) -> tuple[str, bytes | None]:
    """Return one header in stored form. Raises InvalidHeaders."""
    if not isinstance(name, str) or not 0 < len(name) <= HEADER_NAME_CHARACTERS or not name.isprintable():
        raise InvalidHeaders(name, f"a name must be 1 to {HEADER_NAME_CHARACTERS} printable characters")
    if name.lower() in _RESERVED:
        raise InvalidHeaders(name, "is derived from the event and cannot be set")
    if value is None or isinstance(value, bytes):
        return name, value
    if isinstance(value, str):
        try:
            return name, value.encode()
        except UnicodeEncodeError as exc:
            raise InvalidHeaders(name, f"its value has no UTF-8 form: {exc.reason}") from exc
    raise InvalidHeaders(name, f"its value must be a string, bytes or None, not {type(value).__name__}")
