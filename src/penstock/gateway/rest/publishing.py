"""Publishing: one record or many, as CloudEvents or plain."""

import asyncio
from typing import Any

import msgspec

from penstock.access.resource import AccessRight, topic
from penstock.errors import InvalidInput
from penstock.model.cloudevents_http import (
    BATCH,
    STRUCTURED,
    content_headers,
    from_batch,
    from_binary,
    from_structured,
    is_binary,
)
from penstock.model.content import BINARY, JSON
from penstock.model.record import TRACEPARENT, Record
from penstock.model.token import TOKEN_LENGTH
from penstock.operate.producer import AppendedRecord, RecordWanted

from ..adding import SMALL_BYTES
from .addresses import in_query
from .call import RestCall
from .operations import CONVERT_TO, TOPIC, Operation, Parameter, RestAnswer

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


class Published(msgspec.Struct):
    """The offsets of the records, in the order in which they were sent."""

    records: list[AppendedRecord]


async def publish(call: RestCall) -> RestAnswer:
    """Add the records of a request to a topic; answered once they are durable."""
    name = call.of("topic", str)
    call.allow(AccessRight.WRITE, topic(name))
    if in_query(call.request, "at") is not None:  # ignored, it would be published at once
        raise InvalidInput(
            "parameter at is not supported here: records are added at once; schedule an event in a program "
            "with an outbox in a database: outbox.publish(conn, ..., at=...)"
        )
    call.admit(name)
    if len(call.body) > SMALL_BYTES or call.conversion:  # parsing takes long, or asks the store
        work = asyncio.get_running_loop().run_in_executor
        records = await work(call.api.threads, _wanted, call, name)
    else:
        records = _wanted(call, name)
    partition, token = call.get("partition", int), call.get("idempotency-key", str)
    added = await call.api.adding.add(name, records, partition=partition, token=token)
    call.api.tokens.tend()
    return RestAnswer(Published(added), 201)


def _wanted(call: RestCall, name: str) -> list[RecordWanted]:
    convert, convert_to = call.api.conversion.published, call.conversion
    return [convert(name, _traced(each, call), convert_to) for each in _records(call)]


def _records(call: RestCall) -> list[RecordWanted]:
    """Return the records of a request, by its content type. Raises InvalidEnvelope."""
    headers, body = call.headers, call.body
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == BATCH:
        return [_of_event(each) for each in from_batch(body, _NO_TIME)]
    if content_type == STRUCTURED:
        return [_of_event(from_structured(body, _NO_TIME))]
    if is_binary(headers):
        return [_of_event(from_binary(headers, body, _NO_TIME))]
    data = None if call.get("tombstone", bool) else body
    own = content_headers(headers.get("content-type", BINARY), data)
    return [RecordWanted(data, call.get("type", str), call.get("key", str), own)]


def _of_event(record: Record) -> RecordWanted:
    moment = None if record.timestamp_ms == _NO_TIME else record.timestamp_ms
    return RecordWanted(record.data, record.type, record.key, record.raw_headers, record.id, moment)


def _traced(record: RecordWanted, call: RestCall) -> RecordWanted:
    """Return a record with the trace of the request, if it brings none of its own."""
    trace = call.headers.get(TRACEPARENT)
    if trace is None or any(name in (TRACEPARENT, f"ce_{TRACEPARENT}") for name, _ in record.headers):
        return record
    headers = (*record.headers, (TRACEPARENT, trace.encode("latin-1")))
    return RecordWanted(record.value, record.type, record.key, headers, record.id, record.timestamp_ms)


PUBLISHING = (
    Operation(
        method="POST",
        path="/v1/topics/{topic}/records",
        id="publish",
        summary="Add one record or many; answered once they are durable.",
        tag="records",
        call=publish,
        parameters=(
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
        ),
        takes={STRUCTURED: _EVENT, BATCH: {"type": "array", "items": _EVENT}, JSON: {}, BINARY: {}},
        answers={201: Published},
    ),
)
