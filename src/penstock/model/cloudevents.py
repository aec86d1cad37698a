"""A record as a CloudEvent 1.0: written in Kafka's binary form, read from the JSON form.

| CloudEvent      | record                                   |
|-----------------|------------------------------------------|
| id, type        | id, type                                 |
| time            | timestamp, RFC 3339 to the millisecond   |
| source          | a parameter: the log's own name          |
| datacontenttype | header `content-type`, else JSON         |
| partitionkey    | key (in Kafka: the message's key)        |
| data            | value; absent for a tombstone            |

Codecs without I/O.
"""

import base64
import binascii
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from penstock.clock import from_ms, to_ms
from penstock.errors import InvalidEnvelope, shown

from .content import BINARY, CONTENT_TYPE, JSON, is_json
from .record import RawHeaders, Record

SPEC_VERSION = "1.0"
_JSON_MARK = (CONTENT_TYPE, JSON.encode())


def to_kafka(record: Record, source: str) -> RawHeaders:
    """Return the headers of the Kafka message; key and value are the record's own. Raises InvalidEnvelope."""
    attributes = {
        "ce_specversion": SPEC_VERSION,
        "ce_id": record.id,
        "ce_type": record.type or "",
        "ce_source": source,
        "ce_time": format_time(record.timestamp_ms),
    }
    # The default needs no mark in the record; a header with the same value is repeated here, so that
    # a reader that removes the first one has it.
    own = _content_type(record.raw_headers)
    content = (_JSON_MARK,) if own == _JSON_MARK or (own is None and record.data is not None) else ()
    return (*((name, text.encode()) for name, text in attributes.items()), *content, *record.raw_headers)


class _JsonEvent(msgspec.Struct, omit_defaults=True):
    specversion: str
    id: str
    type: str
    source: str
    time: str | None = None
    datacontenttype: str | None = None
    partitionkey: str | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data_base64: str | None = None


def from_json(text: bytes, received_ms: int) -> Record:
    """Return the record of the JSON form; without a time, that of receipt counts. Raises InvalidEnvelope."""
    try:
        event = msgspec.json.decode(text, type=_JsonEvent)
    except (ValueError, RecursionError) as exc:
        raise InvalidEnvelope("*", str(exc)) from exc
    _check_version(event.specversion)
    for name in ("id", "type", "source"):
        if not getattr(event, name):
            raise InvalidEnvelope(name, "must not be empty")
    time_ms = received_ms if event.time is None else parse_time(event.time)
    return Record(event.id, event.partitionkey, _data(event), event.type, _headers(event), time_ms)


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
    content_type = event.datacontenttype or (BINARY if event.data_base64 is not None else JSON)
    return () if content_type == JSON else ((CONTENT_TYPE, content_type.encode()),)


def _unbase64(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidEnvelope(name, f"is not base64: {exc}") from exc


def _check_version(version: str) -> None:
    if version != SPEC_VERSION:
        raise InvalidEnvelope("specversion", f"is {shown(version)}; only {SPEC_VERSION} is supported")
