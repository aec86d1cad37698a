"""What producers send, on its way into rows: batches checked, unpacked and decoded, outside any transaction.

A record keeps its headers as they came. What they say as a CloudEvent is taken over: `ce_id` is its id,
`ce_type` its type; without them the id is made here and there is no type.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

from penstock.errors import BatchTooLarge, Error, ForeignPartition, InvalidBatch
from penstock.model.ids import new_id
from penstock.model.limits import ERASED
from penstock.model.partition import MURMUR3, partition_of
from penstock.wire.kafka.compression import TooManyBytes, unpacked
from penstock.wire.kafka.headers import encode_headers
from penstock.wire.kafka.record_batch import BatchHeader, batches_in, check_produced
from penstock.wire.kafka.records import KafkaRecord, decode_records

from ..batches import Write
from ..entry import Content
from ..event_names import event_names
from .appending import columns
from .contract import Row

_key_of = itemgetter(1)  # of a row


class Incoming(NamedTuple):
    """One batch: its header, its records as columns of a row, and the latest of their times."""

    header: BatchHeader
    rows: list[Row]
    times_ms: list[int]


class TakenWrite(NamedTuple):
    """One write: its batches, or why it is refused. `foreign`: a key that the topic would put elsewhere."""

    write: Write
    batches: Sequence[Incoming] = ()
    error: Error | None = None
    foreign: int | None = None

    def among(self, partitions: int) -> "TakenWrite":
        """Return it judged by the topic's present number of partitions, as it may have grown meanwhile."""
        if partitions == self.write.topic.partitions or self.write.topic.partitioner != MURMUR3:
            return self
        keys = (_key_of(row) for batch in self.batches for row in batch.rows)
        return self._replace(foreign=_foreign(keys, partitions, self.write.partition))

    def refusal(self) -> ForeignPartition:
        """Return what is said of a foreign key."""
        return ForeignPartition(self.write.topic.name, self.write.partition, self.foreign or 0)


def take(write: Write, now_ms: int, limit: int) -> TakenWrite:
    """Return a write decoded; `limit`: how many bytes its records may have, unpacked."""
    topic, partition = write.topic, write.partition
    found, left, foreign = list[Incoming](), limit, None
    try:
        for position, header in batches_in(write.batches):
            check_produced(header)
            whole = memoryview(write.batches)[position : position + header.size]
            plain = unpacked(whole, header, left)
            left -= len(plain)
            if left < 0:
                raise TooManyBytes
            records = list(decode_records(plain))
            if len(records) != header.record_count:
                said, there = header.record_count, len(records)
                raise InvalidBatch(f"it has {there} records, and its header says {said}")
            if topic.partitioner == MURMUR3 and foreign is None:
                foreign = _foreign((each.key for each in records), topic.partitions, partition)
            contents = [_content(each, now_ms) for each in records]
            rows = [columns(each) for each in contents]
            found.append(Incoming(header, rows, [each.timestamp_ms for each in contents]))
    except TooManyBytes:
        return TakenWrite(write, error=BatchTooLarge(topic.name, partition, limit, limit))
    except Error as exc:
        return TakenWrite(write, error=exc)
    if not found:
        return TakenWrite(write, error=InvalidBatch("there is none"))
    if len(found) > 1 and any(each.header.producer_id >= 0 for each in found):
        return TakenWrite(
            write, error=InvalidBatch("an idempotent producer sends one at a time to a partition")
        )
    return TakenWrite(write, found, foreign=foreign)


def _foreign(keys: Iterable[bytes | None], partitions: int, partition: int) -> int | None:
    """Return where the topic would put the first key that does not belong here, if there is one."""
    for key in keys:
        if key is not None:
            own = partition_of(key, partitions)
            if own != partition:
                return own
    return None


def _content(record: KafkaRecord, now_ms: int) -> Content:
    _, timestamp_ms, key, value, headers = record
    id, type = event_names(headers)
    time_ms = timestamp_ms if timestamp_ms >= 0 else now_ms
    framed = encode_headers(headers) if headers else None  # type: ignore[arg-type]
    return Content(id or new_id(now_ms), key, None if type == ERASED else type, value, framed, time_ms)
