"""The log in files, behind the contract of every log.

Records are in segment files; topics, growths, holds and the last batches of producers are in the tables of a
SQLite file beside them. One process writes (`LogDirectory`); any may read. Each call takes effect at once;
inside a transaction of that SQLite file (`within`) its changes to the tables are part of it.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock

from penstock.clock import SYSTEM, Clock
from penstock.database.database import Database, Transaction
from penstock.errors import Damaged, FileUnreadable, StillNeeded, UnknownTopic

from ..contract import (
    LAST_OFFSET,
    Appended,
    Batch,
    Bounds,
    Chunk,
    Compaction,
    LogIdentity,
    OffsetRange,
    Position,
    Search,
    Topic,
)
from ..entry import Entry
from ..kafka_form import place_in
from ..sql.log import SqlLog
from ..sql.topics import TopicTables
from ..topics import topic_uuid
from . import rewriting, search
from .appender import Appender, ProducerNotes
from .claim import LogClaim
from .directory import LogDirectory, TopicFiles
from .disk import WriterLock
from .heads import PartitionHead
from .partition import PartitionLog
from .partition_view import PartitionView, voids_in
from .settings import FilesSettings
from .small_files import (
    forget_shortened,
    has_policy,
    read_policy,
    read_reservation,
    read_shortened,
    write_policy,
    write_reservation,
)
from .writer import LogWriter

logger = logging.getLogger("penstock.files")


class FileLog(TopicTables):
    """A log in a directory. Safe from any thread, unless it is within a transaction."""

    compacts = True

    def __init__(
        self, directory: LogDirectory, database: Database, clock: Clock = SYSTEM, tx: Transaction | None = None
    ) -> None:
        super().__init__(database, clock, tx)
        self.directory = directory
        self.tables = SqlLog(database, clock, tx)
        self._claim = LogClaim(directory, database, self.tables)
        self._notes = ProducerNotes(self)
        self._log_id: str | None = None
        self._appender = Appender(self, self._notes)
        self._closed = False
        self._close_lock = Lock()

    def within(self, tx: Transaction) -> "FileLog":
        """Return this log with its tables inside an open transaction of their database."""
        inside = FileLog(self.directory, self.database, self._clock, tx)
        inside._log_id = self._log_id
        return inside

    def close(self) -> None:
        """Stop writing, unless other users in this process have the same directory open."""
        with self._close_lock:
            if self._closed or self._tx is not None:
                return
            self._closed = True
        self.directory.close()

    # -- the writer

    @property
    def writer(self) -> LogWriter:
        """The writer of this process. Raises WriterElsewhere, LogMismatch."""
        return self.directory.writer(self._claim.claim)

    def claim(self) -> None:
        """Become the writer. Raises WriterElsewhere, LogMismatch."""
        self.writer  # noqa: B018

    def check_parts(self) -> None:
        """Check that directory and tables belong together, without writing. Raises LogMismatch."""
        if not self.directory.is_writing:  # the writer checked it when it started
            self._claim.check()

    def check_files(self) -> None:
        self.directory.files.check()

    # -- topics

    def raise_incarnation(self, above: int) -> LogIdentity:
        """Raise the incarnation in tables and directory; from now on they belong together again."""
        raised = super().raise_incarnation(above)
        if self._tx is None:
            self.database.run(self._claim.pass_over_newer)
            self._alone(lambda: self._claim.accept(raised))
        else:  # the directory is written before the commit: if that fails, the caller tries again
            self._claim.pass_over_newer(self._tx)
            identity = self._claim.accept_in(self._tx, raised)
            self._alone(lambda: self._claim.write(identity))
        return raised

    def skip_to(self, topic: Topic, offsets: Mapping[int, int]) -> None:
        """Reserve the offsets that readers have passed; the next append begins a new segment behind them."""
        files, disk = self.files_of(topic), self.directory.disk

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
        """Return the losses at the ends of partitions, as found by the writer and not accepted yet."""
        files, disk = self.files_of(topic), self.directory.disk
        numbers = sorted(int(name) for name in disk.names(files.path) if name.isdecimal())
        found = {number: read_shortened(disk, files.folder(number).path) for number in numbers}
        return {number: OffsetRange(number, *lost) for number, lost in found.items() if lost is not None}

    def _alone(self, work: Callable[[], None]) -> None:
        """Call a function while no other process writes. Raises WriterElsewhere."""
        if self.directory.is_writing:
            self.writer.call(work)
            return
        self.directory.disk.make_folder(self.directory.path)
        lock = WriterLock(self.directory.path)
        try:
            work()
        finally:
            lock.release()

    def grow(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions; unwritten records placed by the old map are placed again."""
        topic = self.topic(name)
        files, writer = self.files_of(topic), self.writer
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
        files.settled_maps = files.maps + 1
        files.maps += 1  # after the commit, so that readers of the number find the new map
        return grown

    def _begin_to_grow(self, files: TopicFiles) -> None:
        """Make appends that place by key wait until the growing transaction has ended."""
        files.maps += 1

    def settled_map(self, files: TopicFiles) -> int:
        """Return the number of a topic's map once no growth is in progress; read the topic after it."""
        maps = files.maps  # read first, so that a growth that begins now is noticed
        if files.is_growing:  # a write transaction cannot begin before the growing one has ended
            self.database.run(lambda tx: tx.rows("log", "topic_list"))
            files.settled_maps = maps
        return maps

    def delete_topic(self, name: str) -> None:
        topic = self.topic(name)
        files, writer = self.files_of(topic), self.writer
        self.tables.delete_topic(name)
        writer.call(lambda: self.directory.forget(files))

    # -- appending

    def append_all(self, batches: Sequence[Batch]) -> list[list[Position]]:
        return self._appender.append_all(batches)

    @property
    def appends_at_once(self) -> bool:
        return self._tx is None and self.directory.is_writing and self.writer.may_take_at_once

    def append_at_once(self, batches: Sequence[Batch]) -> list[list[Position]] | None:
        return self._appender.append_at_once(batches) if self.appends_at_once else None

    def durable(self, topic: Topic, position: Position) -> None:
        """Return at once: a record with a position is as durable as the settings demand."""

    def last_batch(self, producer: str) -> Appended | None:
        return self._notes.last(producer)

    # -- reading

    def files_of(self, topic: Topic) -> TopicFiles:
        """Return the files of a topic, even before any exist."""
        known = self.directory.known(topic.id)
        if known is not None:
            return known
        if self._log_id is None:
            self._log_id = self.identity().id
        return self.directory.topic(topic.id, topic_uuid(self._log_id, topic.id), topic.name)

    def held(self, topic: Topic, number: int) -> PartitionLog | None:
        """Return a partition for writing, if it is open already."""
        known = self.directory.known(topic.id)
        return None if known is None else known.partitions.get(number)

    def partition(self, topic: Topic, number: int) -> PartitionLog:
        """Return a partition for writing."""
        return self.directory.partition(
            self.files_of(topic),
            number,
            partial(_read_start, self.database, topic.id, number),
            partial(_read_passed, self.database, topic.id, number),
        )

    def view(self, topic: Topic, number: int) -> PartitionView:
        """Return a partition for reading."""
        files = self.files_of(topic)
        if self.directory.is_writing:
            return self.partition(topic, number)
        return self._reader(files, number, files.heads.get(number))

    def _reader(self, files: TopicFiles, number: int, head: PartitionHead | None) -> PartitionView:
        start = partial(_read_start, self.database, files.id, number)
        return self.directory.view(files, number, head, start)

    def _views(self, topic: Topic) -> Iterator[tuple[int, PartitionView]]:
        """Yield the partitions that ever held a record; none of a deleted topic."""
        for number, opened in self._openers(topic):
            view = opened()
            if view is not None:
                yield number, view

    def _bounds(self, topic: Topic) -> Iterator[tuple[int, int, int]]:
        """Yield number, start and end of the same partitions; as last published, if a file is unreadable."""
        for number, opened in self._openers(topic):
            try:
                view = opened()
                if view is None:
                    continue
                start, stable = view.start, view.stable
            except FileUnreadable:
                head = self.files_of(topic).heads.get(number)
                if head is None:
                    raise
                start, stable = head.start, head.stable
            yield number, start, stable

    def _openers(self, topic: Topic) -> Iterator[tuple[int, Callable[[], PartitionView | None]]]:
        """Yield the number of each partition with files, and a function that opens it."""
        if not self.is_there(topic):
            return
        files = self.files_of(topic)
        if self.directory.is_writing:
            names = self.directory.disk.names(files.path)
            there = {int(name) for name in names if name.isdecimal()} | files.partitions.keys()
            for number in sorted(there):
                yield number, partial(self.partition, topic, number)
        else:
            heads: dict[int, PartitionHead | None] = {**files.heads.all()}
            if len(heads) < topic.partitions:  # the others are empty, or their head is lost
                names = self.directory.disk.names(files.path)
                heads = {**dict.fromkeys(int(name) for name in names if name.isdecimal()), **heads}
            for number, head in sorted(heads.items()):
                yield number, partial(self._reader_there, files, number, head)

    def _reader_there(self, files: TopicFiles, number: int, head: PartitionHead | None) -> PartitionView | None:
        view = self._reader(files, number, head)
        return view if head is not None or view.segments else None

    def is_there(self, topic: Topic) -> bool:
        """Return whether a topic still exists."""
        return bool(self.tables.all_bounds(topic))

    def ends(self, topic: Topic) -> dict[int, int]:
        return {number: stable for number, _, stable in self._bounds(topic)}

    def all_bounds(self, topic: Topic, *, pinned: Collection[int] = ()) -> dict[int, Bounds]:
        """Return the bounds of every partition; files are outside any transaction, so nothing is pinned."""
        bounds = {number: Bounds(start, start) for number, (start, _) in self.tables.all_bounds(topic).items()}
        if bounds:
            for number, start, stable in self._bounds(topic):
                bounds[number] = Bounds(start, max(start, stable))
        return bounds

    def _ranged(self, topic: Topic, ranges: Sequence[OffsetRange]) -> Iterator[Entry]:
        if not self.is_there(topic):
            return
        try:
            for number, low, high in ranges:
                yield from self.view(topic, number).entries(low, high)
        except Damaged:
            if self.is_there(topic):  # otherwise its files are being removed
                raise

    def read_ranges(self, topic: Topic, ranges: Sequence[OffsetRange], *, max_bytes: int, bare: bool = False) -> Chunk:
        """Return the records of several ranges; it ends early before damage, and raises the error at it."""
        entries: list[Entry] = []
        size = 0
        try:
            for each in self._ranged(topic, ranges):
                if entries and not bare and size >= max_bytes:
                    return Chunk(entries, cut=True)
                entries.append(_bared(each) if bare else each._replace(owner=None))
                size += 0 if bare else each.size
        except (Damaged, FileUnreadable):
            if not entries:
                raise
            return Chunk(entries, cut=True)
        return Chunk(entries, cut=not bare and size >= max_bytes)

    def at(self, topic: Topic, positions: Collection[Position], *, bare: bool = False) -> list[Entry]:
        found = self._ranged(topic, search.runs(positions))
        wanted = set(positions)
        return [
            _bared(each)._replace(owner=each.owner) if bare else each
            for each in found
            if (each.partition, each.offset) in wanted
        ]

    def first_offsets(self, topic: Topic, positions: Sequence[Position]) -> dict[int, int]:
        found = {}
        for number, offset in positions:
            first = next(self._ranged(topic, [OffsetRange(number, offset, LAST_OFFSET)]), None)
            if first is not None:
                found[number] = first.offset
        return found

    def voids(self, topic: Topic, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """Return the void offsets in some ranges, from the headers of the batches."""
        if not self.is_there(topic):
            return []
        compacted = has_policy(self.directory.disk, self.files_of(topic).path)
        return [
            OffsetRange(number, *each)
            for number, low, high in ranges
            for each in voids_in(self.view(topic, number), low, high, compacted=compacted)
        ]

    def offsets_at(
        self, topic: Topic, timestamp_ms: int, ranges: Sequence[OffsetRange] | None = None
    ) -> dict[int, int]:
        if ranges is None:
            ranges = [OffsetRange(number, *each) for number, each in self.all_bounds(topic).items()]
        return {each.partition: self.view(topic, each.partition).offset_at(timestamp_ms, *each[1:]) for each in ranges}

    def find_id(
        self, topic: Topic, id: str, *, since_ms: int | None, walk: int | None, partition: int | None = None
    ) -> Search:
        """Look for a record by its id; segments whose filter excludes it are skipped."""
        place = place_in(id)
        if place is not None and place[0] == topic.id:
            found = self.at(topic, [Position(*place[1:])], bare=True)
            return Search(found[0]._replace(owner=None) if found else None, cut=False, gone=False)
        bounds = self.all_bounds(topic)
        begins = None if since_ms is None else self.offsets_at(topic, since_ms)
        return search.find_id(
            topic, id, bounds, begins, lambda number: self.view(topic, number), walk=walk, partition=partition
        )

    def find_key(self, topic: Topic, within: OffsetRange, key: bytes, *, limit: int, last: bool = False) -> list[Entry]:
        """Return records of a key in a range; segments whose filter excludes it are skipped."""
        if not self.is_there(topic):
            return []
        view = self.view(topic, within.partition)
        return search.find_key(view, within, key, limit=limit, last=last)

    # -- keeping less

    def sizes(self, topic: Topic, ranges: Sequence[OffsetRange]) -> dict[int, int]:
        return {each.partition: sum(entry.size for entry in self._ranged(topic, [each])) for each in ranges}

    def reach(self, topic: Topic, ranges: Sequence[OffsetRange], sizes: Sequence[int]) -> dict[int, int]:
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

    def trim(self, topic: Topic, ranges: Sequence[OffsetRange], *, unless: Callable[[], bool] = lambda: False) -> int:
        """Move the starts of partitions, durably; then remove the segments before them."""
        self.writer  # noqa: B018  # only the writer may trim
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
            return deleted  # `sweep` removes the segments, after the commit
        if unless():
            raise StillNeeded(topic.name)
        self.database.run(change)
        self.writer.call(lambda: _trim(partitions, starts))
        return deleted

    def clear(self, topic: Topic) -> None:
        ranges = [OffsetRange(number, each.start, each.end) for number, each in self._views(topic)]
        self.trim(topic, ranges)

    def sweep(self, topic: Topic) -> None:
        """Remove the segments below the starts in the tables."""
        starts = {number: start for number, (start, _) in self.tables.all_bounds(topic).items() if start}
        if not starts:
            return
        partitions = {number: self.partition(topic, number) for number in starts} if self.writer else {}
        self.writer.call(lambda: _trim(partitions, starts))

    @property
    def trims_here(self) -> bool:
        return self.directory.is_writing

    def compaction(self, topic: Topic) -> Compaction | None:
        return read_policy(self.directory.disk, self.files_of(topic).path)

    def compact(self, topic: Topic, compaction: Compaction | None) -> None:
        """Set the compaction of a topic; the writer applies it from its next pass on."""
        if not self.is_there(topic):
            raise UnknownTopic(topic.name)
        if self._claim.read() is None:
            self.writer  # noqa: B018  # a directory gets its identity before any other file
        write_policy(self.directory.disk, self.files_of(topic).path, compaction)

    def tend(
        self, topic: Topic, below: Mapping[int, int], *, leaving: Callable[[Sequence[OffsetRange]], None], now_ms: int
    ) -> bool:
        """Compact and compress closed segments, a bounded amount in each pass."""
        if not self.is_there(topic):
            return False
        writer, upkeep = self.writer, self.directory.upkeep
        try:
            policy = self.compaction(topic)
        except ValueError as exc:  # without a readable policy nothing is removed
            logger.error("topic %s is not compacted: %s", topic.name, exc)
            policy = None
        partitions = {}
        for number, _ in self._openers(topic):
            try:
                partitions[number] = self.partition(topic, number)
            except FileUnreadable as exc:
                logger.warning("no upkeep of partition %s of topic %s: %s", number, topic.name, exc)
        return upkeep.run(writer, partitions, policy, below, leaving, now_ms)

    def erase(self, topic: Topic, positions: Collection[Position], *, owner: str | None = None) -> int:
        """Remove the content of records: their segments are rewritten and replaced."""
        writer = self.writer
        if not self.is_there(topic):
            raise UnknownTopic(topic.name)
        by_partition: dict[int, set[int]] = {}
        for number, offset in positions:
            by_partition.setdefault(number, set()).add(offset)
        return sum(
            writer.call(partial(rewriting.erase, self.partition(topic, number), offsets, owner))
            for number, offsets in sorted(by_partition.items())
        )

    def owned(self, owner: str, limit: int) -> list[tuple[int, Entry]]:
        found: list[tuple[int, Entry]] = []
        for topic, entry in self._owned(owner):
            if len(found) == limit:
                break
            found.append((topic.id, entry))
        return found

    def count_owned(self, owner: str) -> int:
        return sum(1 for _ in self._owned(owner))

    def _owned(self, owner: str) -> Iterator[tuple[Topic, Entry]]:
        for topic in self.topics():
            for _, view in self._views(topic):
                for entry in search.owned(view, owner):
                    yield topic, _bared(entry)._replace(owner=entry.owner)


def open_file_log(path: str, database: Database, clock: Clock = SYSTEM) -> FileLog:
    """Return the log in a directory with its tables in a database; nothing is opened yet."""
    return FileLog(LogDirectory.shared(Path(path), FilesSettings.load(), clock), database, clock)


def _read_start(database: Database, topic_id: int, partition: int) -> int:
    rows = database.look(lambda tx: tx.rows("log", "bounds", topic_id=topic_id, partition=partition))
    return int(rows[0][0]) if rows else 0


def _read_passed(database: Database, topic_id: int, partition: int) -> int:
    rows = database.look(lambda tx: tx.rows("log", "passed", topic_id=topic_id, partition=partition))
    return max((offset + _reach(bytes.fromhex(done)) for offset, done in rows), default=0)


def _reach(done: bytes) -> int:
    """Return the length of a bitmap up to its last set bit; the lowest bit of each byte comes first."""
    there = done.rstrip(b"\0")
    return (len(there) - 1) * 8 + there[-1].bit_length() if there else 0


def _trim(partitions: Mapping[int, PartitionLog], starts: Mapping[int, int]) -> None:
    for number, start in starts.items():
        partitions[number].trim(start)


def _skip(partitions: Mapping[int, PartitionLog], offsets: Mapping[int, int]) -> None:
    for number, offset in offsets.items():
        partitions[number].skip_to(offset)


def _bared(entry: Entry) -> Entry:
    return entry._replace(value=None, headers=None, owner=None)
