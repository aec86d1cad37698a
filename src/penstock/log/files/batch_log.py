"""The log in files by batches, for the broker: they go in and out as they are.

Records of open transactions are in the log from the start; markers say what became of them. What a producer
sends in a transaction is compared with the tables once in each partition, when the transaction begins there,
and the transactional id that it names with each batch.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event

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
from penstock.wire.kafka.compression import TooManyBytes, unpacked
from penstock.wire.kafka.control_batch import Marker, encode_marker
from penstock.wire.kafka.record_batch import (
    HEADER,
    NO_PRODUCER,
    NO_TIME_MS,
    BatchHeader,
    batches_in,
    check_batch,
    check_produced,
    headers_in,
    read_header,
    stamp_batch,
)
from penstock.wire.kafka.records import decode_records

from ..batches import (
    ALLOWED,
    BATCH_BYTES,
    FOREIGN_KEYS,
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
from ..sql.database import Transaction
from .log import FileLog
from .partition import PartitionLog
from .writer import PartitionWrite

logger = logging.getLogger("penstock.files")

PlacedHeader = tuple[int, BatchHeader]  # where the batch begins among others
_MOST_NAMES = 10_000  # transactional ids that are remembered
_QUICK_BYTES, _QUICK_KEYS = (
    1 << 20,
    4096,
)  # of batches that are checked at once, by their checksum or keys, too
_MOST_PASSED = 1000  # pieces without a record that a fetch passes over: compaction has emptied their segments


class FileBatchLog(BatchLog):
    """A log in files, by batches. In the process that writes it. Raises WriterElsewhere, LogMismatch."""

    holds_back = False

    def __init__(self, log: FileLog, clock: Clock = SYSTEM, *, batch_bytes: int = BATCH_BYTES) -> None:
        self._log, self._clock, self._batch_bytes = log, clock, batch_bytes
        self._writer = log.writer
        self._there: set[int] = set()  # topics that were seen in the tables
        self._names: dict[int, str | None] = {}  # transactional ids of producers that were seen in the tables

    # -- writing

    def write(
        self, writes: Sequence[Write], done: WritesDone, *, alone: bool = False, source: object = None
    ) -> None:
        """Check batches and hand them over to the writer; above the limit of what waits all are refused."""
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
        if looks_at_keys and any(header.codec for _, header in headers_in(batches)):
            return False
        return self._log.held(topic, write.partition) is not None

    def write_at_once(self, write: Write) -> WriteResult | None:
        """Append one batch in this thread, where the log does not wait for the disk and nobody is at work."""
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
            header = check_batch(batch)
            check_produced(header)
        except Error:
            return None
        if header.size != len(batch) or header.is_transactional or header.max_timestamp == NO_TIME_MS:
            return None
        return self._writer.append_one(partition, batch, header)

    def _checked(self, write: Write) -> PartitionWrite:
        try:
            partition = self._partition(write.topic, write.partition)
            headers = list(batches_in(write.batches))
            if not headers:
                raise InvalidBatch("there is none")
            for _, header in headers:
                check_produced(header)
            if len(headers) > 1 and any(header.producer_id >= 0 for _, header in headers):
                raise InvalidBatch("an idempotent producer sends one at a time to a partition")
            write, headers = self._timed(write, headers)
            check, refusal = self._placed(write, headers)
        except Error as exc:
            return PartitionWrite(None, write.batches, (), error=exc)
        except OSError as exc:  # a partition is looked at when it is asked for first
            where = f"partition {write.partition} of topic {write.topic.name}"
            refusal = PartitionUnwritable(where, exc.strerror or str(exc))
            return PartitionWrite(None, write.batches, (), error=refusal)
        is_transactional = any(header.is_transactional for _, header in headers)
        verify = partial(self._verify, write.transactional_id) if is_transactional else None
        return PartitionWrite(partition, write.batches, headers, check=check, verify=verify, refusal=refusal)

    def _timed(self, write: Write, headers: list[PlacedHeader]) -> tuple[Write, list[PlacedHeader]]:
        """Give records without a time the present one, as a database does: retention goes by it.

        Their headers keep the checksum that they were sent with: one that is sent again is known by it.
        """
        if all(header.max_timestamp != NO_TIME_MS for _, header in headers):
            return write, headers
        data, now_ms = bytearray(write.batches), self._clock.now_ms()
        timed = []
        for at, header in headers:
            if header.max_timestamp == NO_TIME_MS:
                header = stamp_batch(data, at, header, now_ms)._replace(crc=header.crc)
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

    def _placed(
        self, write: Write, headers: Sequence[PlacedHeader]
    ) -> tuple[Callable[[], bool] | None, Error | None]:
        """Return what is asked of keys when it is their turn, and why they are refused unless sent before."""
        if write.topic.partitioner != MURMUR3:
            return None, None
        files = self._log.files_of(write.topic)
        maps = self._log.settled_map(files)
        partitions = self._log.topic(write.topic.name).partitions  # it may have grown since it was looked up
        refusal = self._foreign(write, headers, partitions)
        if refusal is None:
            return lambda: files.maps == maps, None
        if headers[0][1].producer_id == NO_PRODUCER:
            raise refusal
        return None, refusal

    def _foreign(
        self, write: Write, headers: Sequence[PlacedHeader], partitions: int
    ) -> ForeignPartition | None:
        """Return what is said of a key that the topic itself would put elsewhere, unless it allows that."""
        topic, left = write.topic, self._batch_bytes
        for position, header in headers:
            whole = memoryview(write.batches)[position : position + header.size]
            try:
                plain = unpacked(whole, header, left)
            except TooManyBytes:
                raise BatchTooLarge(
                    topic.name, write.partition, self._batch_bytes, self._batch_bytes
                ) from None
            left -= len(plain)
            for each in decode_records(plain):
                own = write.partition if each.key is None else partition_of(each.key, partitions)
                if own != write.partition and not self._allows_foreign(topic):
                    return ForeignPartition(topic.name, write.partition, own)
        return None

    def _allows_foreign(self, topic: Topic) -> bool:
        rows = self._log.database.look(lambda tx: tx.rows("log", "topic_configs", topics=[topic.id]))
        return any((name, value) == (FOREIGN_KEYS, ALLOWED) for _, name, value in rows)

    def _verify(self, transactional_id: str | None, partition: PartitionLog, header: BatchHeader) -> None:
        """Raise unless a producer's transaction, of this name, is open and has this partition.

        Asked by the writer's thread; the tables are, when it begins there, or another name is given.
        """
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
        """Return batches as they stand in a segment."""
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
        told = [Aborted(each.producer_id, each.first_offset) for each in aborted]
        return Fetched((piece.batches,), start, end, stable, told)

    def fetch_at_once(
        self, topic: Topic, partition: int, offset: int, *, max_bytes: int, committed: bool
    ) -> Fetched | None:
        """Return batches that are in the system's memory."""
        if topic.id not in self._there:
            return None
        held = self._log.held(topic, partition)
        if held is None or not held.is_at_hand(offset, max(1, max_bytes)):
            return None
        return self.fetch(topic, partition, offset, max_bytes=max_bytes, committed=committed)

    def end(self, topic: Topic, partition: int) -> int:
        """Return where a partition ends."""
        return self._partition(topic, partition).end

    def watch(self, moved: Callable[[int, int], None]) -> Callable[[], None]:
        """Be told by the writer's thread."""
        return self._log.directory.watch(moved)

    # -- transactions

    def settle(self, tx: Transaction, producer_id: int, *, committed: bool) -> Sequence[LogPlace]:
        """Do nothing: the records are in the log, and markers follow."""
        return ()

    def mark(self, producer_id: int, epoch: int, places: Sequence[LogPlace], *, committed: bool) -> None:
        """Append a marker where the transaction is still open, and wait until the disk has it."""
        topics = {each.id: each for each in self._log.topics()}
        marker = Marker.COMMIT if committed else Marker.ABORT
        writes = [
            self._marker(topics[each.topic_id], each.partition, marker, producer_id, epoch)
            for each in places
            if each.topic_id in topics
        ]
        if not writes:
            return
        done, results = Event(), list[WriteResult]()

        def told(found: Sequence[WriteResult]) -> None:
            results.extend(found)
            done.set()

        self._writer.append(writes, told)
        done.wait()
        for each in results:
            if each.error is not None:
                raise each.error

    def _marker(
        self, topic: Topic, number: int, marker: Marker, producer_id: int, epoch: int
    ) -> PartitionWrite:
        batch = encode_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=0,
            timestamp_ms=self._clock.now_ms(),
        )
        return PartitionWrite(self._log.partition(topic, number), batch, [(0, read_header(batch))], marker)

    def producers(self, topic: Topic, partition: int) -> list[Sequenced]:
        """Return the producers that a partition knows."""
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

    def close(self) -> None:
        """Do nothing: the log ends its writer when it is closed."""


def _is_empty(batches: memoryview) -> bool:
    """Return whether no batch has a record or a marker: librdkafka takes such an answer for one cut short."""
    at = 0
    while at < len(batches):
        header = BatchHeader._make(HEADER.unpack_from(batches, at))
        if header.record_count:
            return False
        at += header.size
    return True
