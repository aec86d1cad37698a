"""The log in database rows: one row per record, one head per partition.

Each call is its own transaction, or part of one that the caller has begun (`within`).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from penstock.database.contract import Rows
from penstock.database.database import Transaction
from penstock.errors import PickChanged, StillNeeded, UnknownTopic
from penstock.model.partition import partition_for

from ..contract import Appended, Batch, Bounds, Chunk, OffsetRange, Position, Search, Topic, check_partition
from ..entry import Entry, is_cut
from . import append
from .topics import TopicTables, find_topic, remove_topic

_SWEPT_ROWS = 10_000  # most records that one transaction of a sweep removes


class SqlLog(TopicTables):
    """A log in one database. Safe from any thread, unless it is within a transaction."""

    def within(self, tx: Transaction) -> "SqlLog":
        return SqlLog(self.database, self._clock, tx)

    def delete_topic(self, name: str) -> None:
        """Remove a topic: its name and heads at once, its records in bounded transactions."""
        topic = self._run(lambda tx: remove_topic(tx, name))
        if self._tx is None:
            self.sweep(topic)

    # -- appending

    def append_all(self, batches: Sequence[Batch]) -> list[list[Position]]:
        return self._run(lambda tx: append.append_all(tx, batches))

    def durable(self, topic: Topic, position: Position) -> None:
        """Return at once: a commit is as durable as the database's settings demand."""

    def last_batch(self, producer: str) -> Appended | None:
        return self._look(lambda tx: append.last_batch(tx, producer))

    # -- reading

    def ends(self, topic: Topic) -> dict[int, int]:
        return {partition: end for partition, _, end in self.rows("heads_list", topic)}

    def all_bounds(self, topic: Topic, *, pinned: Collection[int] = ()) -> dict[int, Bounds]:
        if pinned:
            self.rows("heads_pin", topic, partitions=sorted(pinned))
        rows = self.rows("heads_all", topic)
        return {partition: Bounds(start, end) for partition, start, end in rows}

    def bounds_of(self, topics: Sequence[Topic]) -> dict[int, dict[int, Bounds]]:
        found: dict[int, dict[int, Bounds]] = {each.id: {} for each in topics}
        rows = self._look(lambda tx: tx.rows("log", "heads_of_topics", topics=sorted(found))) if found else []
        for topic_id, partition, start, end in rows:
            found[topic_id][partition] = Bounds(start, end)
        return found

    def bounds(self, topic: str, partition: int) -> Bounds:
        def look(tx: Transaction) -> Bounds:
            found = find_topic(tx, topic)
            check_partition(found, partition)
            rows = tx.rows("log", "bounds", topic_id=found.id, partition=partition)
            if not rows:  # deleted meanwhile
                raise UnknownTopic(topic)
            return Bounds(*rows[0])

        return self._look(look)

    def read_ranges(self, topic: Topic, ranges: Sequence[OffsetRange], *, max_bytes: int, bare: bool = False) -> Chunk:
        """Return the records of several ranges with one query; bare ones are never cut."""
        table = ranges_table(ranges)
        if bare:
            return Chunk([Entry(*row) for row in self.rows("read_bare", topic, ranges=table)], cut=False)
        rows = self.rows("read_ranges", topic, ranges=table, max_bytes=max(1, max_bytes))
        entries = [Entry(*row) for row in rows]
        return Chunk(entries, is_cut(entries, max_bytes))

    def at(self, topic: Topic, positions: Collection[Position], *, bare: bool = False) -> list[Entry]:
        if not positions:
            return []
        places = Rows.of("partition place", sorted(set(positions)))
        return [Entry(*row) for row in self.rows("at", topic, places=places, bare=bare)]

    def times_at(self, places: Mapping[Topic, Collection[Position]]) -> dict[int, dict[Position, int]]:
        found: dict[int, dict[Position, int]] = {topic.id: {} for topic in places}
        wanted = sorted({(topic.id, *each) for topic, positions in places.items() for each in positions})
        if wanted:
            table = Rows.of("topic_id partition place", wanted)
            for topic_id, partition, offset, time_ms in self._look(lambda tx: tx.rows("log", "times_at", places=table)):
                found[topic_id][Position(partition, offset)] = time_ms
        return found

    def first_offsets(self, topic: Topic, positions: Sequence[Position]) -> dict[int, int]:
        return dict(self.rows("first_offsets", topic, places=Rows.of("partition low", positions)))

    def offsets_at(
        self, topic: Topic, timestamp_ms: int, ranges: Sequence[OffsetRange] | None = None
    ) -> dict[int, int]:
        if ranges is None:
            ranges = [OffsetRange(number, *each) for number, each in self.all_bounds(topic).items()]
        if not ranges:
            return {}
        return dict(self.rows("offsets_at", topic, ranges=ranges_table(ranges), cutoff_ms=timestamp_ms))

    def find_id(
        self, topic: Topic, id: str, *, since_ms: int | None, walk: int | None, partition: int | None = None
    ) -> Search:
        params: dict[str, Any] = {"since_ms": since_ms, "walk": walk, "partition": partition}
        return self._look(lambda tx: _find_id(tx, topic, id, **params))

    def find_key(self, topic: Topic, within: OffsetRange, key: bytes, *, limit: int, last: bool = False) -> list[Entry]:
        params = {**within._asdict(), "key": key, "limit": limit}
        rows = self.rows("find_key_last" if last else "find_key", topic, **params)
        return [Entry(*row) for row in rows]

    def find_key_in(self, topic: Topic, ranges: Sequence[OffsetRange], key: bytes) -> list[Entry]:
        if not ranges:
            return []
        return [Entry(*row) for row in self.rows("find_key_in", topic, ranges=ranges_table(ranges), key=key)]

    # -- keeping less

    def sizes(self, topic: Topic, ranges: Sequence[OffsetRange]) -> dict[int, int]:
        return dict(self.rows("sizes", topic, ranges=ranges_table(ranges)))

    def reach(self, topic: Topic, ranges: Sequence[OffsetRange], sizes: Sequence[int]) -> dict[int, int]:
        table = Rows(**ranges_table(ranges).columns, bytes=list(sizes))
        return dict(self.rows("reach", topic, ranges=table))

    def trim(self, topic: Topic, ranges: Sequence[OffsetRange], *, unless: Callable[[], bool] = lambda: False) -> int:
        """Delete the oldest records; lock the rows that publishers and sequencers need last, and briefly."""
        params = {"topic_id": topic.id, "ranges": ranges_table(ranges)}
        expected = sum(each.high - each.low for each in ranges)

        def change(tx: Transaction) -> int:
            deleted = tx.change("log", "trim_delete", **params)
            if deleted != expected and tx.rows("log", "trim_left", **params):
                raise PickChanged(expected, deleted)  # some were erased meanwhile, which moves their rows
            tx.change("log", "trim_times", **params)
            tx.change("log", "trim_raise", **params)
            if unless():
                raise StillNeeded(topic.name)
            return deleted

        return self._run(change)

    def clear(self, topic: Topic) -> None:
        """Move the start of every partition to its end; bounded transactions remove the records."""

        def change(tx: Transaction) -> None:
            tx.change("log", "times_delete", topic_id=topic.id)
            tx.change("log", "heads_to_end", topic_id=topic.id)

        self._run(change)
        if self._tx is None:
            self.sweep(topic)

    def sweep(self, topic: Topic) -> None:
        """Remove the remaining records of a deleted or cleared topic, in separate bounded transactions."""
        gone = topic.id not in {each.id for each in self.topics()}
        name = "sweep_deleted" if gone else "sweep_cleared"
        params = {"topic_id": topic.id, "limit": _SWEPT_ROWS}
        while self.database.run(lambda tx: tx.change("log", name, **params)):
            pass

    def erase(self, topic: Topic, positions: Collection[Position], *, owner: str | None = None) -> int:
        if not positions:
            return 0
        places = Rows.of("partition place", sorted(set(positions)))
        params = {"topic_id": topic.id, "places": places, "owner": owner}
        return self._run(lambda tx: tx.change("log", "erase_records", **params))

    def owned(self, owner: str, limit: int) -> list[tuple[int, Entry]]:
        rows = self._look(lambda tx: tx.rows("log", "owned", owner=owner, limit=limit))
        return sorted((row[0], Entry(*row[1:])) for row in rows)

    def count_owned(self, owner: str) -> int:
        return int(self._look(lambda tx: tx.rows("log", "owned_count", owner=owner))[0][0])


def _find_id(
    tx: Transaction, topic: Topic, id: str, *, since_ms: int | None, walk: int | None, partition: int | None
) -> Search:
    """Look for a record by time: ids have no index but hold their creation time; first in its likely partition."""
    rows = tx.rows("log", "search_starts", topic_id=topic.id, time_ms=since_ms)
    if partition is not None:
        rows = [row for row in rows if row[0] == partition]
    own = partition_for(topic.partitioner, None, id, topic.partitions)
    rows.sort(key=lambda row: row[0] != own)
    ranges, cut, gone = list[OffsetRange](), False, False
    for number, start, end, mark, first_ms in rows:
        if walk is None:
            low, high = start, end
        else:
            low = max(start, end - walk) if since_ms is None else max(start, mark or 0)
            high = min(end, low + walk)
        cut |= high < end or (since_ms is None and low > start)
        gone |= start > 0 and (since_ms is None or first_ms is None or first_ms >= since_ms)
        if low < high:
            ranges.append(OffsetRange(number, low, high))
    if not ranges:
        return Search(None, cut, gone)
    found = tx.rows("log", "find_id", ranges=ranges_table(ranges), topic_id=topic.id, id=id)
    return Search(Entry(*found[0]) if found else None, cut, gone)


def ranges_table(ranges: Sequence[OffsetRange]) -> Rows:
    """Return ranges as a statement parameter."""
    return Rows.of("partition low high", ranges)
