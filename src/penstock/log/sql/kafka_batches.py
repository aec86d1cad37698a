"""Kafka's batches as rows, and rows as Kafka's batches, outside any transaction.

From a producer: its batches are checked, unpacked and decoded. A record keeps its headers unchanged. CloudEvent
headers set its fields: `ce_id` its id, `ce_type` its type; without them it gets a new id and no type.

For a consumer: rows are encoded as one batch. A published event gets the headers of a CloudEvent before its own; one
from the Kafka port keeps its headers. Erased records are left out, and the batch spans their offsets.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from penstock.database.contract import Row
from penstock.errors import BatchTooLarge, Error, ForeignPartition, InvalidBatch
from penstock.model.cloudevents import to_kafka
from penstock.model.ids import new_id
from penstock.model.limits import ERASED
from penstock.model.partition import MURMUR3, partition_of
from penstock.model.record import RawHeaders
from penstock.wire.kafka import record_batch
from penstock.wire.kafka.headers import decode_headers, encode_headers
from penstock.wire.kafka.record_batch import HEADER_BYTES, BatchHeader
from penstock.wire.kafka.records import KafkaRecord, TooManyBytes, decode_records, encode_records, unpacked

from ..batches import Write
from ..entry import Content, Entry, event_names, readable
from .append import columns

LEADER_EPOCH = 0  # the database is the only leader
_key_of = itemgetter(1)  # the key of a row


class Incoming(NamedTuple):
    """One batch: its header, its records as rows, and their times."""

    header: BatchHeader
    rows: list[Row]
    times_ms: list[int]


class TakenWrite(NamedTuple):
    """One write: its batches, or its refusal. `foreign`: the partition in which a key belongs instead."""

    write: Write
    batches: Sequence[Incoming] = ()
    error: Error | None = None
    foreign: int | None = None

    def among(self, partitions: int) -> "TakenWrite":
        """Return it checked against the present number of partitions, as the topic may have grown."""
        if partitions == self.write.topic.partitions or self.write.topic.partitioner != MURMUR3:
            return self
        keys = (_key_of(row) for batch in self.batches for row in batch.rows)
        return self._replace(foreign=_foreign(keys, partitions, self.write.partition))

    def refusal(self) -> ForeignPartition:
        """Return the error for a foreign key."""
        return ForeignPartition(self.write.topic.name, self.write.partition, self.foreign or 0)


def take(write: Write, now_ms: int, limit: int) -> TakenWrite:
    """Return a decoded write; `limit`: most bytes of its unpacked records."""
    topic, partition = write.topic, write.partition
    found, left, foreign = list[Incoming](), limit, None
    try:
        for position, header in record_batch.batches_in(write.batches):
            record_batch.check_produced(header)
            whole = memoryview(write.batches)[position : position + header.size]
            plain = unpacked(whole, header, left)
            left -= len(plain)
            if left < 0:
                raise TooManyBytes
            records = list(decode_records(plain))
            if len(records) != header.record_count:
                expected, count = header.record_count, len(records)
                raise InvalidBatch(f"it has {count} records, and its header says {expected}")
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
        return TakenWrite(write, error=InvalidBatch("an idempotent producer sends one at a time to a partition"))
    return TakenWrite(write, found, foreign=foreign)


def _foreign(keys: Iterable[bytes | None], partitions: int, partition: int) -> int | None:
    """Return the right partition of the first key that does not belong here, if any."""
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


def encode_entries(topic: str, source: str, entries: Sequence[Entry], first: int, end: int) -> bytearray:
    """Return entries as one batch that spans the offsets from `first` to before `end`."""
    batch = encode_records(_records(topic, source, entries), first)
    header = record_batch.read_header(batch)
    wanted = end - first - 1
    if header.last_offset_delta != wanted:
        batch = record_batch.sealed(header._replace(last_offset_delta=wanted), memoryview(batch)[HEADER_BYTES:])
    record_batch.place_batch(batch, 0, first, LEADER_EPOCH)
    return batch


def _records(topic: str, source: str, entries: Sequence[Entry]) -> Iterator[KafkaRecord]:
    for each in entries:
        if each.type != ERASED:
            headers = list(_headers(topic, source, each))
            yield KafkaRecord(each.offset, each.timestamp_ms, each.key, each.value, headers)


def _headers(topic: str, source: str, entry: Entry) -> RawHeaders:
    if entry.type is None:
        return decode_headers(entry.headers) if entry.headers else ()
    record, _ = readable(topic, entry)
    if any(name == "ce_type" for name, _ in record.raw_headers):
        return record.raw_headers
    return to_kafka(record, source)
