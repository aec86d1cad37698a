"""Appends records to a log in files: places them by key, encodes batches and hands them to the writer.

Placing and writing are two steps, and a topic may grow between them: then the writer refuses the append, and
all records are placed again by the new map.

The last batch of each named producer is a row in the SQLite file, written before and after an append. Two stores cannot
commit atomically. So the row first holds the intent: the ids about to be appended, and the offsets from which on they
may be found (`floors`). Then the records are appended; then the row gets their positions. A reader
of an intent row searches the log for its ids: those found were appended, and the producer continues behind them.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from threading import RLock
from typing import Any, NamedTuple, Protocol

import msgspec

from penstock.database.contract import Row, Rows
from penstock.database.database import Database
from penstock.errors import MapChanged
from penstock.model.limits import check_topic
from penstock.model.partition import partition_for
from penstock.wire.kafka.record_batch import read_header

from ..batches import WriteResult
from ..contract import Appended, Batch, Position, Topic, check_partition, is_repeated
from ..entry import Content
from ..kafka_form import encode_contents
from ..sql.log import SqlLog
from .directory import LogDirectory, TopicFiles
from .partition import PartitionLog
from .partition_view import PartitionView
from .writer import LogWriter, PartitionWrite

_lock = RLock()  # one append of a named producer at a time in this process
_COLUMNS = "id epoch sequence topic_id positions ids"  # of a producer
_BATCH_RECORDS = 10_000  # most records of one batch


class AppendableLog(Protocol):
    """A log in files, as far as appending needs it; `FileLog` is one, and is above this module."""

    directory: LogDirectory
    database: Database
    tables: SqlLog

    @property
    def writer(self) -> LogWriter:
        """The writer of this process. Raises WriterElsewhere, LogMismatch."""

    def files_of(self, topic: Topic) -> TopicFiles:
        """Return the files of a topic, even before any exist."""

    def settled_map(self, files: TopicFiles) -> int:
        """Return the number of a topic's map once no growth is in progress."""

    def partition(self, topic: Topic, number: int) -> PartitionLog:
        """Return a partition for writing."""

    def view(self, topic: Topic, number: int) -> PartitionView:
        """Return a partition for reading."""

    def topics(self) -> Sequence[Topic]:
        """Return all topics."""


class _BatchPart(NamedTuple):
    """The records of a batch that go to one partition, by their index in the batch."""

    partition: int
    numbers: list[int]


class Appender:
    """Adds records to one log. Safe from any thread."""

    def __init__(self, log: AppendableLog, notes: "ProducerNotes") -> None:
        self._log, self._notes = log, notes
        self._placed_by: dict[str, tuple[TopicFiles, Topic, int]] = {}  # last known placing, by topic name

    def append_all(self, batches: Sequence[Batch]) -> list[list[Position]]:
        """Add batches; every check is made before anything is written.

        A crash or a failing disk may leave a part of them in the log without a result; for a batch with a
        producer, `last_batch` finds that part.
        """
        writer = self._log.writer
        while True:
            maps = {batch.topic: None for batch in batches}
            topics = {name: self._placing(name) for name in maps}
            with self._notes.guard(batches):
                given = self._append_once(writer, batches, topics)
            if given is not None:
                return given

    def append_at_once(self, batches: Sequence[Batch]) -> list[list[Position]] | None:
        """Add batches in this thread, if this process writes, knows the topics, and the writer is idle."""
        plans: list[list[_BatchPart]] = []
        writes: list[PartitionWrite] = []
        taken: set[PartitionLog] = set()
        for batch in batches:
            known = self._placed_by.get(batch.topic)
            if known is None or batch.producer is not None:
                return None
            files, topic, maps = known  # only the writer's process grows or deletes a topic
            if files.maps != maps or files.is_growing or self._log.directory.known(topic.id) is not files:
                return None
            if batch.partition is not None:
                check_partition(topic, batch.partition)
            plans.append(_parts(topic, batch))
            for part in plans[-1]:
                partition = files.partitions.get(part.partition)
                if partition is None or partition in taken:
                    return None
                taken.add(partition)
                contents = [batch.contents[each] for each in part.numbers]
                writes.append(self._write(topic, maps, part.partition, contents))
        results = self._written_at_once(writes) if writes else []
        if results is None:
            return None
        for each in results:
            if isinstance(each.error, MapChanged):
                return None  # nothing was written
            if each.error is not None:
                raise each.error
        written = iter(results)
        return [
            _positions(batch, [(part, next(written)) for part in parts])
            for batch, parts in zip(batches, plans, strict=True)
        ]

    def _written_at_once(self, writes: Sequence[PartitionWrite]) -> Sequence[WriteResult] | None:
        """Write placed batches, all or none; a single batch, the common case, takes a shortcut."""
        if len(writes) > 1 or len(writes[0].headers) > 1:
            return self._log.writer.append_at_once(writes)
        (write,) = writes
        assert write.partition is not None
        written = self._log.writer.append_one(
            write.partition, memoryview(write.batches), write.headers[0][1], write.check
        )
        return None if written is None else [written]

    def _placing(self, name: str) -> tuple[Topic, int]:
        """Return a topic and the number of its partition map, for placing records."""
        check_topic(name)
        known = self._placed_by.get(name)
        files = self._log.files_of(self._log.tables.topic(name)) if known is None else known[0]
        maps = self._log.settled_map(files)  # read before the topic, so that a growth in between is noticed
        topic = self._log.tables.topic(name)
        if self._log.files_of(topic) is not files:  # another topic has the name now
            self._placed_by.pop(name, None)
            return self._placing(name)
        self._placed_by[name] = files, topic, maps
        return topic, maps

    def _append_once(
        self, writer: LogWriter, batches: Sequence[Batch], topics: Mapping[str, tuple[Topic, int]]
    ) -> list[list[Position]] | None:
        """Append batches once; None if a topic has grown meanwhile."""
        given: list[list[Position] | None] = []
        plans: list[list[_BatchPart]] = []
        writes: list[PartitionWrite] = []
        for batch in batches:
            topic, maps = topics[batch.topic]
            if batch.partition is not None:
                check_partition(topic, batch.partition)
            repeated = self._notes.repeated(batch)
            given.append(repeated)
            parts = [] if repeated is not None else _parts(topic, batch)
            plans.append(parts)
            for part in parts:
                contents = [batch.contents[each] for each in part.numbers]
                writes.append(self._write(topic, maps if batch.partition is None else None, part.partition, contents))
        self._notes.intend(batches, given, plans, topics)
        # This caller waits, so it sends nothing more.
        results = iter(writer.append_and_wait(writes, whole=True, at_once=True) if writes else ())
        found = []
        for batch, known, parts in zip(batches, given, plans, strict=True):
            if known is not None:
                found.append(known)
                continue
            written = [(part, next(results)) for part in parts]
            for _, each in written:
                if isinstance(each.error, MapChanged):
                    return None
                if each.error is not None:
                    raise each.error
            found.append(_positions(batch, written))
        self._notes.put(batches, given, found, topics)
        return found

    def _write(self, topic: Topic, maps: int | None, number: int, contents: Sequence[Content]) -> PartitionWrite:
        partition = self._log.partition(topic, number)
        buffer, headers = bytearray(), []
        for first in range(0, len(contents), _BATCH_RECORDS):
            batch = encode_contents(contents[first : first + _BATCH_RECORDS])
            headers.append((len(buffer), read_header(batch)))
            buffer += batch
        files = self._log.files_of(topic)
        check = None if maps is None else lambda: files.maps == maps
        return PartitionWrite(partition, buffer, headers, check=check)


def _parts(topic: Topic, batch: Batch) -> list[_BatchPart]:
    if batch.partition is not None:
        return [_BatchPart(batch.partition, list(range(len(batch.contents))))] if batch.contents else []
    parts: dict[int, list[int]] = {}
    for number, each in enumerate(batch.contents):
        place = partition_for(topic.partitioner, each.key, each.id, topic.partitions)
        parts.setdefault(place, []).append(number)
    return [_BatchPart(*each) for each in parts.items()]


def _positions(batch: Batch, written: Sequence[tuple[_BatchPart, WriteResult]]) -> list[Position]:
    positions: list[Position] = [Position(0, 0)] * len(batch.contents)
    for part, result in written:
        for at, number in enumerate(part.numbers):
            positions[number] = Position(part.partition, result.base_offset + at)
    return positions


class _Floors(msgspec.Struct):
    """Where to search for the records of an append in doubt: partition → first offset."""

    floors: dict[str, int]


_placed = msgspec.json.Decoder(list[tuple[int, int]] | _Floors).decode
_ids = msgspec.json.Decoder(tuple[str, ...]).decode


class ProducerNotes:
    """The producer rows of one log."""

    def __init__(self, log: AppendableLog) -> None:
        self._log = log

    def guard(self, batches: Sequence[Batch]) -> AbstractContextManager[object]:
        """Keep other threads from appending as a named producer meanwhile."""
        return _lock if any(batch.producer is not None for batch in batches) else nullcontext()

    def last(self, producer: str) -> Appended | None:
        """Return the last batch of a producer: those records of it that are in the log."""
        with _lock:
            rows = self._log.database.look(lambda tx: tx.rows("log", "producer_find", id=producer))
            return self._appended(producer, rows[0]) if rows else None

    def repeated(self, batch: Batch) -> list[Position] | None:
        """Return the positions of a batch that was appended before. Raises ProducerFenced, OutOfSequence."""
        if batch.producer is None:
            return None
        last = self.last(batch.producer.id)
        if last is not None and not last.positions and batch.producer.sequence == last.sequence:
            is_repeated(batch.producer, last)
            return None
        return list(last.positions) if is_repeated(batch.producer, last) and last is not None else None

    def intend(
        self,
        batches: Sequence[Batch],
        known: Sequence[list[Position] | None],
        plans: Sequence[Sequence[Any]],
        topics: Mapping[str, tuple[Topic, int]],
    ) -> None:
        """Record the ids about to be appended, and the offsets from which to search for them."""
        rows = []
        for batch, before, parts in zip(batches, known, plans, strict=True):
            if batch.producer is not None and before is None and parts:
                topic = topics[batch.topic][0]
                floors = {str(part.partition): self._log.view(topic, part.partition).end for part in parts}
                rows.append(_row(batch, topic, _Floors(floors)))
        self._put(rows)

    def put(
        self,
        batches: Sequence[Batch],
        known: Sequence[list[Position] | None],
        found: Sequence[list[Position]],
        topics: Mapping[str, tuple[Topic, int]],
    ) -> None:
        """Record the positions of the producers' batches."""
        each = zip(batches, known, found, strict=True)
        new = [(batch, positions) for batch, before, positions in each if before is None and positions]
        self._put([_row(batch, topics[batch.topic][0], at) for batch, at in new if batch.producer is not None])

    def _put(self, rows: Sequence[Row]) -> None:
        if rows:
            table = Rows.of(_COLUMNS, rows)
            self._log.database.run(lambda tx: tx.change("log", "producers_put", producers=table))

    def _appended(self, producer: str, row: Row) -> Appended:
        epoch, sequence, topic_id, positions, ids = row
        placed = _placed(positions)
        if isinstance(placed, _Floors):
            return self._resolved(producer, epoch, sequence, topic_id, placed.floors, _ids(ids))
        return Appended(epoch, sequence, topic_id, tuple(Position(*each) for each in placed), _ids(ids))

    def _resolved(
        self, producer: str, epoch: int, sequence: int, topic_id: int, floors: dict[str, int], ids: tuple[str, ...]
    ) -> Appended:
        """Search the log for the records of an interrupted append, and record the result."""
        topic = next((each for each in self._log.topics() if each.id == topic_id), None)
        wanted, found = set(ids), dict[str, Position]()
        if topic is not None:
            for number, floor in floors.items():
                view = self._log.view(topic, int(number))
                for header, batch in view.batches(floor, view.end):  # also behind an open transaction
                    for entry in () if header.is_transactional else view.decoded(header, batch):
                        if entry.id in wanted:
                            found[entry.id] = Position(entry.partition, entry.offset)
        there = [each for each in ids if each in found]
        places = [found[each] for each in there]
        self._put([(producer, epoch, sequence, topic_id, _json(places), _json(there))])
        return Appended(epoch, sequence, topic_id, tuple(places), tuple(there))


def _row(batch: Batch, topic: Topic, placed: _Floors | list[Position]) -> Row:
    assert batch.producer is not None
    ids = [each.id for each in batch.contents]
    return (*batch.producer, topic.id, _json(placed), _json(ids))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
