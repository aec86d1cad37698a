"""Produce: records of clients go to the log in order of arrival, and are answered once durable."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import NamedTuple

from penstock.access import resource
from penstock.access.resource import AccessRight
from penstock.errors import Error, UnknownPartition, UnknownTopic
from penstock.log.batches import Write, WriteResult
from penstock.log.topics import MESSAGE_BYTES
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.hot import AnsweredPart, Produced, ProducedPart, decode_produce, encode_produced
from penstock.wire.kafka.record_batch import HEADER_BYTES, MAGIC, Compression
from penstock.wire.kafka.stepwise import CodecSteps

from .core import BrokerCore
from .error_codes import number_of
from .session import Slot

_MAGIC_AT, _ATTRIBUTES_AT, _CODEC_BITS = 16, 22, 0x07
_TRANSACTIONAL_BIT = 0x10
_FIRST_WITH_BATCHES, _FIRST_WITH_ZSTD = 3, 7
_STEP_PARTS, _MANY = 16, 32  # parts in one step; writes handed to the log in one step


class ProduceBegun(NamedTuple):
    """A request in progress: for each part its answer, or None if it is a write; and the start time."""

    produced: Produced
    answers: list[AnsweredPart | None]
    writes: list[Write]
    at: float


class ProduceHandler:
    """Answers Produce. Lives in the loop's thread; the log calls back from its own."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker = broker

    def begin(self, slot: Slot) -> None:
        """Hand the records of a request to the log. Raises InvalidRequest."""
        steps, batches = self._sorted_out(slot), self._broker.batches
        ended = self._broker.slices.at_once(steps)
        found = None if ended is None else ended[0]
        if found is None or len(found.writes) > _MANY or not all(map(batches.is_quick, found.writes)):
            slot.session.is_held_back = True
            self._broker.spawn(slot, self._begin_long(slot, steps, found))
            return
        alone, writes = slot.session.pending == 1, found.writes
        if alone and len(found.answers) == len(writes) == 1:
            result = batches.write_at_once(writes[0])
            if result is not None:
                self._done(slot, found, (result,))
                return
        done = partial(self._done, slot, found)
        if writes:
            batches.write(writes, partial(self._written, done), alone=alone, source=slot.session)
        else:
            done(())

    async def _begin_long(self, slot: Slot, steps: CodecSteps[ProduceBegun], begun: ProduceBegun | None) -> None:
        """Do the same without blocking the loop: a thread checks the records."""
        try:
            found = await self._broker.slices.run(steps) if begun is None else begun
            done = partial(self._done, slot, found)
            write = partial(self._broker.batches.write, found.writes, partial(self._written, done), source=slot.session)
            if found.writes:
                await self._broker.run(write)
            else:
                done(())
        finally:
            slot.session.go_on()

    def _sorted_out(self, slot: Slot) -> CodecSteps[ProduceBegun]:
        request = slot.request
        produced = yield from decode_produce(request.data, request.version, request.at)
        answers: list[AnsweredPart | None] = []
        writes: list[Write] = []
        for part in produced.parts:
            if len(answers) % _STEP_PARTS == _STEP_PARTS - 1:
                yield
            found = self._checked(slot, produced, part)
            if isinstance(found, Write):
                writes.append(found)
            answers.append(None if isinstance(found, Write) else found)
        return ProduceBegun(produced, answers, writes, self._broker.clock.monotonic())

    def _written(self, done: Callable[[Sequence[WriteResult]], None], written: Sequence[WriteResult]) -> None:
        """Continue in the loop's thread; the log may have called from there."""
        if get_ident() == self._broker.loop_thread:
            done(written)
        else:
            self._broker.call_soon(done, written)

    def _checked(self, slot: Slot, produced: Produced, part: ProducedPart) -> Write | AnsweredPart:
        number, message = ErrorNumber.NONE, None
        principal, access = slot.session.principal, self._broker.access
        name = produced.transactional_id
        if produced.acks not in (-1, 0, 1):
            number = ErrorNumber.INVALID_REQUIRED_ACKS
        elif name is not None and not access.allowed(principal, AccessRight.WRITE, resource.transaction(name)):
            number = ErrorNumber.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif not access.allowed(principal, AccessRight.WRITE, resource.topic(part.topic)):
            number = ErrorNumber.TOPIC_AUTHORIZATION_FAILED
        elif slot.request.version < _FIRST_WITH_BATCHES:
            number = ErrorNumber.UNSUPPORTED_FOR_MESSAGE_FORMAT
        else:
            number, message = _form(slot.request.version, name, part)
        if number is not ErrorNumber.NONE:
            return AnsweredPart(part.partition, int(number), message=message)
        topic = self._broker.topics.by_name.get(part.topic)
        if topic is None or not 0 <= part.partition < topic.partitions:
            error: Error = UnknownTopic(part.topic)
            if topic is not None:
                error = UnknownPartition(topic.name, part.partition, topic.partitions)
            self._broker.look_for_topics()
            return AnsweredPart(part.partition, int(number_of(error)), message=str(error))
        assert part.records is not None
        limit = self._broker.topics.bounds.of(topic.name)
        if limit is None or len(part.records) <= limit:
            return Write(topic, part.partition, part.records, name)
        message = f"it has {len(part.records)} bytes, and {MESSAGE_BYTES} of its topic is {limit}"
        return AnsweredPart(part.partition, int(ErrorNumber.MESSAGE_TOO_LARGE), message=message)

    def _done(self, slot: Slot, begun: ProduceBegun, written: Sequence[WriteResult]) -> None:
        self._broker.measures.answered(self._broker.clock.monotonic() - begun.at)
        self._broker.slices.begin()
        self._broker.work(slot, self._reply(slot, begun, written))

    def _reply(self, slot: Slot, begun: ProduceBegun, written: Sequence[WriteResult]) -> CodecSteps[None]:
        produced, request, results = begun.produced, slot.request, iter(written)
        topics: list[tuple[str, list[AnsweredPart]]] = []
        sizes: Counter[str] = Counter()  # of written records
        failed, has_limits = False, self._broker.access.has_limits
        for number, (part, answer) in enumerate(zip(produced.parts, begun.answers, strict=True)):
            if number % _STEP_PARTS == _STEP_PARTS - 1:
                yield
            size = len(part.records or b"")
            if answer is None:
                result = next(results)
                answer = _answered(part.partition, result)
                if result.error is None:
                    self._broker.measures.produced[part.topic] += size
            failed = failed or bool(answer.error)
            if has_limits:
                sizes[part.topic] += size
            if not topics or topics[-1][0] != part.topic:
                topics.append((part.topic, []))
            topics[-1][1].append(answer)
        throttle_ms = self._broker.charge(slot, self._broker.produce_quota, len(request.data), sizes)
        if produced.acks:
            answer_bytes = yield from encode_produced(topics, request.version, throttle_ms)
            slot.fill([answer_bytes], throttle_ms)
            return
        # There is no answer; Kafka ends the connection so that the client notices the failure.
        slot.session.filled(slot, throttle_ms)
        if failed:
            slot.session.close()


def _form(version: int, transactional_id: str | None, part: ProducedPart) -> tuple[ErrorNumber, str | None]:
    """Return the first error in the form of some records, as far as their first bytes show it."""
    records = part.records
    if records is None or len(records) < HEADER_BYTES:
        return ErrorNumber.INVALID_RECORD, "there is no record batch"
    if records[_MAGIC_AT] != MAGIC:
        return ErrorNumber.INVALID_RECORD, "only record batches of version 2 are taken"
    if version < _FIRST_WITH_ZSTD and records[_ATTRIBUTES_AT] & _CODEC_BITS == Compression.ZSTD:
        return ErrorNumber.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or later"
    if transactional_id is None and records[_ATTRIBUTES_AT] & _TRANSACTIONAL_BIT:
        return ErrorNumber.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a batch of a transaction needs its transactional id"
    return ErrorNumber.NONE, None


def _answered(partition: int, written: WriteResult) -> AnsweredPart:
    if (error := written.error) is not None:
        return AnsweredPart(partition, int(number_of(error)), start=written.start, message=str(error))
    return AnsweredPart(partition, 0, written.base_offset, written.timestamp_ms, written.start)
