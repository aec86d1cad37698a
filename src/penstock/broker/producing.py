"""Produce: what clients send goes to the log in the order it came, and is answered once durable."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.access import resource
from penstock.access.resource import AccessRight
from penstock.errors import Error, UnknownPartition, UnknownTopic
from penstock.log.batches import Write, WriteResult
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.hot import AnsweredPart, Produced, ProducedPart, decode_produce, encode_produced
from penstock.wire.kafka.record_batch import HEADER_BYTES, MAGIC, Compression

from .error_codes import number_of
from .session import Slot
from .topic_configs import MESSAGE_BYTES

if TYPE_CHECKING:
    from .broker import Broker

_MAGIC_AT, _ATTRIBUTES_AT, _CODEC_BITS = 16, 22, 0x07
_TRANSACTIONAL_BIT = 0x10
_FIRST_WITH_BATCHES, _FIRST_WITH_ZSTD = 3, 7


class Producing:
    """Answers Produce. Lives in the loop's thread; the log calls back from its own."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def begin(self, slot: Slot) -> None:
        """Hand what a request holds to the log. Raises InvalidRequest."""
        request = slot.request
        produced = decode_produce(request.data, request.version, request.at)
        answers: list[AnsweredPart | None] = []
        writes: list[Write] = []
        for part in produced.parts:
            found = self._checked(slot, produced, part)
            if isinstance(found, Write):
                writes.append(found)
            answers.append(None if isinstance(found, Write) else found)
        begun, batches = self._broker.clock.monotonic(), self._broker.batches
        alone = slot.session.pending == 1
        if alone and len(produced.parts) == len(writes) == 1:
            result = batches.write_at_once(writes[0])
            if result is not None:
                self._done(slot, produced, answers, begun, (result,))
                return
        done = partial(self._done, slot, produced, answers, begun)
        if writes:
            batches.write(writes, partial(self._written, done), alone=alone, source=slot.session)
        else:
            done(())

    def _written(self, done: Callable[[Sequence[WriteResult]], None], written: Sequence[WriteResult]) -> None:
        """Go on in the loop's thread; the log may have called from there."""
        if self._broker.is_loop_thread:
            done(written)
        else:
            self._broker.call_soon(done, written)

    def _checked(self, slot: Slot, produced: Produced, part: ProducedPart) -> Write | AnsweredPart:
        """Return what is written to a partition, or why nothing is."""
        number, message = ErrorNumber.NONE, None
        principal, access = slot.session.principal, self._broker.access
        name = produced.transactional_id
        if produced.acks not in (-1, 0, 1):
            number = ErrorNumber.INVALID_REQUIRED_ACKS
        elif name is not None and not access.allowed(
            principal, AccessRight.WRITE, resource.transaction(name)
        ):
            number = ErrorNumber.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif not access.allowed(principal, AccessRight.WRITE, resource.topic(part.topic)):
            number = ErrorNumber.TOPIC_AUTHORIZATION_FAILED
        elif slot.request.version < _FIRST_WITH_BATCHES:
            number, message = ErrorNumber.UNSUPPORTED_FOR_MESSAGE_FORMAT, None
        else:
            number, message = _form(slot.request.version, part)
            if number is ErrorNumber.NONE and name is None and _is_transactional(part):
                number = ErrorNumber.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                message = "a batch of a transaction needs its transactional id"
        if number is ErrorNumber.NONE:
            topic = self._broker.topics.by_name.get(part.topic)
            if topic is not None and 0 <= part.partition < topic.partitions:
                assert part.records is not None
                limit = self._broker.topics.batch_bytes.get(topic.id)
                if limit is None or len(part.records) <= limit:
                    return Write(topic, part.partition, part.records, name)
                message = f"it has {len(part.records)} bytes, and {MESSAGE_BYTES} of its topic is {limit}"
                return AnsweredPart(part.partition, int(ErrorNumber.MESSAGE_TOO_LARGE), message=message)
            error = (
                UnknownTopic(part.topic)
                if topic is None
                else UnknownPartition(topic.name, part.partition, topic.partitions)
            )
            self._broker.look_for_topics()
            number, message = number_of(error), str(error)
        return AnsweredPart(part.partition, int(number), message=message)

    def _done(
        self,
        slot: Slot,
        produced: Produced,
        answers: Sequence[AnsweredPart | None],
        begun: float,
        written: Sequence[WriteResult],
    ) -> None:
        measures = self._broker.measures
        measures.answered(self._broker.clock.monotonic() - begun)
        results = iter(written)
        for part, answer in zip(produced.parts, answers, strict=True):
            if answer is None and next(results).error is None and part.records is not None:
                measures.produced(part.topic, len(part.records))
        request = slot.request
        throttle_ms = self._broker.produce_quota.charge(request.client_id, len(request.data))
        if self._broker.access.has_limits:
            sent = [(each.topic, [each.records or b""]) for each in produced.parts]
            throttle_ms = max(throttle_ms, self._broker.charged(slot.session.principal, sent))
        if throttle_ms:
            measures.throttled(throttle_ms)
        if not produced.acks:
            # Nothing is answered; Kafka ends the connection so that the client sees that something failed.
            failed = any(each is not None for each in answers) or any(each.error for each in written)
            slot.leave(throttle_ms)
            if failed:
                slot.session.close()
            return
        rest = iter(written)
        topics: list[tuple[str, list[AnsweredPart]]] = []
        for part, answer in zip(produced.parts, answers, strict=True):
            if not topics or topics[-1][0] != part.topic:
                topics.append((part.topic, []))
            topics[-1][1].append(answer or _answered(part.partition, next(rest)))
        slot.fill([encode_produced(topics, request.version, throttle_ms)], throttle_ms)


def _form(version: int, part: ProducedPart) -> tuple[ErrorNumber, str | None]:
    """Return what is wrong with the form of some records, as far as their first bytes say."""
    records = part.records
    if records is None or len(records) < HEADER_BYTES:
        return ErrorNumber.INVALID_RECORD, "there is no record batch"
    if records[_MAGIC_AT] != MAGIC:
        return ErrorNumber.INVALID_RECORD, "only record batches of version 2 are taken"
    if version < _FIRST_WITH_ZSTD and records[_ATTRIBUTES_AT] & _CODEC_BITS == Compression.ZSTD:
        return ErrorNumber.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later"
    return ErrorNumber.NONE, None


def _is_transactional(part: ProducedPart) -> bool:
    """Return whether records are part of a transaction; a write of several batches has no producer."""
    return part.records is not None and bool(part.records[_ATTRIBUTES_AT] & _TRANSACTIONAL_BIT)


def _answered(partition: int, written: WriteResult) -> AnsweredPart:
    error: Error | None = written.error
    if error is not None:
        return AnsweredPart(partition, int(number_of(error)), start=written.start, message=str(error))
    return AnsweredPart(partition, 0, written.base_offset, written.timestamp_ms, written.start)
