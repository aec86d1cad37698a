"""The log in database rows: one row per record, one head per partition."""

from collections.abc import Mapping, Sequence

from penstock.clock import SYSTEM, Clock
from penstock.errors import OffsetOutOfRange, PartitionsDiffer, Undecodable, UnknownPartition, UnknownTopic
from penstock.model.limits import check_topic
from penstock.model.partition import check_partitions, key_hash
from penstock.model.partition import partition as partition_of
from penstock.model.record import RawHeaders, Record
from penstock.wire.kafka.headers import decode_headers, encode_headers

from ..contract import DEFAULT_MAX_BYTES, OUTBOX_PARTITIONS, Bounds, Position, Topic
from .contract import Row, Rows
from .database import Database, Transaction
from .heads import HeadKey, Numbering, create_topic, find_topics, keep_topics

_FORGET = (
    "topic_delete",
    "heads_delete",
    "times_delete",
    "cursors_delete",
    "lanes_delete",
    "entries_delete",
    "dead_delete",
    "domains_delete",
)
_DELETE_ROWS = 10_000  # records of a deleted topic removed in one transaction
_LAST_OFFSET = (1 << 63) - 1


class SqlLog:
    """A log in one database. Safe from any thread; each call is a transaction of its own."""

    def __init__(self, database: Database, clock: Clock = SYSTEM) -> None:
        self._database, self._clock = database, clock

    def create_topic(self, name: str, *, partitions: int = OUTBOX_PARTITIONS) -> Topic:
        """Make a topic, or return the one there is."""
        check_topic(name)
        check_partitions(partitions)
        topic = self._database.run(lambda tx: create_topic(tx, name, partitions, self._clock.now_ms()))
        if topic.partitions != partitions:
            raise PartitionsDiffer(name, topic.partitions, partitions)
        return topic

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        return [Topic(*row) for row in self._database.look(lambda tx: tx.rows("log", "topic_list"))]

    def topic(self, name: str) -> Topic:
        """Return a topic by name."""
        return self._database.look(lambda tx: _topic(tx, name))

    def delete_topic(self, name: str) -> None:
        """Remove a topic: its name, heads and cursors at once, its records in bounded transactions."""
        topic_id = self._database.run(lambda tx: forget_topic(tx, name))
        remove_records(self._database, topic_id)

    def append(
        self, topic: str, records: Sequence[Record], *, partition: int | None = None
    ) -> list[Position]:
        """Add records at the end and return where they stand."""
        if not records:
            self.topic(topic)
            return []
        return self._database.run(lambda tx: _append(tx, topic, records, partition))

    def read(
        self,
        topic: str,
        partition: int,
        offset: int = 0,
        limit: int = 1000,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> list[Record]:
        """Return the records from an offset on."""
        return self._database.look(lambda tx: _read(tx, topic, partition, offset, limit, max_bytes))

    def ends(self, topic: Topic) -> dict[int, int]:
        """Return the next offset of every partition that ever held something."""
        rows = self._database.look(lambda tx: tx.rows("log", "heads_list", topic_id=topic.id))
        return {partition: end for partition, _, end in rows}

    def read_ranges(
        self,
        topic: Topic,
        ranges: Sequence[tuple[int, int, int]],
        fences: Mapping[int, int],
        *,
        max_bytes: int,
    ) -> tuple[list[tuple[Record, Exception | None]], bool]:
        """Return the records of several ranges (partition, from, to before) in one look, for their owner.

        In the order of the ranges, and no more than so many bytes of values, but one record at least; also
        whether some may have been cut off after the last one for that reason. `fences` are the epochs of the
        partitions. A record that cannot be read whole comes with the error.
        """
        return fenced_records(
            topic.name, self.range_rows(topic, ranges, max_bytes=max_bytes), fences, max_bytes
        )

    def range_rows(
        self, topic: Topic, ranges: Sequence[tuple[int, int, int]], *, max_bytes: int
    ) -> list[Row]:
        """Return the rows that `read_ranges` makes records of."""
        partitions, starts, ends = (list(column) for column in zip(*ranges, strict=True))
        wanted = Rows(partition=partitions, low=starts, high=ends)
        params = {"topic_id": topic.id, "ranges": wanted, "max_bytes": max_bytes}
        return self._database.look(lambda tx: tx.rows("log", "read_ranges", **params))

    def first_offsets(self, topic: Topic, places: Sequence[tuple[int, int]]) -> dict[int, int]:
        """Return where some partitions go on: the first offset at or after a place of each, if any."""
        partitions, lows = (list(column) for column in zip(*places, strict=True))
        wanted = Rows(partition=partitions, low=lows)
        params = {"topic_id": topic.id, "places": wanted}
        return dict(self._database.look(lambda tx: tx.rows("log", "first_offsets", **params)))

    def bounds(self, topic: str, partition: int) -> Bounds:
        """Return the first offset kept and the next to be given."""
        return self._database.look(lambda tx: _bounds(tx, _topic(tx, topic), partition))

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """Return the first offset at or after a moment; the end when there is none."""

        def look(tx: Transaction) -> int:
            found = _topic(tx, topic)
            bounds = _bounds(tx, found, partition)
            rows = tx.rows(
                "log", "offset_at", topic_id=found.id, partition=partition, timestamp_ms=timestamp_ms
            )
            return int(rows[0][0]) if rows else bounds.end

        return self._database.look(look)


def fenced_records(
    topic: str, rows: Sequence[Row], fences: Mapping[int, int], max_bytes: int
) -> tuple[list[tuple[Record, Exception | None]], bool]:
    """Return the records of rows read up to so many bytes, and whether that may have cut some off."""
    found, size = [], 0
    for partition, offset, id, key, type, value, headers, timestamp_ms in rows:
        error: Exception | None = None
        pairs: RawHeaders = ()
        if headers:
            try:
                pairs = decode_headers(headers)
            except Undecodable as exc:
                error = Undecodable(f"the headers of {topic}/{partition}/{offset}", str(exc))
        text = None if key is None else key.decode("utf-8", "surrogateescape")
        place = topic, partition, offset
        record = Record(id, text, value, type, pairs, timestamp_ms, *place, fence=fences[partition])
        found.append((record, error))
        size += len(value or b"")
    return found, size >= max_bytes


def record_of(topic: str, partition: int, row: Row) -> Record:
    """Return the record that a row of the log holds: offset, id, key, type, value, headers, timestamp."""
    offset, id, key, type, value, headers, timestamp_ms = row
    return Record(
        id,
        None if key is None else key.decode("utf-8", "surrogateescape"),
        value,
        type,
        decode_headers(headers) if headers else (),
        timestamp_ms,
        topic,
        partition,
        offset,
    )


def _topic(tx: Transaction, name: str, *, keep: bool = False) -> Topic:
    check_topic(name)
    topic = (keep_topics if keep else find_topics)(tx, [name]).get(name)
    if topic is None:
        raise UnknownTopic(name)
    return topic


def forget_topic(tx: Transaction, name: str) -> int:
    """Remove a topic but for its records, and return its id; then call `remove_records`."""
    topic = _topic(tx, name)
    for statement in _FORGET:
        tx.change("log", statement, topic_id=topic.id)
    return topic.id


def remove_records(database: Database, topic_id: int) -> None:
    """Remove the records of a topic that is forgotten, in bounded transactions."""
    while database.run(lambda tx: tx.change("log", "log_delete", topic_id=topic_id, limit=_DELETE_ROWS)):
        pass


def _append(tx: Transaction, name: str, records: Sequence[Record], partition: int | None) -> list[Position]:
    topic = _topic(tx, name, keep=True)
    if partition is None:
        keys = [HeadKey(topic.id, partition_of(_hash(record), topic.partitions)) for record in records]
    else:
        keys = [HeadKey(topic.id, _checked(topic, partition))] * len(records)
    numbering = Numbering(tx, keys)
    offsets = [numbering.give(key, record.timestamp_ms) for key, record in zip(keys, records, strict=True)]
    tx.bulk(
        "log",
        "append",
        [
            (*key, offset, *_columns(record))
            for key, offset, record in zip(keys, offsets, records, strict=True)
        ],
    )
    numbering.finish()
    return [Position(key.partition, offset) for key, offset in zip(keys, offsets, strict=True)]


def _key(record: Record) -> bytes | None:
    """Return a key's bytes; one that was no UTF-8 when it came in goes out as it came."""
    return None if record.key is None else record.key.encode("utf-8", "surrogateescape")


def _hash(record: Record) -> int:
    key = _key(record)
    return key_hash(record.id if key is None else key)


def _columns(record: Record) -> tuple[object, ...]:
    return (
        record.id,
        _key(record),
        record.type,
        record.data,
        encode_headers(record.raw_headers) if record.raw_headers else None,
        record.timestamp_ms,
        None,
    )


def _read(
    tx: Transaction, name: str, partition: int, offset: int, limit: int, max_bytes: int
) -> list[Record]:
    topic = _topic(tx, name)
    if not 0 <= offset <= _LAST_OFFSET:  # no column could hold it
        raise OffsetOutOfRange(name, partition, offset, *_bounds(tx, topic, partition))
    rows = tx.rows(
        "log",
        "read",
        topic_id=topic.id,
        partition=_checked(topic, partition),
        offset=offset,
        limit=limit,
        max_bytes=max_bytes,
    )
    if not rows or rows[0][0] != offset:
        bounds = _bounds(tx, topic, partition)
        if not bounds.start <= offset <= bounds.end:
            raise OffsetOutOfRange(name, partition, offset, *bounds)
    return [record_of(name, partition, row) for row in rows]


def _bounds(tx: Transaction, topic: Topic, partition: int) -> Bounds:
    _checked(topic, partition)
    rows = tx.rows("log", "bounds", topic_id=topic.id, partition=partition)
    if not rows:  # deleted since it was found
        raise UnknownTopic(topic.name)
    return Bounds(*rows[0])


def _checked(topic: Topic, partition: int) -> int:
    if not isinstance(partition, int) or not 0 <= partition < topic.partitions:
        raise UnknownPartition(topic.name, partition, topic.partitions)
    return partition
