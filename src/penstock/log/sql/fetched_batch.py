"""Encodes rows as one batch for consumers.

A record that was published as an event gets the headers of a CloudEvent before its own; one from the Kafka
port keeps its headers. Erased records are left out, and the batch spans their offsets.
"""

from collections.abc import Iterator, Sequence

from penstock.model.cloudevents import Envelope, to_kafka
from penstock.model.limits import ERASED
from penstock.model.record import RawHeaders
from penstock.wire.kafka.headers import decode_headers
from penstock.wire.kafka.record_batch import HEADER_BYTES, place_batch, read_header, sealed
from penstock.wire.kafka.records import KafkaRecord, encode_records

from ..entry import Entry, readable

LEADER_EPOCH = 0  # the database is the only leader


def encode_entries(topic: str, source: str, entries: Sequence[Entry], first: int, end: int) -> bytearray:
    """Return entries as one batch that spans the offsets from `first` to before `end`."""
    batch = encode_records(_records(topic, source, entries), first)
    header = read_header(batch)
    wanted = end - first - 1
    if header.last_offset_delta != wanted:
        batch = sealed(header._replace(last_offset_delta=wanted), memoryview(batch)[HEADER_BYTES:])
    place_batch(batch, 0, first, LEADER_EPOCH)
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
    return to_kafka(Envelope(record, source))
