"""A record as a CloudEvent 1.0: written for Kafka, read from HTTP.

| CloudEvent      | record                                   |
|-----------------|------------------------------------------|
| id, type        | id, type                                 |
| time            | timestamp, RFC 3339 to the millisecond   |
| source          | a parameter: the log's own name          |
| datacontenttype | header `content-type`, else JSON         |
| partitionkey    | key (in Kafka: the message's key)        |
| data            | value; absent for a tombstone            |

Over HTTP there are three forms:

| form       | content type                          | attributes                                          |
|------------|---------------------------------------|-----------------------------------------------------|
| binary     | that of the data                      | headers `ce-…`, percent-encoded; data is the body   |
| structured | `application/cloudevents+json`        | members of the JSON object                          |
| batch      | `application/cloudevents-batch+json`  | an array of such objects                            |

`partitionkey` is the record's key. Extensions become headers `ce_…`, as in the Kafka binding. Codecs without I/O.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import unquote

import msgspec

from penstock.clock import from_ms, to_ms
from penstock.errors import InvalidEnvelope, InvalidInput, shown

from .content import BINARY, CONTENT_TYPE, JSON, is_json
from .limits import MOST_RECORDS
from .record import RawHeaders, Record

SPEC_VERSION = "1.0"
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
_ATTRIBUTES = frozenset({"specversion", "id", "type", "source", "time", "datacontenttype", "partitionkey"})
_MEMBERS = _ATTRIBUTES | {"data", "data_base64"}
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
    own = next((header for header in record.raw_headers if header[0] == CONTENT_TYPE), None)
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
    if event.specversion != SPEC_VERSION:
        raise InvalidEnvelope("specversion", f"is {shown(event.specversion)}; only {SPEC_VERSION} is supported")
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


def _data(event: _JsonEvent) -> bytes | None:
    if event.data_base64 is not None:
        try:
            return base64.b64decode(event.data_base64, validate=True)
        except (binascii.Error, ValueError) as exc:
            raise InvalidEnvelope("data_base64", f"is not base64: {exc}") from exc
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


def is_binary(headers: Mapping[str, str]) -> bool:
    """Return whether a request is a CloudEvent in binary form."""
    return "ce-specversion" in headers


class _AnyEvent(msgspec.Struct):
    """What every event has, so that an array of millions of other things is refused at its first."""

    specversion: str


def from_binary(headers: Mapping[str, str], body: bytes, received_ms: int) -> Record:
    """Return the record of a request in binary form; headers by lower-case names. Raises InvalidEnvelope."""
    found = {
        name.removeprefix("ce-"): _unquoted(name, value) for name, value in headers.items() if name.startswith("ce-")
    }
    if found.get("specversion") != "1.0":
        raise InvalidEnvelope("specversion", "must be 1.0")
    for name in ("id", "type", "source"):
        if not found.get(name):
            raise InvalidEnvelope(name, "is missing")
    time_ms = parse_time(found["time"]) if "time" in found else received_ms
    content_type = headers.get("content-type")
    data = body if body or content_type is not None else None
    own = content_headers(content_type, data)
    more = tuple((f"ce_{name}", value.encode()) for name, value in found.items() if name not in _ATTRIBUTES)
    return Record(found["id"], found.get("partitionkey"), data, found["type"], (*own, *more), time_ms)


def from_structured(body: bytes, received_ms: int) -> Record:
    """Return the record of a request in structured form. Raises InvalidEnvelope."""
    record = from_json(body, received_ms)
    return msgspec.structs.replace(record, raw_headers=(*record.raw_headers, *_extensions(body, record)))


def from_batch(body: bytes, received_ms: int) -> list[Record]:
    """Return the records of a batch. Raises InvalidEnvelope."""
    try:
        count = len(msgspec.json.decode(body, type=list[_AnyEvent]))  # what is no event ends it early
        if count > MOST_RECORDS:
            raise InvalidInput(f"{count} records at once; send {MOST_RECORDS} or fewer")
        events = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (ValueError, RecursionError) as exc:
        raise InvalidEnvelope("*", str(exc)) from exc
    return [from_structured(bytes(each), received_ms) for each in events]


def content_headers(content_type: str | None, data: bytes | None) -> RawHeaders:
    """Return the content-type header of a record's data; JSON needs none."""
    if data is None or content_type == JSON:
        return ()
    return ((CONTENT_TYPE, (content_type or BINARY).encode()),)


def _extensions(body: bytes, record: Record) -> RawHeaders:
    known = {name for name, _ in record.raw_headers}
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except UnicodeDecodeError as exc:
        raise InvalidEnvelope("*", f"the name of an extension is {exc}") from exc
    return tuple(
        (f"ce_{name}", _text(name, bytes(value)))
        for name, value in members.items()
        if name not in _MEMBERS and f"ce_{name}" not in known and bytes(value) != b"null"
    )


def _text(name: str, value: bytes) -> bytes:
    try:
        found = msgspec.json.decode(value, type=str | int | bool)
    except (ValueError, RecursionError) as exc:
        raise InvalidEnvelope(name, "must be a string, a whole number or true or false") from exc
    return (str(found).lower() if isinstance(found, bool) else str(found)).encode()


def _unquoted(name: str, value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError as exc:
        raise InvalidEnvelope(name, "is not UTF-8") from exc
