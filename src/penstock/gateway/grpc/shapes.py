"""Records, topics and groups as messages; events as records to add."""

from typing import Any

from penstock.clock import to_ms
from penstock.model.cloudevents_http import content_headers
from penstock.model.content import BINARY, CONTENT_TYPE, JSON
from penstock.model.record import TRACEPARENT, RawHeaders
from penstock.model.record import Record as LogRecord
from penstock.operate.producer import AppendedRecord, RecordWanted
from penstock.operate.progress import Group as GroupListed
from penstock.operate.topics import TopicShown

from .messages import Group, Header, Place, Record, Topic
from .problems import plain


def wanted(event: Any, trace: bytes | None) -> RecordWanted:
    """Return the record to add for an event, with the trace of its call if it brings none of its own."""
    value = event.value if event.HasField("value") else None
    given: RawHeaders = tuple((each.name, _given(each, "value")) for each in event.headers)
    headers = (*content_headers(event.content_type or BINARY, value), *given)
    if trace is not None and not any(name in (TRACEPARENT, f"ce_{TRACEPARENT}") for name, _ in headers):
        headers = (*headers, (TRACEPARENT, trace))
    return RecordWanted(
        value,
        _given(event, "type"),
        _given(event, "key"),
        headers,
        _given(event, "id"),
        _given(event, "timestamp_ms"),
    )


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
