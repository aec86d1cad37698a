"""The read cache: the records this process has just read from the log, or moved into it, kept for its groups.

Records never change, except when they are erased, and then their partitions change owners. So a row that was
read once serves every group; each group gets records of its own, with its own fence. Rows are kept for a
second, within a bound of bytes: rows read from the log only for topics that several groups read, rows moved
here for every topic that a group reads. A range is served from the cache up to the first gap, if the cache
holds its first offset; everything else is read. `MovedRecords` are on their way from the mover to the cache.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

from penstock.clock import Clock
from penstock.log.contract import Chunk, Log, OffsetRange, Topic
from penstock.log.entry import Entry

KEPT_BYTES = 16_000_000
_KEPT_SECONDS = 1.0
_OBJECT_BYTES = 140  # memory of an entry beside its counted size


class ReadCache:
    """Reads the log for the groups of one delivery loop, and keeps the rows for a moment. Not thread-safe."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._readers: Counter[int] = Counter()
        self._rows: dict[tuple[int, int, int], Entry] = {}
        self._bytes, self._since = 0, 0.0

    def expect(self, topic: Topic) -> None:
        """Record that one more group reads a topic."""
        self._readers[topic.id] += 1

    def tidy(self) -> None:
        """Throw away rows that are older than the limit."""
        if self._rows and self._clock.monotonic() - self._since > _KEPT_SECONDS:
            self.clear()

    def clear(self) -> None:
        """Throw away everything: partitions change hands, and that may be because records were erased."""
        self._rows, self._bytes = {}, 0

    def offer(self, entries: Iterable[tuple[int, Entry]]) -> None:
        """Keep records that were just moved into the log, each with the id of its topic."""
        by_topic: dict[int, list[Entry]] = {}
        for topic_id, entry in entries:
            if self._readers[topic_id]:
                by_topic.setdefault(topic_id, []).append(entry)
        for topic_id, some in by_topic.items():
            self._keep(topic_id, some)

    def read_ranges(self, topic: Topic, ranges: Sequence[OffsetRange], *, max_bytes: int) -> Chunk:
        """Return the same records as the log, perhaps fewer of a range, but never none of it."""
        absent = [each for each in ranges if (topic.id, *each[:2]) not in self._rows]
        is_shared = self._readers[topic.id] > 1
        if not is_shared and len(absent) == len(ranges):
            return self._log.read_ranges(topic, ranges, max_bytes=max_bytes)
        read = self._log.read_ranges(topic, absent, max_bytes=max_bytes).entries if absent else ()
        entries, size = list[Entry](), 0
        for entry in self._in_order(topic.id, ranges, deque(read)):
            entries.append(entry)
            size += entry.content.size
            if size >= max_bytes:  # as the log truncates: the rows just read are cut there, or earlier
                break
        if is_shared:
            self._keep(topic.id, read)
        return Chunk(entries, size >= max_bytes)

    def _in_order(self, topic_id: int, ranges: Sequence[OffsetRange], read: deque[Entry]) -> Iterator[Entry]:
        for partition, low, high in ranges:
            if (topic_id, partition, low) in self._rows:
                offset = low
                while offset < high and (row := self._rows.get((topic_id, partition, offset))):
                    yield row
                    offset += 1
            else:
                while read and read[0].partition == partition and low <= read[0].offset < high:
                    yield read.popleft()

    def _keep(self, topic_id: int, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        size = sum(each.content.size + _OBJECT_BYTES for each in entries)
        if self._bytes + size > KEPT_BYTES:
            self.clear()
        if not self._rows:
            self._since = self._clock.monotonic()
        if size <= KEPT_BYTES:
            self._rows.update({(topic_id, each.partition, each.offset): each for each in entries})
            self._bytes += size


MOST_MOVED_BYTES = 64_000  # moved at once: more is not handed over
_WAITING_BYTES = 1_000_000  # not fetched yet: more is dropped, and read from the log

TopicEntry = tuple[int, Entry]  # a record and the id of its topic


class MovedRecords:
    """A queue with a bound in bytes: records beyond it are dropped, since the log has them. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: deque[TopicEntry] = deque()
        self._bytes, self._lock = 0, Lock()

    def put(self, entries: Sequence[TopicEntry]) -> None:
        """Hand over records whose move is known to have committed."""
        size = sum(entry.size + _OBJECT_BYTES for _, entry in entries)
        with self._lock:
            if self._bytes + size <= _WAITING_BYTES:
                self._waiting.extend(entries)
                self._bytes += size

    def fetch(self) -> list[TopicEntry]:
        """Return the waiting records, and forget them."""
        if not self._waiting:
            return []
        with self._lock:
            found = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
        return found
