"""Messages and services, made at run time from the compiled description; records and the like as messages.

No code is generated: generated code runs only with the Protobuf release that made it or a later one, and the
description holds the same information. The messages live in a pool of their own, apart from any other in the
process.
"""

from importlib.resources import files
from typing import Any

from penstock.clock import to_ms
from penstock.errors import MissingExtra
from penstock.model.cloudevents import content_headers
from penstock.model.content import BINARY, CONTENT_TYPE, JSON
from penstock.model.record import RawHeaders
from penstock.model.record import Record as LogRecord
from penstock.operate.producer import AppendedRecord, RecordWanted
from penstock.operate.progress import Group as GroupListed
from penstock.operate.topics import TopicShown

from ..call import with_trace
from .problems import plain

try:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass
except ImportError as exc:
    raise MissingExtra("serving gRPC", "grpc") from exc

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


Group = message("Group")
Header = message("Header")
Place = message("Place")
PublishResponse = message("PublishResponse")
ReadResponse = message("ReadResponse")
Record = message("Record")
SubscribeResponse = message("SubscribeResponse")
Topic = message("Topic")


def wanted(event: Any, trace: bytes | None) -> RecordWanted:
    """Return the record to add for an event, with the trace of its call if it brings none of its own."""
    value = event.value if event.HasField("value") else None
    given: RawHeaders = tuple((each.name, _given(each, "value")) for each in event.headers)
    headers = (*content_headers(event.content_type or BINARY, value), *given)
    type, key, id, ms = (_given(event, name) for name in ("type", "key", "id", "timestamp_ms"))
    return with_trace(RecordWanted(value, type, key, headers, id, ms), trace)


def place_shown(found: AppendedRecord) -> Any:
    """Return the partition and offset of a record."""
    return Place(partition=found.partition, offset=found.offset, id=found.id)


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
