"""The log in files for the broker: record batches are stored and served unchanged.

Records of open transactions are in the log from the start; markers record the outcome. A producer's transaction is
checked against the tables once in each partition, when it begins there, and the transactional id with each batch.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from penstock.clock import SYSTEM, Clock
from penstock.errors import (
    BatchTooLarge,
    Error,
    ForeignPartition,
    InvalidBatch,
    OffsetOutOfRange,
    PartitionUnwritable,
    UnknownProducer,
    UnknownTopic,
)
from penstock.model.partition import MURMUR3, partition_of
from penstock.wire.kafka import record_batch
from penstock.wire.kafka.record_batch import NO_PRODUCER, NO_TIME_MS, BatchHeader, Marker
from penstock.wire.kafka.records import TooManyBytes, decode_records, unpacked

from ..batches import (
    BATCH_BYTES,
    Aborted,
    BatchLog,
    Fetched,
    LockedProducer,
    LogPlace,
    Sequenced,
    Write,
    WriteResult,
    WritesDone,
)
from ..contract import Topic, check_partition
from ..sql.held_records import allowing_foreign
from .log import FileLog
from .partition import PartitionLog
from .writer import PartitionWrite

logger = logging.getLogger("penstock.files")

PlacedHeader = tuple[int, BatchHeader]  # position of the batch in its buffer
_MOST_NAMES = 10_000  # cached transactional ids
_QUICK_BYTES, _QUICK_KEYS = 1 << 20, 4096  # bytes of batches whose checksum, or keys, are checked at once
_MOST_PASSED = 1000  # pieces without a record that a fetch skips: compaction has emptied their segments


class FileBatchLog(BatchLog):
    """A log in files, by batches, for the process that writes it. Raises WriterElsewhere, LogMismatch."""

    holds_back = False

    def __init__(self, log: FileLog, clock: Clock = SYSTEM, *, batch_bytes: int = BATCH_BYTES) -> None:
        self._log, self._clock, self._batch_bytes = log, clock, batch_bytes
        self._writer = log.writer
        self._there: set[int] = set()  # ids of topics known to exist
        self._names: dict[int, str | None] = {}  # transactional ids by producer, from the tables

    # -- writing

    def write(self, writes: Sequence[Write], done: WritesDone, *, alone: bool = False, source: object = None) -> None:
        """Check batches and hand them to the writer; all are refused while its buffer is full."""
        try:
            self._writer.append([self._checked(each) for each in writes], done, wait=False, at_once=alone)
        except Error as exc:
            done([WriteResult(error=exc)] * len(writes))

    def is_quick(self, write: Write) -> bool:
        """Return whether its checksum and place are found without much work, nothing unpacked or opened."""
        topic, batches = write.topic, write.batches
        looks_at_keys = topic.partitioner == MURMUR3
        if len(batches) > (_QUICK_KEYS if looks_at_keys else _QUICK_BYTES):
            return False
        if looks_at_keys and any(header.codec for _, header in record_batch.headers_in(batches)):
            return False
        return self._log.held(topic, write.partition) is not None

    def write_at_once(self, write: Write) -> WriteResult | None:
        """Append one batch in this thread, if the log does not wait for the disk and the writer is idle."""
        topic, batch = write.topic, write.batches
        if (
            not self._writer.may_take_at_once
            or topic.id not in self._there
            or topic.partitioner == MURMUR3
            or self._log.directory.is_gone(topic.id)
            or not isinstance(batch, memoryview)
            or batch.readonly
        ):
            return None
        partition = self._log.held(topic, write.partition)
        if partition is None:
            return None
        try:
            header = record_batch.check_batch(batch)
            record_batch.check_produced(header)
        except Error:
            return None
        if header.size != len(batch) or header.is_transactional or header.max_timestamp == NO_TIME_MS:
            return None
        return self._writer.append_one(partition, batch, header)

    def _checked(self, write: Write) -> PartitionWrite:
        try:
            partition = self._partition(write.topic, write.partition)
            headers = list(record_batch.batches_in(write.batches))
            if not headers:
                raise InvalidBatch("there is none")
            for _, header in headers:
                record_batch.check_produced(header)
            if len(headers) > 1 and any(header.producer_id >= 0 for _, header in headers):
                raise InvalidBatch("an idempotent producer sends one at a time to a partition")
            write, headers = self._timed(write, headers)
            check, refusal = self._placed(write, headers)
        except Error as exc:
            return PartitionWrite(None, write.batches, (), error=exc)
        except OSError as exc:  # a partition is recovered on first use
            where = f"partition {write.partition} of topic {write.topic.name}"
            refusal = PartitionUnwritable(where, exc.strerror or str(exc))
            return PartitionWrite(None, write.batches, (), error=refusal)
        is_transactional = any(header.is_transactional for _, header in headers)
        verify = partial(self._verify, write.transactional_id) if is_transactional else None
        return PartitionWrite(partition, write.batches, headers, check=check, verify=verify, refusal=refusal)

    def _timed(self, write: Write, headers: list[PlacedHeader]) -> tuple[Write, list[PlacedHeader]]:
        """Give records without a time the current one, for retention; the known checksum tells repetitions."""
        if all(header.max_timestamp != NO_TIME_MS for _, header in headers):
            return write, headers
        data, now_ms = bytearray(write.batches), self._clock.now_ms()
        timed = []
        for at, header in headers:
            if header.max_timestamp == NO_TIME_MS:
                header = record_batch.stamp_batch(data, at, header, now_ms)._replace(crc=header.crc)
            timed.append((at, header))
        return write._replace(batches=memoryview(data)), timed

    def _partition(self, topic: Topic, number: int) -> PartitionLog:
        check_partition(topic, number)
        if topic.id not in self._there:
            if not self._log.is_there(topic):
                raise UnknownTopic(topic.name)
            self._there.add(topic.id)
        elif self._log.directory.is_gone(topic.id):
            raise UnknownTopic(topic.name)
        return self._log.partition(topic, number)

    def _placed(self, write: Write, headers: Sequence[PlacedHeader]) -> tuple[Callable[[], bool] | None, Error | None]:
        """Return the check to make at placing, and the refusal of foreign keys unless it is a repetition."""
        if write.topic.partitioner != MURMUR3:
            return None, None
        files = self._log.files_of(write.topic)
        maps = self._log.settled_map(files)
        partitions = self._log.topic(write.topic.name).partitions  # it may have grown since its lookup
        refusal = self._foreign(write, headers, partitions)
        if refusal is None:
            return lambda: files.maps == maps, None
        if headers[0][1].producer_id == NO_PRODUCER:
            raise refusal
        return None, refusal

    def _foreign(self, write: Write, headers: Sequence[PlacedHeader], partitions: int) -> ForeignPartition | None:
        """Return the error for a key that belongs to another partition, unless the topic allows that."""
        topic, left = write.topic, self._batch_bytes
        for position, header in headers:
            whole = memoryview(write.batches)[position : position + header.size]
            try:
                plain = unpacked(whole, header, left)
            except TooManyBytes:
                raise BatchTooLarge(topic.name, write.partition, self._batch_bytes, self._batch_bytes) from None
            left -= len(plain)
            for each in decode_records(plain):
                own = write.partition if each.key is None else partition_of(each.key, partitions)
                if own == write.partition:
                    continue
                if not self._log.database.look(lambda tx: allowing_foreign(tx, [topic.id])):
                    return ForeignPartition(topic.name, write.partition, own)
        return None

    def _verify(self, transactional_id: str | None, partition: PartitionLog, header: BatchHeader) -> None:
        """Raise unless the producer's open transaction has this name and partition; reads tables only at its start."""
        id = header.producer_id
        if partition.has_open(id) and self._names.get(id) == transactional_id is not None:
            return
        rows = self._log.database.look(lambda tx: tx.rows("log", "kafka_producers_lock", ids=[id]))
        if not rows:
            raise UnknownProducer(id)
        place = partition.topic_id, partition.folder.partition
        LockedProducer._make(rows[0]).check(header.producer_epoch, place, transactional_id)
        if len(self._names) >= _MOST_NAMES:
            self._names.clear()
        self._names[id] = transactional_id

    # -- reading

    def fetch(self, topic: Topic, partition: int, offset: int, *, max_bytes: int, committed: bool) -> Fetched:
        held = self._partition(topic, partition)
        producers, end = held.producers, held.end
        start, stable = held.start, producers.stable(end)
        if not start <= offset <= end:
            raise OffsetOutOfRange(topic.name, partition, offset, start, end)
        until = stable if committed else end
        doubtful = producers.undecided_in(offset, until) if committed else None
        if doubtful is not None:
            if doubtful.first_offset <= offset:
                raise held.undecided_error(doubtful, offset)
            until = doubtful.first_offset
        piece = held.piece(offset, max(1, max_bytes), until) if offset < until else None
        for _ in range(_MOST_PASSED):
            if piece is None or piece.next_offset >= until or not _is_empty(piece.batches):
                break
            piece = held.piece(piece.next_offset, max(1, max_bytes), until) or piece
        if piece is None:
            return Fetched((), start, end, stable)
        aborted = producers.aborted_in(offset, piece.next_offset) if committed else []
        listed = [Aborted(each.producer_id, each.first_offset) for each in aborted]
        return Fetched((piece.batches,), start, end, stable, listed)

    def fetch_at_once(
        self, topic: Topic, partition: int, offset: int, *, max_bytes: int, committed: bool
    ) -> Fetched | None:
        if topic.id not in self._there:
            return None
        held = self._log.held(topic, partition)
        if held is None or not held.is_at_hand(offset, max(1, max_bytes)):
            return None
        return self.fetch(topic, partition, offset, max_bytes=max_bytes, committed=committed)

    def end(self, topic: Topic, partition: int) -> int:
        return self._partition(topic, partition).end

    def watch(self, moved: Callable[[int, int], None]) -> Callable[[], None]:
        """Call `moved` in the writer's thread."""
        return self._log.directory.watch(moved)

    # -- transactions

    def mark(self, producer_id: int, epoch: int, places: Sequence[LogPlace], *, committed: bool) -> None:
        """Append a marker where the transaction is still open, and wait until it is durable."""
        topics = {each.id: each for each in self._log.topics()}
        marker = Marker.COMMIT if committed else Marker.ABORT
        writes = [
            self._marker(topics[each.topic_id], each.partition, marker, producer_id, epoch)
            for each in places
            if each.topic_id in topics
        ]
        if not writes:
            return
        for each in self._writer.append_and_wait(writes):
            if each.error is not None:
                raise each.error

    def _marker(self, topic: Topic, number: int, marker: Marker, producer_id: int, epoch: int) -> PartitionWrite:
        producer = {"producer_id": producer_id, "producer_epoch": epoch, "coordinator_epoch": 0}
        batch = record_batch.encode_marker(marker, timestamp_ms=self._clock.now_ms(), **producer)
        return PartitionWrite(self._log.partition(topic, number), batch, [(0, record_batch.read_header(batch))], marker)

    def producers(self, topic: Topic, partition: int) -> list[Sequenced]:
        states = dict(self._partition(topic, partition).producers.states)
        return [
            Sequenced(
                id,
                each.epoch,
                each.batches[-1].last_sequence if each.batches else -1,
                each.last_ms,
                -1 if each.opened is None else each.opened,
            )
            for id, each in sorted(states.items())
        ]


def _is_empty(batches: memoryview) -> bool:
    """Return whether no batch has a record or marker: librdkafka takes such an answer for a truncated one."""
    at = 0
    while at < len(batches):
        header = BatchHeader._make(record_batch.HEADER.unpack_from(batches, at))
        if header.record_count:
            return False
        at += header.size
    return True
