"""The log in files, behind the contract of every log.

Records are in segment files; topics, growths and holds, and what producers appended last, in the tables of a
SQLite file beside them. One process writes (`LogDirectory`); any may read. Each call stands for itself;
inside a transaction of that SQLite file (`within`) what it says in the tables is part of it.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import NamedTuple
from uuid import uuid4

from penstock.clock import SYSTEM, Clock
from penstock.errors import Damaged, LogMismatch, MapChanged, StillNeeded, UnknownTopic
from penstock.model.limits import check_topic
from penstock.model.partition import MURMUR3, partition_for
from penstock.wire.kafka.record_batch import read_header

from ..batches import WriteResult
from ..contract import (
    LAST_OFFSET,
    OUTBOX_PARTITIONS,
    Appended,
    Batch,
    Bounds,
    Chunk,
    Compaction,
    Growth,
    Keep,
    Log,
    LogIdentity,
    OffsetRange,
    Position,
    Search,
    Topic,
    check_partition,
)
from ..entry import Content, Entry
from ..kafka_form import encode_contents, place_in
from ..sql.database import Database, Transaction
from ..sql.log import SqlLog
from ..topic_uuid import topic_uuid
from . import erasing, searching
from .directory import LogDirectory, TopicFiles
from .heads import PartitionHead
from .identity import DirectoryIdentity, read_identity, write_identity
from .lock import WriterLock
from .notes import ProducerNotes
from .partition import PartitionLog
from .partition_view import PartitionView
from .policy import has_policy, read_policy, write_policy
from .reservation import read_reservation, write_reservation
from .settings import FilesSettings
from .shortened import forget_shortened, read_shortened
from .voids import voids_in
from .writer import LogWriter, PartitionWrite

logger = logging.getLogger("penstock.files")

_MARK = "files_mark"
_LOOKS = 3
_BATCH_RECORDS = 10_000  # of one append that go into one batch


class _BatchPart(NamedTuple):
    """Records of one batch that go to one partition, by their numbers in the batch."""

    partition: int
    numbers: list[int]


class FileLog(Log):
    """A log in a directory. Safe from any thread, unless it is within a transaction."""

    compacts = True

    def __init__(
        self,
        directory: LogDirectory,
        database: Database,
        clock: Clock = SYSTEM,
        tx: Transaction | None = None,
    ) -> None:
        self.directory, self.database, self._clock, self._tx = directory, database, clock, tx
        self.tables = SqlLog(database, clock, tx)
        self._notes = ProducerNotes(self)
        self._log_id: str | None = None
        self._closed = False
        self._close_lock = Lock()

    def within(self, tx: Transaction) -> "FileLog":
        """Return this log with its tables as part of an open transaction of their database."""
        inside = FileLog(self.directory, self.database, self._clock, tx)
        inside._log_id = self._log_id
        return inside

    def close(self) -> None:
        """Stop writing, unless others in this process use the same directory."""
        with self._close_lock:
            if self._closed or self._tx is not None:
                return
            self._closed = True
        self.directory.close()

    # -- who writes

    @property
    def writer(self) -> LogWriter:
        """The writer of this process. Raises WriterElsewhere, LogMismatch."""
        return self.directory.writer(self._claim)

    def claim(self) -> None:
        """Become the writer. Raises WriterElsewhere, LogMismatch."""
        self.writer  # noqa: B018

    def _claim(self) -> None:
        """Make sure that directory and tables belong together, and mark this start in both."""
        identity, known = self.tables.identity(), _read_mark(self.database)
        mismatch = self._mismatch(identity, known)
        if mismatch is not None:
            raise mismatch
        self._mark(identity, known)

    def check_parts(self) -> None:
        """Make sure that directory and tables belong together, without writing. Raises LogMismatch."""
        if self.directory.is_writing:
            return  # it was looked at then
        mismatch = None
        for _ in range(_LOOKS):  # a writer that starts may change both between two looks
            # The tables first: the directory knows the mark that they had before.
            mismatch = self._mismatch(self.tables.identity(), _read_mark(self.database))
            if mismatch is None:
                return
        assert mismatch is not None
        raise mismatch

    def _mismatch(self, identity: LogIdentity, known: str) -> LogMismatch | None:
        """Return what is wrong with directory and tables, by what the tables say."""
        where, found = str(self.directory.path), self._read_identity()
        if found is None:
            if known or self.directory.disk.names(self.directory.path / "topics"):
                return LogMismatch(where, "the file `identity` is missing")
        elif (found.log_id, found.incarnation) != identity:
            theirs = f"{found.log_id} ({found.incarnation})"
            ours = f"{identity.id} ({identity.incarnation})"
            return LogMismatch(where, f"the segments are of log {theirs}, the tables of {ours}")
        elif known not in (found.mark, found.known_mark):
            return LogMismatch(where, "one of them is of an earlier time than the other")
        return None

    def _mark(self, identity: LogIdentity, known: str) -> None:
        disk, where, mark = self.directory.disk, self.directory.path, uuid4().hex
        write_identity(disk, where, DirectoryIdentity(*identity, mark, known))
        self.database.run(lambda tx: _put_mark(tx, mark))
        write_identity(disk, where, DirectoryIdentity(*identity, mark, mark))

    def _read_identity(self) -> DirectoryIdentity | None:
        try:
            return read_identity(self.directory.disk, self.directory.path)
        except ValueError as exc:
            raise LogMismatch(str(self.directory.path), f"the file `identity` is damaged ({exc})") from exc

    # -- topics

    def identity(self) -> LogIdentity:
        """Return the ids that stand in the tables, and in the directory once somebody has written."""
        return self.tables.identity()

    def raise_incarnation(self, above: int) -> LogIdentity:
        """Raise the number in tables and directory: from now on they are of one time again."""
        raised = self.tables.raise_incarnation(above)
        if self._tx is None:
            self._accept(raised)
        else:  # the directory says so before the commit: if that fails, it is asked for again
            self._accept_before(raised)
        return raised

    def _accept(self, identity: LogIdentity) -> None:
        self._alone(lambda: self._mark(identity, _read_mark(self.database)))

    def _accept_before(self, identity: LogIdentity) -> None:
        tx, mark = self._tx, uuid4().hex
        assert tx is not None
        disk, where = self.directory.disk, self.directory.path
        _put_mark(tx, mark)
        self._alone(lambda: write_identity(disk, where, DirectoryIdentity(*identity, mark, mark)))

    def skip_to(self, topic: Topic, offsets: Mapping[int, int]) -> None:
        """Reserve what readers have passed: what is appended next stands behind it, in a new segment."""
        files, disk = self._files(topic), self.directory.disk

        def reserve() -> None:
            for number, offset in offsets.items():
                folder = files.folder(number).path
                write_reservation(disk, folder, max(offset, read_reservation(disk, folder)))
                forget_shortened(disk, folder)

        if self.directory.is_writing:
            held = {number: self.partition(topic, number) for number in offsets}
            self.writer.call(lambda: _skip(held, offsets))
        else:
            self._alone(reserve)

    def shortened(self, topic: Topic) -> dict[int, OffsetRange]:
        """Return what partitions have lost at their ends, as their writer has found and nobody accepted."""
        files, disk = self._files(topic), self.directory.disk
        numbers = sorted(int(name) for name in disk.names(files.path) if name.isdecimal())
        found = {number: read_shortened(disk, files.folder(number).path) for number in numbers}
        return {number: OffsetRange(number, *lost) for number, lost in found.items() if lost is not None}

    def _alone(self, work: Callable[[], None]) -> None:
        """Do something while no other process writes. Raises WriterElsewhere."""
        if self.directory.is_writing:
            self.writer.call(work)
            return
        self.directory.disk.make_folder(self.directory.path)
        lock = WriterLock(self.directory.path)
        try:
            work()
        finally:
            lock.release()

    def create_topic(
        self, name: str, *, partitions: int = OUTBOX_PARTITIONS, partitioner: str = MURMUR3
    ) -> Topic:
        """Make a topic, or return the one there is; its folder comes with its first record."""
        return self.tables.create_topic(name, partitions=partitions, partitioner=partitioner)

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        return self.tables.topics()

    def topic(self, name: str) -> Topic:
        """Return a topic by name."""
        return self.tables.topic(name)

    def pinned_topic(self, name: str, *, alone: bool = False) -> Topic:
        """Return a topic by name, its row locked until the transaction ends."""
        return self.tables.pinned_topic(name, alone=alone)

    def grow(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions; what was placed by the old map and is not written is placed again."""
        topic = self.tables.topic(name)
        files, writer = self._files(topic), self.writer
        held = [self.partition(topic, number) for number in range(topic.partitions)]

        def change(tx: Transaction) -> Topic:
            for number, each in enumerate(held):
                tx.change("log", "head_put_end", topic_id=topic.id, partition=number, end=each.end)
            return SqlLog(self.database, self._clock, tx).grow(name, partitions)

        if self._tx is None:
            return writer.call(lambda: self._grown(files, change))
        writer.call(lambda: self._begin_to_grow(files))
        return change(self._tx)

    def _grown(self, files: TopicFiles, change: Callable[[Transaction], Topic]) -> Topic:
        grown = self.database.run(change)
        files.maps += 1  # after the commit: who reads the number from now on finds the new map, too
        return grown

    def _begin_to_grow(self, files: TopicFiles) -> None:
        """Let everybody who places by key wait until the growing transaction has ended."""
        files.maps += 1
        files.is_growing = True

    def growths(self, topic: Topic) -> list[Growth]:
        """Return how a topic has grown."""
        return self.tables.growths(topic)

    def retain(self, topic: Topic, keep: Keep, *, only: Collection[str] = Keep._fields) -> None:
        """Say what is kept of a topic."""
        self.tables.retain(topic, keep, only=only)

    def delete_topic(self, name: str) -> None:
        """Remove a topic and its files."""
        topic = self.tables.topic(name)
        files, writer = self._files(topic), self.writer
        self.tables.delete_topic(name)
        writer.call(lambda: self.directory.forget(files))

    # -- appending

    def append_all(self, batches: Sequence[Batch]) -> list[list[Position]]:
        """Add batches; all that can be refused is refused before anything is written.

        A crash, or a disk that fails, may leave a part of them in the log, and nothing is returned then; with
        a producer the part that is there is known (`last_batch`).
        """
        writer = self.writer
        while True:
            maps = {batch.topic: None for batch in batches}
            topics = {name: self._placing(name) for name in maps}
            with self._notes.guard(batches):
                given = self._append_once(writer, batches, topics)
            if given is not None:
                return given

    def _placing(self, name: str) -> tuple[Topic, int]:
        """Return a topic, and the number of its map, to place records by."""
        check_topic(name)
        files = self._files(self.tables.topic(name))
        maps = files.maps  # before the topic is read: a growth in between is then noticed
        if files.is_growing:  # a transaction that writes begins when the growing one has ended
            self.database.run(lambda tx: tx.rows("log", "topic_list"))
            files.is_growing = False
        return self.tables.topic(name), maps

    def _append_once(
        self, writer: LogWriter, batches: Sequence[Batch], topics: Mapping[str, tuple[Topic, int]]
    ) -> list[list[Position]] | None:
        """Append batches; None if a topic has grown meanwhile."""
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
                writes.append(
                    self._write(topic, maps if batch.partition is None else None, part.partition, contents)
                )
        self._notes.intend(batches, given, plans, topics)
        results = iter(_appended(writer, writes)) if writes else iter(())
        found = []
        for batch, known, parts in zip(batches, given, plans, strict=True):
            if known is not None:
                found.append(known)
                continue
            positions: list[Position] = [Position(0, 0)] * len(batch.contents)
            for part in parts:
                written = next(results)
                if written.error is not None:
                    if isinstance(written.error, MapChanged):
                        return None
                    raise written.error
                for at, number in enumerate(part.numbers):
                    positions[number] = Position(part.partition, written.base_offset + at)
            found.append(positions)
        self._notes.put(batches, given, found, topics)
        return found

    def _write(
        self, topic: Topic, maps: int | None, number: int, contents: Sequence[Content]
    ) -> PartitionWrite:
        partition = self.partition(topic, number)
        buffer, headers = bytearray(), []
        for first in range(0, len(contents), _BATCH_RECORDS):
            batch = encode_contents(contents[first : first + _BATCH_RECORDS])
            headers.append((len(buffer), read_header(batch)))
            buffer += batch
        files = self._files(topic)
        check = None if maps is None else lambda: files.maps == maps
        return PartitionWrite(partition, buffer, headers, check=check)

    def last_batch(self, producer: str) -> Appended | None:
        """Return the last batch that a producer appended."""
        return self._notes.last(producer)

    def durable(self, topic: Topic, position: Position) -> None:
        """Return at once: what has a position is as durable as the log is set."""

    # -- reading

    def _files(self, topic: Topic) -> TopicFiles:
        known = self.directory.known(topic.id)
        if known is not None:
            return known
        if self._log_id is None:
            self._log_id = self.tables.identity().id
        return self.directory.topic(topic.id, topic_uuid(self._log_id, topic.id))

    def held(self, topic: Topic, number: int) -> PartitionLog | None:
        """Return a partition for writing, if it is known already."""
        known = self.directory.known(topic.id)
        return None if known is None else known.partitions.get(number)

    def partition(self, topic: Topic, number: int) -> PartitionLog:
        """Return a partition for writing."""
        return self.directory.partition(
            self._files(topic),
            number,
            partial(_read_start, self.database, topic.id, number),
            partial(_read_passed, self.database, topic.id, number),
        )

    def view(self, topic: Topic, number: int) -> PartitionView:
        """Return a partition for reading."""
        files = self._files(topic)
        if self.directory.is_writing:
            return self.partition(topic, number)
        return self._reader(files, number, files.heads.get(number))

    def _reader(self, files: TopicFiles, number: int, head: PartitionHead | None) -> PartitionView:
        start = partial(_read_start, self.database, files.id, number)
        return self.directory.view(files, number, head, start)

    def _views(self, topic: Topic) -> Iterator[tuple[int, PartitionView]]:
        """Yield the partitions that ever held something; nothing of a topic that is gone."""
        if not self.is_there(topic):
            return
        files = self._files(topic)
        if self.directory.is_writing:
            names = self.directory.disk.names(files.path)
            there = {int(name) for name in names if name.isdecimal()} | files.partitions.keys()
            for number in sorted(there):
                yield number, self.partition(topic, number)
        else:
            heads: dict[int, PartitionHead | None] = {**files.heads.all()}
            if len(heads) < topic.partitions:  # others hold nothing, or their head is lost
                names = self.directory.disk.names(files.path)
                heads = {**dict.fromkeys(int(name) for name in names if name.isdecimal()), **heads}
            for number, head in sorted(heads.items()):
                view = self._reader(files, number, head)
                if head is not None or view.segments:
                    yield number, view

    def is_there(self, topic: Topic) -> bool:
        """Return whether a topic is not deleted."""
        return bool(self.tables.all_bounds(topic))

    def ends(self, topic: Topic) -> dict[int, int]:
        """Return the next offset of every partition that ever held something."""
        return {number: each.stable for number, each in self._views(topic)}

    def all_bounds(self, topic: Topic, *, pinned: Collection[int] = ()) -> dict[int, Bounds]:
        """Return what every partition holds; it is part of no transaction, so nothing is pinned."""
        bounds = {
            number: Bounds(start, start) for number, (start, _) in self.tables.all_bounds(topic).items()
        }
        if bounds:
            for number, each in self._views(topic):
                bounds[number] = Bounds(each.start, max(each.start, each.stable))
        return bounds

    def _ranged(self, topic: Topic, ranges: Sequence[OffsetRange]) -> Iterator[Entry]:
        if not self.is_there(topic):
            return
        try:
            for number, low, high in ranges:
                yield from self.view(topic, number).entries(low, high)
        except Damaged:
            if self.is_there(topic):  # else its files are being removed
                raise

    def read_ranges(
        self, topic: Topic, ranges: Sequence[OffsetRange], *, max_bytes: int, bare: bool = False
    ) -> Chunk:
        """Return the records of several ranges; before damage it ends early, at damage it raises Damaged."""
        entries: list[Entry] = []
        size = 0
        try:
            for each in self._ranged(topic, ranges):
                if entries and not bare and size >= max_bytes:
                    return Chunk(entries, cut=True)
                entries.append(_bared(each) if bare else each._replace(owner=None))
                size += 0 if bare else each.size
        except Damaged:
            if not entries:
                raise
            return Chunk(entries, cut=True)
        return Chunk(entries, cut=not bare and size >= max_bytes)

    def at(self, topic: Topic, positions: Collection[Position], *, bare: bool = False) -> list[Entry]:
        """Return the records at some positions."""
        found = self._ranged(topic, searching.runs(positions))
        wanted = set(positions)
        return [
            _bared(each)._replace(owner=each.owner) if bare else each
            for each in found
            if (each.partition, each.offset) in wanted
        ]

    def first_offsets(self, topic: Topic, positions: Sequence[Position]) -> dict[int, int]:
        """Return where partitions go on."""
        found = {}
        for number, offset in positions:
            first = next(self._ranged(topic, [OffsetRange(number, offset, LAST_OFFSET)]), None)
            if first is not None:
                found[number] = first.offset
        return found

    def voids(self, topic: Topic, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return what of some ranges holds no record that counts, by the headers of the batches."""
        if not self.is_there(topic):
            return []
        compacted = has_policy(self.directory.disk, self._files(topic).path)
        return [
            OffsetRange(number, *each)
            for number, low, high in ranges
            for each in voids_in(self.view(topic, number), low, high, compacted=compacted)
        ]

    def offsets_at(
        self, topic: Topic, timestamp_ms: int, ranges: Sequence[OffsetRange] | None = None
    ) -> dict[int, int]:
        """Return the first offsets at or after a moment, by the index of times."""
        if ranges is None:
            ranges = [OffsetRange(number, *each) for number, each in self.all_bounds(topic).items()]
        return {
            each.partition: self.view(topic, each.partition).offset_at(timestamp_ms, *each[1:])
            for each in ranges
        }

    def find_id(
        self, topic: Topic, id: str, *, since_ms: int | None, walk: int | None, partition: int | None = None
    ) -> Search:
        """Look for a record by its id; segments whose filter does not know it are passed over."""
        place = place_in(id)
        if place is not None and place[0] == topic.id:
            found = self.at(topic, [Position(*place[1:])], bare=True)
            return Search(found[0]._replace(owner=None) if found else None, cut=False, gone=False)
        return searching.find_id(self, topic, id, since_ms=since_ms, walk=walk, partition=partition)

    def find_key(
        self, topic: Topic, within: OffsetRange, key: bytes, *, limit: int, last: bool = False
    ) -> list[Entry]:
        """Return records of a key in a range; segments whose filter does not know it are passed over."""
        if not self.is_there(topic):
            return []
        view = self.view(topic, within.partition)
        return searching.find_key(view, within, key, limit=limit, last=last)

    # -- keeping less

    def sizes(self, topic: Topic, ranges: Sequence[OffsetRange]) -> dict[int, int]:
        """Return the bytes in each range."""
        return {each.partition: sum(entry.size for entry in self._ranged(topic, [each])) for each in ranges}

    def reach(self, topic: Topic, ranges: Sequence[OffsetRange], sizes: Sequence[int]) -> dict[int, int]:
        """Return how far each range goes to hold that many bytes."""
        found = {}
        for each, wanted in zip(ranges, sizes, strict=True):
            found[each.partition] = each.high
            size = 0
            for entry in self._ranged(topic, [each]):
                size += entry.size
                if size >= wanted:
                    found[each.partition] = entry.offset + 1
                    break
        return found

    def trim(
        self, topic: Topic, ranges: Sequence[OffsetRange], *, unless: Callable[[], bool] = lambda: False
    ) -> int:
        """Let partitions begin later, durably; then segments that nobody needs are removed."""
        self.writer  # noqa: B018  # only the writer may
        if not self.is_there(topic):
            raise UnknownTopic(topic.name)
        partitions = {each.partition: self.partition(topic, each.partition) for each in ranges}
        starts = {each.partition: min(each.high, partitions[each.partition].end) for each in ranges}

        def change(tx: Transaction) -> None:
            if unless():
                raise StillNeeded(topic.name)
            for number, start in starts.items():
                tx.change("log", "head_put_start", topic_id=topic.id, partition=number, start=start)

        deleted = sum(max(0, start - partitions[number].start) for number, start in starts.items())
        if self._tx is not None:
            change(self._tx)
            return deleted  # the segments go with `sweep`, after the commit
        if unless():
            raise StillNeeded(topic.name)
        self.database.run(change)
        self.writer.call(lambda: _trim(partitions, starts))
        return deleted

    def clear(self, topic: Topic) -> None:
        """Let every partition begin where it ends."""
        ranges = [OffsetRange(number, each.start, each.end) for number, each in self._views(topic)]
        self.trim(topic, ranges)

    def sweep(self, topic: Topic) -> None:
        """Remove the segments below the starts that the tables say."""
        starts = {number: start for number, (start, _) in self.tables.all_bounds(topic).items() if start}
        if not starts:
            return
        partitions = {number: self.partition(topic, number) for number in starts} if self.writer else {}
        self.writer.call(lambda: _trim(partitions, starts))

    @property
    def trims_here(self) -> bool:
        """Whether this process writes: only the writer trims and tends."""
        return self.directory.is_writing

    def compaction(self, topic: Topic) -> Compaction | None:
        """Return how a topic is compacted."""
        return read_policy(self.directory.disk, self._files(topic).path)

    def compact(self, topic: Topic, compaction: Compaction | None) -> None:
        """Say how a topic is compacted; the writer does so from its next pass on."""
        if not self.is_there(topic):
            raise UnknownTopic(topic.name)
        if self._read_identity() is None:
            self.writer  # noqa: B018  # a directory says whose it is before anything is in it
        write_policy(self.directory.disk, self._files(topic).path, compaction)

    def tend(
        self,
        topic: Topic,
        below: Mapping[int, int],
        *,
        leaving: Callable[[Sequence[OffsetRange]], None],
        now_ms: int,
    ) -> bool:
        """Compact and compress closed segments, some in each pass."""
        if not self.is_there(topic):
            return False
        writer, upkeep = self.writer, self.directory.upkeep
        try:
            policy = self.compaction(topic)
        except ValueError as exc:  # nothing goes by a policy that nobody can read
            logger.error("topic %s is not compacted: %s", topic.name, exc)
            policy = None
        partitions = {number: self.partition(topic, number) for number, _ in self._views(topic)}
        return upkeep.run(writer, partitions, policy, below, leaving, now_ms)

    def erase(self, topic: Topic, positions: Collection[Position], *, owner: str | None = None) -> int:
        """Take the content out of records: their segments are rewritten beside and replaced."""
        writer = self.writer
        if not self.is_there(topic):
            raise UnknownTopic(topic.name)
        by_partition: dict[int, set[int]] = {}
        for number, offset in positions:
            by_partition.setdefault(number, set()).add(offset)
        return sum(
            writer.call(partial(erasing.erase, self.partition(topic, number), offsets, owner))
            for number, offsets in sorted(by_partition.items())
        )

    def owned(self, owner: str, limit: int) -> list[tuple[int, Entry]]:
        """Return records with an owner tag."""
        found: list[tuple[int, Entry]] = []
        for topic, entry in self._owned(owner):
            if len(found) == limit:
                break
            found.append((topic.id, entry))
        return found

    def count_owned(self, owner: str) -> int:
        """Return how many records have an owner tag."""
        return sum(1 for _ in self._owned(owner))

    def _owned(self, owner: str) -> Iterator[tuple[Topic, Entry]]:
        for topic in self.topics():
            for _, view in self._views(topic):
                for entry in searching.owned(view, owner):
                    yield topic, _bared(entry)._replace(owner=entry.owner)

    def hold(self, reader: str, topic: Topic, offsets: Mapping[int, int]) -> None:
        """Keep retention back for a named reader."""
        self.tables.hold(reader, topic, offsets)

    def holds(self, topic: Topic) -> dict[str, dict[int, int]]:
        """Return what is held of a topic."""
        return self.tables.holds(topic)

    def holds_of(self, topics: Sequence[Topic]) -> dict[int, dict[str, dict[int, int]]]:
        """Return what is held of several topics."""
        return self.tables.holds_of(topics)


def open_file_log(path: str, database: Database, clock: Clock = SYSTEM) -> FileLog:
    """Return the log in a directory, whose tables are in a database; nothing is opened yet."""
    return FileLog(LogDirectory.shared(Path(path), FilesSettings.load(), clock), database, clock)


def _read_start(database: Database, topic_id: int, partition: int) -> int:
    rows = database.look(lambda tx: tx.rows("log", "bounds", topic_id=topic_id, partition=partition))
    return int(rows[0][0]) if rows else 0


def _read_passed(database: Database, topic_id: int, partition: int) -> int:
    rows = database.look(lambda tx: tx.rows("log", "passed", topic_id=topic_id, partition=partition))
    return max((offset + _reach(bytes.fromhex(done)) for offset, done in rows), default=0)


def _reach(done: bytes) -> int:
    """Return how far the bits of a bitmap go, the lowest of each byte first."""
    there = done.rstrip(b"\0")
    return (len(there) - 1) * 8 + there[-1].bit_length() if there else 0


def _read_mark(database: Database) -> str:
    rows = database.look(lambda tx: tx.rows("log", "meta_read", name=_MARK))
    return str(rows[0][0]) if rows else ""


def _trim(partitions: Mapping[int, PartitionLog], starts: Mapping[int, int]) -> None:
    for number, start in starts.items():
        partitions[number].trim(start)


def _skip(partitions: Mapping[int, PartitionLog], offsets: Mapping[int, int]) -> None:
    for number, offset in offsets.items():
        partitions[number].skip_to(offset)


def _put_mark(tx: Transaction, mark: str) -> None:
    tx.change("log", "meta_forget", name=_MARK)
    tx.change("log", "meta_add", name=_MARK, value=mark)


def _parts(topic: Topic, batch: Batch) -> list[_BatchPart]:
    """Return which records of a batch go to which partition."""
    if batch.partition is not None:
        return [_BatchPart(batch.partition, list(range(len(batch.contents))))] if batch.contents else []
    parts: dict[int, list[int]] = {}
    for number, each in enumerate(batch.contents):
        place = partition_for(topic.partitioner, each.key, each.id, topic.partitions)
        parts.setdefault(place, []).append(number)
    return [_BatchPart(*each) for each in parts.items()]


def _appended(writer: LogWriter, writes: Sequence[PartitionWrite]) -> list[WriteResult]:
    """Hand writes over and wait until they are durable or refused."""
    done, results = Event(), list[WriteResult]()

    def told(found: Sequence[WriteResult]) -> None:
        results.extend(found)
        done.set()

    writer.append(writes, told, whole=True)
    done.wait()
    return results


def _bared(entry: Entry) -> Entry:
    return entry._replace(value=None, headers=None, owner=None)
