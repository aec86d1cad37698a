"""Reading by offset, without a group."""

import msgspec

from penstock.access.resource import AccessRight, topic
from penstock.log.contract import LAST_OFFSET

from ..read_spans import tell_read
from .call import RestCall
from .operations import CONVERT_TO, PARTITION, TOPIC, Operation, Parameter
from .shapes import RecordShown


class RecordsRead(msgspec.Struct):
    """Records from an offset on. `next_offset`: the next to read; the partition holds `start` to `end`."""

    records: list[RecordShown]
    next_offset: int
    start: int
    end: int


def read(call: RestCall) -> RecordsRead:
    """Return records of a partition from an offset on; fewer than requested if they are large."""
    name, partition = call.of("topic", str), call.of("partition", int)
    call.allow(AccessRight.READ, topic(name))
    call.admit(name)
    log, offset, limit = call.store.log, call.of("offset", int), call.of("limit", int)
    most = call.room(call.of("max_bytes", int))
    call.count(most)
    since_ms = call.api.clock.now_ms()
    records = log.read(name, partition, offset, limit, max_bytes=most)
    tell_read(name, records, since_ms)
    call.charge(name, records)
    following = records[-1].offset if records else None
    bounds = log.bounds(name, partition)
    at = offset if following is None else following + 1
    return RecordsRead([call.shown(each) for each in records], at, *bounds)


READING = (
    Operation(
        method="GET",
        path="/v1/topics/{topic}/partitions/{partition}/records",
        id="read",
        summary="Read records from an offset on; changes nothing.",
        tag="records",
        call=read,
        parameters=(
            TOPIC,
            PARTITION,
            Parameter("offset", int, "The first offset.", default=0, least=0, most=LAST_OFFSET),
            Parameter("limit", int, "Most records.", default=100, least=1, most=1000),
            CONVERT_TO,
            Parameter("max_bytes", int, "About how many bytes.", default=1 << 20, least=1, most=1 << 26),
        ),
        answers={200: RecordsRead},
    ),
)
