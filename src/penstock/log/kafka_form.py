"""Converts log records to Kafka records and back, for engines that store batches and for Kafka's clients.

Key, value and time are the record's own. The rest is in headers: first the attributes of a CloudEvent in
Kafka's binary form (`ce_specversion`, `ce_id`, `ce_type`, `ce_source`; its time is the record's), then the
owner tag, then the headers that it was published with. A record without a type is no CloudEvent and has its
id alone. Decode undoes encode; records of other programs keep every header that is not read here.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from penstock.errors import InvalidBatch, Undecodable
from penstock.model.record import Record
from penstock.wire.kafka import Buffer
from penstock.wire.kafka.headers import decode_headers, encode_headers
from penstock.wire.kafka.record_batch import read_header
from penstock.wire.kafka.records import KafkaRecord, TooManyBytes, decode_records, encode_records, unpacked

from .entry import Content, Entry, readable

ID, TYPE, SOURCE, VERSION = "ce_id", "ce_type", "ce_source", "ce_specversion"
OWNER = "penstock-owner"
RAW = "penstock-headers"  # headers that are not in Kafka's framing, as their original bytes
OUR_SOURCE = b"penstock"
UNPACKED_BYTES = 256 * 1024 * 1024  # most for the unpacked records of one batch
_IS_EVENT = (VERSION, b"1.0")
_IS_OURS = (SOURCE, OUR_SOURCE)
_SMALL_BYTES = 128  # headers up to this size are cached
_OF_KAFKA = "kafka"  # prefix of the id of a record that came without one


def encode_contents(contents: Sequence[Content]) -> bytearray:
    """Return records as one batch, at offset 0 until the log places it."""
    return encode_records(
        KafkaRecord(delta, each.timestamp_ms, each.key, each.value, kafka_headers(each))
        for delta, each in enumerate(contents)
    )


def entries_of(batch: Buffer, topic_id: int, partition: int) -> Iterator[Entry]:
    """Yield the records of one checked batch, with their owner tags. Raises InvalidBatch."""
    header = read_header(batch)
    if header.is_control or not header.record_count:
        return
    try:
        plain = unpacked(memoryview(batch), header, UNPACKED_BYTES)
    except TooManyBytes as exc:
        raise InvalidBatch(f"its records have more than {UNPACKED_BYTES} bytes") from exc
    for offset, timestamp_ms, key, value, headers in decode_records(plain):
        id, type, owner, rest = _fields_in(headers)
        yield Entry(
            partition, offset, id or given_id(topic_id, partition, offset), key, type, value, rest, timestamp_ms, owner
        )


def record_of_kafka(
    topic: str,
    place: tuple[int, int],
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> Record:
    """Return a record that a Kafka client received; its `id` is empty if the headers have none."""
    id, type, owner, rest = _fields_in(headers)
    return readable(topic, Entry(*place, id or "", key, type, value, rest, timestamp_ms, owner))[0]


def kafka_headers(content: Content) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record's Kafka form."""
    headers: list[tuple[str, bytes | None]] = [(ID, content.id.encode())]
    if content.type is not None:
        headers = [_IS_EVENT, *headers, (TYPE, content.type.encode()), _IS_OURS]
    if content.owner is not None:
        headers.append((OWNER, content.owner.encode()))
    if content.headers is not None:
        given = content.headers
        headers += _framed_before(given) if len(given) <= _SMALL_BYTES else _framed(given)
    return headers


def given_id(topic_id: int, partition: int, offset: int) -> str:
    """Return the id of a record that came without one, made from its position."""
    return f"{_OF_KAFKA}-{topic_id}-{partition}-{offset}"


def place_in(id: str) -> tuple[int, int, int] | None:
    """Undo `given_id`: return topic id, partition and offset; None for any other id."""
    kind, *numbers = id.split("-")
    if kind != _OF_KAFKA or len(numbers) != 3 or not all(each.isdecimal() for each in numbers):
        return None
    topic_id, partition, offset = map(int, numbers)
    return topic_id, partition, offset


def _framed(headers: bytes) -> Sequence[tuple[str, bytes | None]]:
    try:
        pairs = decode_headers(headers)
    except Undecodable:
        return [(RAW, headers)]
    return pairs if pairs and encode_headers(pairs) == headers else [(RAW, headers)]


_framed_before = lru_cache(maxsize=128)(_framed)  # most records of one source have the same few headers


def _fields_in(headers: Sequence[tuple[str, bytes | None]]) -> tuple[str | None, str | None, str | None, bytes | None]:
    """Return id, type and owner tag from a Kafka record's headers, and the other headers, framed."""
    id = type = owner = None
    rest: list[tuple[str, bytes | None]] = []
    for pair in headers:
        name, value = pair
        if name == ID and id is None and (text := _text(value)):
            id = text
        elif name == TYPE and type is None and (text := _text(value)):
            type = text
        elif pair in (_IS_EVENT, _IS_OURS) and pair not in rest:
            continue
        elif name == OWNER and owner is None and (text := _text(value)):
            owner = text
        elif name == RAW and value is not None and not rest:
            return id, type, owner, value
        else:
            rest.append(pair)
    return id, type, owner, encode_headers(tuple(rest)) if rest else None


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
