"""Adds records to a topic outside the caller's transaction: for REST, the TinyQ protocol, and by hand.

The limits are those of `publish`, and the topic's own `max.message.bytes`. With a token the same records are
added once: each record is the only batch of a producer named by the token, so the log compares and remembers
it under its own locks, and a repetition returns the offsets of the first call.

| part of the producer | value                                                                          |
|----------------------|--------------------------------------------------------------------------------|
| id                   | `token:`, topic id, hash of the token, number of the record                    |
| epoch                | the time of its first use in ms, so that old tokens can be deleted             |
| sequence             | a hash of the number of records and this record's content without its trace    |
|                      | header; always even, so that other content is never the next batch             |
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.errors import InvalidInput, OutOfSequence, ProducerFenced, TokenReused, ValueTooLarge
from penstock.log.contract import Batch, Position, Producer, Topic
from penstock.log.entry import Content, key_bytes
from penstock.log.store import Store
from penstock.model.ids import new_id
from penstock.model.limits import (
    MOST_RECORDS,
    NAME_CHARACTERS,
    LimitsSettings,
    check_headers,
    check_key,
    check_moment,
    check_type,
)
from penstock.model.record import TOKEN, TRACEPARENT, RawHeaders
from penstock.model.token import GivenToken, Token, check_token, digest
from penstock.outbox.tokens import TokensSettings
from penstock.wire.kafka.headers import encode_headers

from . import audit
from .operation import operation

_KIND = "token:"


class RecordWanted(msgspec.Struct, frozen=True):
    """A record to add. Without an id it gets a new one; without a time, the current time."""

    value: bytes | None
    type: str | None = None
    key: str | None = None
    headers: RawHeaders = ()
    id: str | None = None
    timestamp_ms: int | None = None


class AppendedRecord(msgspec.Struct, frozen=True):
    """The position of a record. `id` is None if the record of a repetition is no longer in the log."""

    partition: int
    offset: int
    id: str | None


@operation
def produce(
    store: Store,
    topic: str,
    records: Sequence[RecordWanted],
    *,
    partition: int | None = None,
    token: GivenToken | None = None,
    limits: LimitsSettings | None = None,
    clock: Clock = SYSTEM,
) -> list[AppendedRecord]:
    """Add records to a topic, in order per key; return their positions once they are durable.

    Adds all or none, except that a log in files may keep some of them if the process dies meanwhile; with a
    token, a repetition adds the rest. Raises InvalidInput and its subclasses, UnknownTopic, UnknownPartition,
    and TokenReused if the token was used for other records.
    """
    limits, now_ms = limits or LimitsSettings.load(), clock.now_ms()
    if len(records) > MOST_RECORDS:
        raise InvalidInput(f"{len(records)} records at once; send {MOST_RECORDS} or fewer")
    checked = _checked(records, limits, partition)
    _check_bound(store, topic, checked, clock)
    if token is None and checked:  # the log itself finds the topic and waits for durability
        contents = _contents(checked, now_ms)
        (positions,) = store.log.append_all([Batch(topic, contents, partition)])
        return _appended(positions, contents)
    known = store.log.topic(topic)
    if token is None or not checked:
        return []
    used = check_token(token, topic)
    positions = _append_once(store, known, checked, partition, used, now_ms)
    for last in dict(positions).items():  # the last one in each partition
        store.log.durable(known, Position(*last))
    found = {(each.partition, each.offset): each.id for each in store.log.at(known, positions, bare=True)}
    return [AppendedRecord(*place, found.get(place)) for place in positions]


@operation
def publish_by_hand(
    store: Store,
    topic: str,
    record: RecordWanted,
    *,
    token: GivenToken,
    dry_run: bool = False,
    actor: str | None = None,
    clock: Clock = SYSTEM,
) -> AppendedRecord | None:
    """Add one record as `produce` does, and write an audit entry; a dry run returns None.

    The entry follows the record: if the process dies in between, a repetition with the same token adds no
    record and writes the entry.
    """
    if dry_run:
        store.log.topic(topic)
        check_token(token, topic)
        _check_bound(store, topic, _checked([record], LimitsSettings.load(), None), clock)
        return None
    (added,) = produce(store, topic, [record], token=token, clock=clock)
    subject = {"topic": topic, "partition": added.partition, "offset": added.offset, "id": added.id}
    store.database.run(lambda tx: audit.write(tx, "publish", subject, 1, own_ms(clock), actor=actor))
    return added


@operation
def produce_at_once(
    store: Store,
    topic: str,
    records: Sequence[RecordWanted],
    *,
    limits: LimitsSettings,
    partition: int | None = None,
    clock: Clock = SYSTEM,
) -> list[AppendedRecord] | None:
    """Add records as `produce` does, without a token, if that needs no waiting; None: call `produce`.

    For event loops. Raises InvalidInput and its subclasses.
    """
    if not records or not store.log.appends_at_once or not store.bounds.are_known(clock.monotonic()):
        return None
    checked = _checked(records, limits, partition)
    _check_bound(store, topic, checked, clock)
    contents = _contents(checked, clock.now_ms())
    found = store.log.append_at_once([Batch(topic, contents, partition)])
    return None if found is None else _appended(found[0], contents)


@operation
def forget_tokens(store: Store, *, clock: Clock = SYSTEM) -> int:
    """Delete tokens first used before the window, in short transactions; return how many."""
    before_ms = clock.now_ms() - TokensSettings.load().window // timedelta(milliseconds=1)
    count = 0
    while more := store.log.trim_producers(_KIND, before_ms):
        count += more
    return count


def _appended(positions: Sequence[Position], contents: Sequence[Content]) -> list[AppendedRecord]:
    return [AppendedRecord(*place, each.id) for place, each in zip(positions, contents, strict=True)]


def _append_once(
    store: Store, topic: Topic, records: Sequence[RecordWanted], partition: int | None, token: Token, now_ms: int
) -> list[Position]:
    epoch, mark = now_ms, (TOKEN, token.data)
    contents = _contents([msgspec.structs.replace(each, headers=(*each.headers, mark)) for each in records], now_ms)
    while True:
        producers = [_producer(topic, token, number, epoch, records, partition) for number in range(len(records))]
        pairs = zip(contents, producers, strict=True)
        try:
            batches = [Batch(topic.name, [content], partition, producer) for content, producer in pairs]
            return [place for (place,) in store.log.append_all(batches)]
        except OutOfSequence as exc:
            first = store.log.last_batch(producers[0].id)
            id = first.ids[0] if first is not None and first.ids else "of another number of records"
            raise TokenReused(token.given, topic.name, id) from exc
        except ProducerFenced:  # the earlier call's clock was ahead of ours
            known = [store.log.last_batch(each.id) for each in producers]
            epoch = max([epoch + 1, *(last.epoch for last in known if last is not None)])


def _producer(
    topic: Topic, token: Token, number: int, epoch: int, records: Sequence[RecordWanted], partition: int | None
) -> Producer:
    record = records[number]
    texts = f"{len(records)}/{partition}/{record.timestamp_ms}", record.id, record.type, record.key
    # The header of the span does not identify a repetition, since each attempt has its own.
    headers = [each for each in record.headers if each[0] != TRACEPARENT]
    hashed = digest(
        *(None if text is None else text.encode() for text in texts),
        record.value,
        *(part for name, value in headers for part in (name.encode(), value)),
    )
    sequence = int.from_bytes(hashed[:8], "big") >> 1 & ~1
    return Producer(f"{_KIND}{topic.id}:{token.hash.hex()}:{number}", epoch, sequence)


def _checked(records: Sequence[RecordWanted], limits: LimitsSettings, partition: int | None) -> list[RecordWanted]:
    """Return the records as they are stored. Headers equal to the previous record's are checked once."""
    checked: list[RecordWanted] = []
    given: RawHeaders = ()
    kept: RawHeaders = ()
    for each in records:
        if each.type is not None:
            check_type(each.type)
        if each.key is not None:
            check_key(each.key)
            if partition is not None:
                raise InvalidInput("the key determines a record's partition; omit the partition or the key")
        if each.id is not None and not (0 < len(each.id) <= NAME_CHARACTERS and each.id.isprintable()):
            raise InvalidInput(f"an id has 1 to {NAME_CHARACTERS} printable characters")
        if each.value is not None and len(each.value) > limits.event_bytes:
            raise ValueTooLarge(each.type or "a record", len(each.value), limits.event_bytes)
        if each.timestamp_ms is not None:
            check_moment("time", from_ms(each.timestamp_ms), 0)
        if each.headers != given:
            given, kept = each.headers, check_headers(each.headers, limits)
        checked.append(each if kept == given else msgspec.structs.replace(each, headers=kept))
    return checked


def _check_bound(store: Store, topic: str, records: Sequence[RecordWanted], clock: Clock) -> None:
    if not store.bounds.are_known(clock.monotonic()):
        store.bounds.refresh(clock.monotonic())
    bound = store.bounds.of(topic)
    if bound is None:
        return
    for each in records:
        size = len(each.value or b"") + len(key_bytes(each.key) or b"")
        size += sum(len(name.encode()) + len(value or b"") for name, value in each.headers)
        if size > bound:
            raise ValueTooLarge("a record", size, bound, topic)


def _contents(records: Sequence[RecordWanted], now_ms: int) -> list[Content]:
    contents: list[Content] = []
    headers: RawHeaders = ()
    encoded: bytes | None = None
    for each in records:
        if each.headers != headers:
            headers = each.headers
            encoded = encode_headers(headers) if headers else None
        moment = now_ms if each.timestamp_ms is None else each.timestamp_ms
        id = each.id or new_id(now_ms)
        contents.append(Content(id, key_bytes(each.key), each.type, each.value, encoded, moment))
    return contents
