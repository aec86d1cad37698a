"""Messages and services, made at run time from the compiled description; records and the like as messages.

No code is generated: generated code runs only with the Protobuf release that made it or a later one, and the
description holds the same information. The messages live in a pool of their own, apart from any other in the process.
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from penstock.clock import to_ms
from penstock.errors import InvalidInput
from penstock.model.cloudevents import content_headers
from penstock.model.content import BINARY, CONTENT_TYPE, JSON
from penstock.model.record import RawHeaders
from penstock.model.record import Record as LogRecord
from penstock.operate.producer import RecordWanted
from penstock.operate.progress import Group as GroupListed
from penstock.operate.topics import TopicShown

from ..door import with_trace
from .problems import plain

PACKAGE = "penstock.v1"
SERVICES = ("Publishing", "Consuming", "Topics", "Groups", "Schemas")
COMPILED = "proto/penstock_gateway.binpb"

POOL = DescriptorPool()
for _file in FileDescriptorSet.FromString(files(__package__).joinpath(COMPILED).read_bytes()).file:
    POOL.Add(_file)


def message(name: str) -> Any:
    """Return the class of a message."""
    return GetMessageClass(POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def service(name: str) -> Any:
    """Return the description of a service: its methods, in order."""
    return POOL.FindServiceByName(f"{PACKAGE}.{name}")


Group, Header, Place, Record, Topic = map(message, ("Group", "Header", "Place", "Record", "Topic"))
PublishResponse, ReadResponse = message("PublishResponse"), message("ReadResponse")
SubscribeResponse = message("SubscribeResponse")


def wanted(event: Any, trace: bytes | None) -> RecordWanted:
    """Return the record to add for an event, with the trace of its call if it brings none of its own."""
    value = event.value if event.HasField("value") else None
    given: RawHeaders = tuple((each.name, _given(each, "value")) for each in event.headers)
    headers = (*content_headers(event.content_type or BINARY, value), *given)
    type, key, id, ms = (_given(event, name) for name in ("type", "key", "id", "timestamp_ms"))
    return with_trace(RecordWanted(value, type, key, headers, id, ms), trace)


def record_shown(record: LogRecord, *, delivered: bool = False, not_converted: str = "") -> Any:
    """Return a record as a message; `delivered`: with its attempts."""
    shown = Record(
        not_converted=plain(not_converted),
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        id=plain(record.id),
        timestamp_ms=record.timestamp_ms,
        type=None if record.type is None else plain(record.type),
        value=record.data,
        headers=[Header(name=plain(name), value=value) for name, value in record.raw_headers],
    )
    if record.key is not None:
        key = record.key.encode("utf-8", "surrogateescape")
        try:
            shown.key = key.decode()
        except UnicodeDecodeError:
            shown.key_bytes = key
    if record.data is not None:
        shown.content_type = record.headers.get(CONTENT_TYPE) or JSON
    if delivered:
        shown.attempt, shown.redelivered = record.attempt, record.redelivered
    return shown


def topic_shown(found: TopicShown) -> Any:
    """Return a topic as a message."""
    return Topic(
        name=found.name,
        partitions=found.partitions,
        records=found.records,
        groups=found.groups,
        created_ms=to_ms(found.created_at),
    )


def group_shown(found: GroupListed) -> Any:
    """Return a group as a message."""
    return Group(
        name=found.name,
        topics=found.topics,
        lag=found.lag,
        waiting=found.waiting,
        held=found.held,
        dead=found.dead,
        members=found.members,
        paused=found.paused_at is not None,
    )


def _given(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


# Messages within a message are a few bytes each, and large as objects. An empty event takes two bytes, so
# sixteen megabytes would be eight million objects: they are counted before the message is parsed.
MOST_PARTS = 100_000  # ten headers for each event that one request may hold
_LEAST_BYTES = 2 * MOST_PARTS  # fewer bytes cannot hold more parts
_FIXED = {1: 8, 5: 4}  # bytes of values by wire type
_VARINT, _LENGTH = 0, 2
_PartKinds = Mapping[int, Any]  # the fields that hold messages, and the fields of those


def check_parts(kind: Any, data: bytes) -> None:
    """Refuse a message with too many parts. Raises InvalidInput."""
    if len(data) >= _LEAST_BYTES and _counted(_parts_of(kind.DESCRIPTOR), data, 0, len(data), MOST_PARTS) < 0:
        raise InvalidInput(f"the message holds more than {MOST_PARTS} events and headers; send fewer at once")


def _counted(kinds: _PartKinds, data: bytes, at: int, end: int, left: int) -> int:
    """Return how many more parts are allowed; malformed bytes are found when parsing."""
    while at < end and left >= 0:
        tag, at = _varint(data, at, end)
        wire, number = tag & 7, tag >> 3
        if wire == _LENGTH:
            length, at = _varint(data, at, end)
            if number in kinds:
                left -= 1
                if kinds[number]:
                    left = _counted(kinds[number], data, at, min(at + length, end), left)
            at += length
        elif wire == _VARINT:
            _, at = _varint(data, at, end)
        elif wire in _FIXED:
            at += _FIXED[wire]
        else:
            return left
    return left


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    return number, end


@lru_cache(64)
def _parts_of(descriptor: Any) -> _PartKinds:
    return {
        field.number: _parts_of(field.message_type) for field in descriptor.fields if field.message_type is not None
    }
