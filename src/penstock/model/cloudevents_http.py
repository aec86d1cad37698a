"""CloudEvents 1.0 over HTTP: the form of a request, and the events in it.

| form       | content type                          | attributes                                          |
|------------|---------------------------------------|-----------------------------------------------------|
| binary     | that of the data                      | headers `ce-…`, percent-encoded; data is the body   |
| structured | `application/cloudevents+json`        | members of the JSON object                          |
| batch      | `application/cloudevents-batch+json`  | an array of such objects                            |

`partitionkey` is the record's key. Extensions become headers `ce_…`, as in the Kafka binding. Codecs without
I/O.
"""

from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

from penstock.errors import InvalidEnvelope, InvalidInput

from .cloudevents import from_json, parse_time
from .content import BINARY, CONTENT_TYPE, JSON
from .limits import MOST_RECORDS
from .record import RawHeaders, Record

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
_ATTRIBUTES = frozenset({"specversion", "id", "type", "source", "time", "datacontenttype", "partitionkey"})
_MEMBERS = _ATTRIBUTES | {"data", "data_base64"}


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
