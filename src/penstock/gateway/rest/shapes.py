"""Records as JSON, in answers."""

import base64

import msgspec

from penstock.clock import from_ms
from penstock.model.content import CONTENT_TYPE, JSON, has_json, is_json
from penstock.model.record import Record


class HeaderShown(msgspec.Struct, omit_defaults=True):
    """One header of a record: its value as text, or as base64 if it is not text; neither for a null."""

    name: str
    value: str | None = None
    value_base64: str | None = None


class RecordShown(msgspec.Struct, omit_defaults=True):
    """A record. `value` is its JSON, `value_base64` other bytes; neither for a tombstone.

    `key_base64`: a key that is not text. `not_converted`: why the value is as stored, and not in the content
    type that was asked for. `attempt` and `redelivered` only in a delivery to a group.
    """

    topic: str
    partition: int
    offset: int
    id: str
    timestamp: str
    type: str | None = None
    key: str | None = None
    key_base64: str | None = None
    content_type: str | None = None
    headers: list[HeaderShown] = []
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    value_base64: str | None = None
    attempt: int | None = None
    redelivered: bool | None = None
    not_converted: str | None = None


def record_shown(record: Record, *, delivered: bool = False, not_converted: str = "") -> RecordShown:
    """Return a record in the shape of answers; `delivered`: with its attempts."""
    assert record.topic is not None
    assert record.partition is not None
    assert record.offset is not None
    shown = RecordShown(
        record.topic, record.partition, record.offset, record.id, _time(record.timestamp_ms), record.type
    )
    key = record.key
    if key is not None and not _is_text(key):
        shown.key_base64 = _base64(key.encode("utf-8", "surrogateescape"))
    else:
        shown.key = key
    content_type = record.headers.get(CONTENT_TYPE) or JSON
    if record.data is not None:
        shown.content_type = content_type
        if is_json(content_type) and has_json(record.data):
            shown.value = msgspec.Raw(record.data)
        else:
            shown.value_base64 = _base64(record.data)
    shown.headers = [_header(name, value) for name, value in record.raw_headers]
    shown.not_converted = not_converted or None
    if delivered:
        shown.attempt, shown.redelivered = record.attempt, record.redelivered
    return shown


def _header(name: str, value: bytes | None) -> HeaderShown:
    try:
        return HeaderShown(name, None if value is None else value.decode())
    except UnicodeDecodeError:
        assert value is not None
        return HeaderShown(name, value_base64=_base64(value))


def _time(ms: int) -> str:
    return from_ms(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_text(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
