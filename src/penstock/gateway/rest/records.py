"""Records: publish one or many, as CloudEvents or plain; read from an offset on; browse; follow a key."""

from typing import Any

import msgspec

from penstock.access.resource import CLUSTER, AccessRight, topic
from penstock.errors import InvalidInput
from penstock.log.contract import LAST_OFFSET
from penstock.model import cloudevents
from penstock.model.cloudevents import BATCH, STRUCTURED
from penstock.model.content import BINARY, JSON
from penstock.model.record import TRACEPARENT, Record
from penstock.model.token import TOKEN_LENGTH
from penstock.operate import key_course
from penstock.operate.browse import NEWEST, OLDEST, Browsed, BrowseStart
from penstock.operate.browse import browse as page_of
from penstock.operate.key_course import KeyCourse
from penstock.operate.producer import AppendedRecord, RecordWanted

from ..door import SMALL_BYTES, with_trace
from .answers import RecordShown, record_shown
from .call import RestCall
from .operations import CONVERT_TO, PARTITION, TOPIC, Operations, Parameter, RestAnswer, moment, narrowing
from .requests import in_query

_PATH = "/v1/topics/{topic}/records"
_BEGIN = "Where a page begins: newest, oldest, an offset, or a moment as 2026-11-16T02:00Z."
_NO_TIME = -(1 << 62)  # for an event without a time, so that a repetition is equal; no event has it
_EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["specversion", "id", "type", "source"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1, "maxLength": 255},
        "type": {"type": "string", "minLength": 1, "maxLength": 255},
        "source": {"type": "string", "minLength": 1},
        "time": {"type": "string", "format": "date-time"},
        "datacontenttype": {"type": "string"},
        "partitionkey": {"type": "string", "minLength": 1, "maxLength": 255},
        "data": {},
        "data_base64": {"type": "string", "contentEncoding": "base64"},
    },
}

RECORDS = Operations("records")


class Published(msgspec.Struct):
    """The offsets of the records, in the order in which they were sent."""

    records: list[AppendedRecord]


class RecordsRead(msgspec.Struct):
    """Records from an offset on. `next_offset`: the next to read; the partition holds `start` to `end`."""

    records: list[RecordShown]
    next_offset: int
    start: int
    end: int


class RecordsBrowsed(msgspec.Struct):
    """A page of records. `unread`: ids of records whose values did not fit into the page.

    `scanned`: how many were examined; `is_cut`: the filter stopped early on this page.
    """

    records: list[RecordShown]
    unread: list[str]
    after: str | None
    scanned: int
    is_cut: bool


@RECORDS.add(
    "POST",
    _PATH,
    TOPIC,
    Parameter("key", help="The key of a plain record.", longest=255),
    Parameter("type", help="The event type of a plain record.", longest=255),
    CONVERT_TO,
    Parameter("tombstone", bool, "A plain record without a value.", default=False),
    Parameter("partition", int, "Where records without a key go.", least=0, most=9_999),
    Parameter(
        "idempotency-key",
        help="The token of the request: sent again with it, the same records are added once.",
        place="header",
        longest=TOKEN_LENGTH,
    ),
    takes={STRUCTURED: _EVENT, BATCH: {"type": "array", "items": _EVENT}, JSON: {}, BINARY: {}},
    answers={201: Published},
)
async def publish(call: RestCall) -> RestAnswer:
    """Add one record or many; answered once they are durable."""
    name = call.of("topic", str)
    call.allow(AccessRight.WRITE, topic(name))
    if in_query(call.request, "at") is not None:  # ignored, it would be published at once
        raise InvalidInput(
            "parameter at is not supported here: records are added at once; schedule an event in a program "
            "with an outbox in a database: outbox.publish(conn, ..., at=...)"
        )
    call.admit(name)
    is_long = len(call.body) > SMALL_BYTES or call.conversion  # parsing takes long, or asks the store
    records = await call.door.in_thread(lambda: _wanted(call, name)) if is_long else _wanted(call, name)
    partition, token = call.get("partition", int), call.get("idempotency-key", str)
    return RestAnswer(Published(await call.door.add(name, records, partition=partition, token=token)), 201)


def _wanted(call: RestCall, name: str) -> list[RecordWanted]:
    convert, convert_to = call.door.conversion.published, call.conversion
    trace = call.headers.get(TRACEPARENT)
    sent = None if trace is None else trace.encode("latin-1")
    return [convert(name, with_trace(each, sent), convert_to) for each in _records(call)]


def _records(call: RestCall) -> list[RecordWanted]:
    headers, body = call.headers, call.body
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == BATCH:
        return [_of_event(each) for each in cloudevents.from_batch(body, _NO_TIME)]
    if content_type == STRUCTURED:
        return [_of_event(cloudevents.from_structured(body, _NO_TIME))]
    if cloudevents.is_binary(headers):
        return [_of_event(cloudevents.from_binary(headers, body, _NO_TIME))]
    data = None if call.get("tombstone", bool) else body
    own = cloudevents.content_headers(headers.get("content-type", BINARY), data)
    return [RecordWanted(data, call.get("type", str), call.get("key", str), own)]


def _of_event(record: Record) -> RecordWanted:
    moment = None if record.timestamp_ms == _NO_TIME else record.timestamp_ms
    return RecordWanted(record.data, record.type, record.key, record.raw_headers, record.id, moment)


@RECORDS.add(
    "GET",
    "/v1/topics/{topic}/partitions/{partition}/records",
    TOPIC,
    PARTITION,
    Parameter("offset", int, "The first offset.", default=0, least=0, most=LAST_OFFSET),
    Parameter("limit", int, "Most records.", default=100, least=1, most=1000),
    CONVERT_TO,
    Parameter("max_bytes", int, "About how many bytes.", default=1 << 20, least=1, most=1 << 26),
)
def read(call: RestCall) -> RecordsRead:
    """Read records from an offset on; changes nothing."""
    name = call.of("topic", str)
    call.allow(AccessRight.READ, topic(name))
    call.admit(name)
    most = call.room(call.of("max_bytes", int))
    call.count(most)
    found = call.read(name, call.of("partition", int), call.of("offset", int), call.of("limit", int), most)
    return RecordsRead([call.shown(each) for each in found.records], *found[1:])


@RECORDS.add(
    "GET",
    _PATH,
    TOPIC,
    Parameter("from", help=_BEGIN, default=NEWEST, longest=64),
    Parameter("partition", int, "Only this one.", least=0, most=9_999),
    *narrowing(key="Only of this key.", type="Only of this type."),
    Parameter("after", help="The `after` of the page before.", longest=8192, pattern="^[A-Za-z0-9_-]*$"),
    Parameter("limit", int, "Most records.", default=50, least=1, most=200),
)
def browse(call: RestCall) -> RecordsBrowsed:
    """Show a page of a topic's records, across partitions."""
    found = browsed_records(call)
    records = [record_shown(each.record) for each in found.items]
    unread = [each.record.id for each in found.items if not each.has_value]
    return RecordsBrowsed(records, unread, found.after, found.scanned, found.is_cut)


def browsed_records(call: RestCall) -> Browsed:
    """Return a page of a topic's records, unconverted."""
    name = call.of("topic", str)
    call.allow(AccessRight.READ, topic(name))
    start, partition, limit = _start(call.of("from", str)), call.get("partition", int), call.of("limit", int)
    given = call.texts("key", "type", "after")
    return page_of(call.store, name, start=start, partition=partition, limit=limit, **given)


def _start(text: str) -> BrowseStart:
    if text in (NEWEST, OLDEST):
        return NEWEST if text == NEWEST else OLDEST
    if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= LAST_OFFSET:
        return int(text)
    return moment("from", text, f"{NEWEST}, {OLDEST}")


@RECORDS.add(
    "GET", "/v1/key", Parameter("key", help="The key.", required=True), Parameter("topic", help="Only on this topic.")
)
def show_key(call: RestCall) -> KeyCourse:
    """Show the last records of a key, and what each group has done with them."""
    of = call.get("topic", str)
    call.allow(AccessRight.DESCRIBE, CLUSTER)  # the answer names every group that reads the key
    call.allow_topic(of)
    return key_course.key_course(call.store, call.of("key", str), topic=of, seen=call.sees_topic, clock=call.door.clock)
