"""The log as far as this process knows it: its ends, and the records just read from it or moved into it.

Records never change, except when they are erased, and then their partitions change owners. So a row that was read once
serves every group, each with its own fence. Rows are kept for a second, within a bound of bytes: those read only for
topics that several groups read, those moved here for every topic that a group reads. `MovedRecords` are on their way
from the mover to the cache.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from threading import Lock

from penstock.backoff import Backoff
from penstock.clock import Clock
from penstock.log.contract import Chunk, Log, OffsetRange, Topic
from penstock.log.entry import Entry
from penstock.outbox.sequencer import HeadEnds


class LogEnds:
    """The ends of the partitions of all topics that are read here, looked up for all groups at once.

    A look is due when the bell rings and from time to time. The sequencer of this process reports what it has moved:
    that needs no look. `ring` and `grown` are for any thread, the rest for the delivery loop's.
    """

    def __init__(self, log: Log, backoff: Backoff) -> None:
        self._log, self._backoff = log, backoff
        self._topics: dict[str, Topic] = {}
        self._ends: dict[int, dict[int, int]] = {}  # by the id of the topic: a recreated one has another
        self._grown: deque[HeadEnds] = deque()
        self._news: dict[int, set[int]] = {}  # by the id of the topic: partitions grown since `told`
        self._rung = True
        self.next_look = 0.0

    def ring(self) -> None:
        """Report that the log has grown; the next look comes at once."""
        self._rung = True

    def grown(self, ends: HeadEnds) -> None:
        """Report how far the log has grown: no look is needed to know it."""
        self._grown.append(ends)

    def add(self, topic: Topic) -> None:
        """Track the ends of one more topic; a recreated topic replaces the former one."""
        former = self._topics.get(topic.name)
        if former is not None and former.id != topic.id:
            del self._ends[former.id]
        self._ends.setdefault(topic.id, {})
        self._topics[topic.name] = topic

    def has(self, ends: HeadEnds) -> bool:
        """Return whether all these topics are read here."""
        return all(head.topic_id in self._ends for head in ends)

    def of(self, topic_id: int) -> dict[int, int]:
        """Return the end of each partition of a topic, if it is known and was not recreated."""
        return self._ends.get(topic_id, {})

    def news(self, topic_id: int) -> Collection[int]:
        """Return the partitions of a topic that have grown since `told`."""
        return self._news.get(topic_id, ())

    def told(self) -> None:
        """Record that all groups know the present ends."""
        self._news.clear()

    def refresh(self, now: float) -> bool:
        """Look if that is due, and take in the reported ends; return whether there was a look."""
        looked = self._rung or now >= self.next_look
        if looked:
            self._rung = False
            try:
                for topic in self._topics.values():
                    found = self._log.ends(topic)
                    if found != self._ends[topic.id]:  # else groups need not look at each partition
                        self._ends[topic.id] = found
            except BaseException:
                self._rung = True
                raise
        while self._grown:
            for (topic_id, partition), end in self._grown.popleft().items():
                known = self._ends.get(topic_id)
                if known is not None and end > known.get(partition, 0):
                    known[partition] = end
                    self._news.setdefault(topic_id, set()).add(partition)
        return looked

    def plan_next(self, now: float, *, found: bool) -> None:
        """Plan the next look, after one; it comes sooner if that found anything."""
        self.next_look = now + (self._backoff.active() if found else self._backoff.idle())


KEPT_BYTES = 16_000_000
_KEPT_SECONDS = 1.0
_OBJECT_BYTES = 140  # memory of an entry beside its counted size


class ReadCache:
    """Reads the log for the groups of one delivery loop, and keeps the rows for a moment. Not thread-safe.

    A range is served from the cache up to the first gap, if it holds its first offset; all else is read.
    """

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
