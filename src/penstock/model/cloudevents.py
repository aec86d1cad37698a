"""A record as a CloudEvent 1.0: Kafka's binary form, and the JSON form.

| CloudEvent      | record                                   |
|-----------------|------------------------------------------|
| id, type        | id, type                                 |
| time            | timestamp, RFC 3339 to the millisecond   |
| source          | a parameter: the log's own name          |
| datacontenttype | header `content-type`, else JSON         |
| partitionkey    | key (in Kafka: the message's key)        |
| data            | value; absent for a tombstone            |
| penstockheaders | the other headers, JSON form only        |

Codecs without I/O; decode undoes encode for every record (`tests/property`).
"""

import base64
import binascii
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from penstock.clock import from_ms, to_ms
from penstock.errors import InvalidEnvelope, shown

from .content import BINARY, CONTENT_TYPE, JSON, has_json, is_json
from .record import RawHeaders, Record

SPEC_VERSION = "1.0"
_JSON_MARK = (CONTENT_TYPE, JSON.encode())
_BLANKS = b" \t\r\n"  # allowed around a JSON value
_REQUIRED = ("ce_specversion", "ce_id", "ce_type", "ce_source")


class Envelope(msgspec.Struct, frozen=True):
    """A record and the source that it names."""

    record: Record
    source: str


def to_kafka(envelope: Envelope) -> RawHeaders:
    """Return the headers of the Kafka message; key and value are the record's own. Raises InvalidEnvelope."""
    record = envelope.record
    attributes = {
        "ce_specversion": SPEC_VERSION,
        "ce_id": record.id,
        "ce_type": record.type or "",
        "ce_source": envelope.source,
        "ce_time": format_time(record.timestamp_ms),
    }
    # The default needs no mark in the record; a header with the same value is repeated here, so that
    # from_kafka, which removes the first one, returns it.
    own = _content_type(record.raw_headers)
    content = (_JSON_MARK,) if own == _JSON_MARK or (own is None and record.data is not None) else ()
    return (*((name, text.encode()) for name, text in attributes.items()), *content, *record.raw_headers)


def from_kafka(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]], timestamp_ms: int
) -> Envelope | None:
    """Return the envelope in a Kafka message; None if it is no CloudEvent in binary form. Raises InvalidEnvelope."""
    raw: dict[str, bytes | None] = {}
    rest: list[tuple[str, bytes | None]] = []
    for name, content in headers:
        if name in _REQUIRED or name == "ce_time":
            raw[name] = content
        else:
            rest.append((name, content))
    if "ce_specversion" not in raw:
        return None
    if _content_type(rest) == _JSON_MARK:
        rest.remove(_JSON_MARK)
    found = {name: _text(name, content) for name, content in raw.items()}
    for name in _REQUIRED:
        if not found.get(name):
            raise InvalidEnvelope(name, "is missing")
    _check_version(found["ce_specversion"])
    time_ms = parse_time(found["ce_time"]) if "ce_time" in found else timestamp_ms
    text_key = None if key is None else key.decode("utf-8", "surrogateescape")
    record = Record(found["ce_id"], text_key, value, found["ce_type"], tuple(rest), time_ms)
    return Envelope(record, found["ce_source"])


class _JsonEvent(msgspec.Struct, omit_defaults=True):
    specversion: str
    id: str
    type: str
    source: str
    time: str | None = None
    datacontenttype: str | None = None
    partitionkey: str | None = None
    penstockheaders: str | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data_base64: str | None = None


def to_json(envelope: Envelope) -> bytes:
    """Return the JSON form; JSON data is embedded unchanged, other bytes in base64. Raises InvalidEnvelope."""
    record = envelope.record
    content_type = record.headers.get(CONTENT_TYPE) or JSON
    event = _JsonEvent(
        specversion=SPEC_VERSION,
        id=record.id,
        type=record.type or "",
        source=envelope.source,
        time=format_time(record.timestamp_ms),
        datacontenttype=None if record.data is None else content_type,
        partitionkey=record.key,
    )
    if record.raw_headers:
        event.penstockheaders = _pack(record.raw_headers)
    if record.data is not None:
        # Blanks around a JSON value would not survive inside a JSON text.
        if is_json(content_type) and record.data.strip(_BLANKS) == record.data and has_json(record.data):
            event.data = msgspec.Raw(record.data)
        else:
            event.data_base64 = base64.b64encode(record.data).decode("ascii")
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError as exc:
        raise InvalidEnvelope("*", f"has no UTF-8 form: {exc}") from exc


def from_json(text: bytes, received_ms: int) -> Envelope:
    """Return the envelope of the JSON form; without a time, that of receipt counts. Raises InvalidEnvelope."""
    try:
        event = msgspec.json.decode(text, type=_JsonEvent)
    except (ValueError, RecursionError) as exc:
        raise InvalidEnvelope("*", str(exc)) from exc
    _check_version(event.specversion)
    for name in ("id", "type", "source"):
        if not getattr(event, name):
            raise InvalidEnvelope(name, "must not be empty")
    time_ms = received_ms if event.time is None else parse_time(event.time)
    record = Record(event.id, event.partitionkey, _data(event), event.type, _headers(event), time_ms)
    return Envelope(record, event.source)


def format_time(ms: int) -> str:
    """Return milliseconds since 1970 as RFC 3339 text. Raises InvalidEnvelope outside the years 1 to 9999."""
    moment = from_ms(ms)
    if to_ms(moment) != ms:  # from_ms clamps a moment beyond the calendar
        raise InvalidEnvelope("time", f"{ms} ms since 1970 is out of range")
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str) -> int:
    """Return RFC 3339 text as milliseconds since 1970. Raises InvalidEnvelope."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.utcoffset() is None:
            raise InvalidEnvelope("time", f"{shown(text)} has no time zone")
        return to_ms(moment.astimezone(UTC))
    except (ValueError, OverflowError) as exc:
        raise InvalidEnvelope("time", str(exc)) from exc


def _content_type(headers: Iterable[tuple[str, bytes | None]]) -> tuple[str, bytes | None] | None:
    return next((header for header in headers if header[0] == CONTENT_TYPE), None)


def _text(name: str, content: bytes | None) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError as exc:
        raise InvalidEnvelope(name, "is not UTF-8") from exc


def _data(event: _JsonEvent) -> bytes | None:
    if event.data_base64 is not None:
        return _unbase64("data_base64", event.data_base64)
    if event.data is msgspec.UNSET:
        return None
    data = bytes(event.data)
    if event.datacontenttype is not None and not is_json(event.datacontenttype) and data[:1] == b'"':
        try:
            return msgspec.json.decode(data, type=str).encode()  # text of another kind, such as XML, is a string there
        except ValueError as exc:
            raise InvalidEnvelope("data", str(exc)) from exc
    return data


def _headers(event: _JsonEvent) -> RawHeaders:
    if event.penstockheaders is not None:
        return _unpack(event.penstockheaders)
    content_type = event.datacontenttype or (BINARY if event.data_base64 is not None else JSON)
    return () if content_type == JSON else ((CONTENT_TYPE, content_type.encode()),)


def _pack(headers: RawHeaders) -> str:
    rows: list[Any] = [(name, None if v is None else base64.b64encode(v).decode("ascii")) for name, v in headers]
    return msgspec.json.encode(rows).decode()


def _unpack(text: str) -> RawHeaders:
    try:
        rows = msgspec.json.decode(text, type=list[tuple[str, str | None]])
    except (ValueError, RecursionError) as exc:
        raise InvalidEnvelope("penstockheaders", str(exc)) from exc
    return tuple((name, None if v is None else _unbase64("penstockheaders", v)) for name, v in rows)


def _unbase64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidEnvelope(name, f"is not base64: {exc}") from exc


def _check_version(version: str) -> None:
    if version != SPEC_VERSION:
        raise InvalidEnvelope("specversion", f"is {shown(version)}; only {SPEC_VERSION} is supported")
