"""Writing back: the rows of a query become records of topics, exactly once, by `format("penstock")`.

Tasks hold their rows back in the database, each attempt under its own number; the driver releases the
attempts that Spark names, in one transaction that also records the query and its batch
(`log/sql/parted_writes.py`). So a batch that runs again, with any number of tasks, is written once.

A stream is known by the id in its checkpoint, a batch write by `txnAppId` and `txnVersion`; without them a
repeated write cannot be recognised.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.clock import SYSTEM
from penstock.database.naming import DEFAULT_PREFIX, Names
from penstock.database.url import plain_url
from penstock.errors import InvalidColumn, InvalidOption, StoreUnsupported, ValueTooLarge
from penstock.log.contract import Topic
from penstock.log.entry import event_names
from penstock.log.sql.parted_writes import PartedWrite, PartedWrites, PartRecords, WritePart
from penstock.log.store import Store, open_store
from penstock.model.ids import new_id
from penstock.model.limits import ERASED, LAST_TIME_MS, LimitsSettings, check_topic, check_type
from penstock.model.partition import partition_for
from penstock.model.record import TOKEN
from penstock.wire.kafka.headers import encode_headers

from .address import is_kafka
from .checkpoint import read_batch, write_number
from .columns import is_bytes, is_headers, is_text
from .source.options import check_known
from .versions import StreamArrowWriter, arrow_schema_of, freeze_modules

_TOGETHER = 5_000  # records of one transaction of a task
_TOGETHER_BYTES = 16 << 20
_TEXT = "STRING or BINARY"
_OPTIONS = ("url", "topic", "prefix", "schema", "txnAppId", "txnVersion", "txnContent", "checkpointLocation")
_MICROSECONDS = 1000  # a scalar of Arrow would bring pandas, which takes half a second


@dataclass
class HeldPart(WriterCommitMessage):
    """The rows that one attempt of a task holds back; None: it had no rows."""

    part: WritePart | None = None


@dataclass(frozen=True)
class WriteTarget:
    """The target of a write: the store, and the topic of rows that name none."""

    url: str
    names: Names
    topic: str | None

    def open(self) -> Store:
        """Open the store. Raises StoreUnsupported."""
        if is_kafka(self.url):
            raise StoreUnsupported(
                "writing back to topics exactly once",
                "the database itself, as in postgresql://host/shop; to a Kafka cluster Spark's own Kafka "
                "sink writes, at least once",
            )
        store = open_store(self.url, self.names)
        if not store.is_one:
            store.close()
            raise StoreUnsupported(
                "writing back to topics exactly once",
                "a log in a database, and this one is in files; write to a database's, or serve this one "
                "(penstock serve --kafka) and use Spark's Kafka sink, which writes at least once",
            )
        return store

    def check(self) -> None:
        """Check the target before anything is written. Raises StoreUnsupported, UnknownTopic."""
        with closing(self.open()) as store:
            if self.topic is not None:
                store.log.topic(self.topic)


def _parts(messages: Sequence[Any]) -> list[WritePart]:
    return [each.part for each in messages if isinstance(each, HeldPart) and each.part is not None]


@dataclass
class _PartWriter:
    target: WriteTarget
    store: Store
    belongs_to: tuple[str, int]
    topics: dict[str, Topic] = field(default_factory=dict)
    most_bytes: int = field(default_factory=lambda: LimitsSettings.load().event_bytes)

    def write(self, batches: Iterator[pa.RecordBatch]) -> WritePart | None:
        parts = PartedWrites(self.store.database)
        id, count = parts.new_part(), 0
        for batch in batches:
            for piece in _pieces(batch):
                parts.add(id, self._records(piece), begins=None if count else self.belongs_to)
                count += piece.num_rows
        known = {topic.name: (topic.id, topic.generation) for topic in self.topics.values()}
        return WritePart(id, count, known) if count else None

    def _records(self, rows: pa.RecordBatch) -> PartRecords:
        now_ms, many = SYSTEM.now_ms(), rows.num_rows
        key, value = (_bytes(rows, name) for name in ("key", "value"))
        times = _times(rows, now_ms)
        types = [each or "" for each in _values(rows, "type")]
        if ERASED in types:
            raise InvalidColumn("type", f"says {ERASED}, which is reserved for erased records")
        for each in {*types} - {""}:
            check_type(each)
        for one, kind in zip(value, types, strict=True):
            if one is not None and len(one) > self.most_bytes:
                raise ValueTooLarge(kind or "a row", len(one), self.most_bytes)
        ids: list[str | None] = [None] * many
        headers: list[bytes | None] = [None] * many
        for at, pairs in enumerate(_values(rows, "headers")):
            if not pairs:
                continue
            # A token is left out: it identifies the record that the headers came from, not the new one.
            named = [(each["key"], each["value"]) for each in pairs if each["key"] != TOKEN]
            if any(name is None for name, _ in named):
                raise InvalidColumn("headers", "has a header without a key; leave it out")
            ids[at], said = event_names(named)
            types[at] = types[at] or (said if said and said != ERASED else "")
            headers[at] = encode_headers(tuple(named)) if named else None
        made = [each or new_id(now_ms) for each in ids]
        topics = self._topics_of(rows)
        partitions = [
            partition_for(topic.partitioner, one, id, topic.partitions)
            for topic, one, id in zip(topics, key, made, strict=True)
        ]
        return PartRecords([each.id for each in topics], partitions, made, key, types, value, headers, times)

    def _topics_of(self, rows: pa.RecordBatch) -> list[Topic]:
        if self.target.topic is not None:
            return [self._topic(self.target.topic)] * rows.num_rows
        names = _values(rows, "topic")
        if None in names:
            raise InvalidColumn("topic", "is null in a row; give every row a topic, or the option topic")
        return [self._topic(name) for name in names]

    def _topic(self, name: str) -> Topic:
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = self.store.log.topic(name)
        return found


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if not batch.num_rows:
        return
    size = max(1, min(_TOGETHER, batch.num_rows * _TOGETHER_BYTES // max(1, batch.nbytes)))
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)


def _values(rows: pa.RecordBatch, name: str) -> list[Any]:
    at = rows.schema.get_field_index(name)
    return [None] * rows.num_rows if at < 0 else rows.column(at).to_pylist()


def _bytes(rows: pa.RecordBatch, name: str) -> list[bytes | None]:
    at = rows.schema.get_field_index(name)
    if at < 0:
        return [None] * rows.num_rows
    column = rows.column(at)
    wanted = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    return list((column if is_bytes(column.type) else column.cast(wanted)).to_pylist())


def _times(rows: pa.RecordBatch, now_ms: int) -> list[int]:
    at = rows.schema.get_field_index("timestamp")
    if at < 0:
        return [now_ms] * rows.num_rows
    micros = rows.column(at).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    times = list(pc.fill_null(pc.divide(micros, _MICROSECONDS), now_ms).to_pylist())
    if min(times) < 0 or max(times) > LAST_TIME_MS:
        raise InvalidColumn("timestamp", "says a time that is not between the years 1970 and 9999")
    return times


# -- the columns that may be written


_KINDS: dict[str, tuple[Callable[[pa.DataType], bool], str, str]] = {
    "key": (lambda kind: is_bytes(kind) or is_text(kind), _TEXT, "cast it"),
    "value": (lambda kind: is_bytes(kind) or is_text(kind), _TEXT, "make it JSON, as in to_json(struct(…))"),
    "type": (is_text, "STRING", "cast it"),
    "headers": (
        is_headers,
        "ARRAY<STRUCT<key: STRING, value: BINARY>>",
        "make it so, as in array(struct(lit('source') AS key, …))",
    ),
    "timestamp": (pa.types.is_timestamp, "TIMESTAMP", "cast it"),
    "topic": (is_text, "STRING", "cast it"),
}


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise InvalidColumn for a column that a topic cannot take, before anything is written."""
    arrow = {each.name: each.type for each in arrow_schema_of(schema)}
    kinds = {each.name: each.dataType.simpleString().upper() for each in schema.fields}
    for name, kind in arrow.items():
        if name not in _KINDS:
            known = ", ".join(_KINDS)
            raise InvalidColumn(name, f"is none that a record has ({known}); leave it out, or rename it")
        fits, wanted, remedy = _KINDS[name]
        if not fits(kind):
            raise InvalidColumn(name, f"is {kinds[name]} and must be {wanted}: {remedy}")
    if "value" not in arrow:
        raise InvalidColumn("value", "is missing; it is what a record says, or null for a tombstone")
    if topic is None and "topic" not in arrow:
        raise InvalidColumn("topic", "is missing, and so is the option topic; give one of the two")


def _target(options: Mapping[str, str], schema: StructType, overwrite: bool) -> WriteTarget:
    if overwrite:
        raise InvalidOption("mode", "overwrite", "append: what is in a log stays as it is")
    check_known(options, _OPTIONS)
    url = options.get("url") or ""
    if not url:
        raise InvalidOption("url", url, "the address of the store, as in postgresql://host/shop")
    topic = options.get("topic") or None
    if topic is not None:
        check_topic(topic)
    check_columns(schema, topic)
    names = Names(options.get("prefix") or DEFAULT_PREFIX, options.get("schema") or None)
    target = WriteTarget(url if is_kafka(url) else plain_url(url), names, topic)
    target.check()
    return target


# -- the writers that Spark calls


class _BackWriter:
    """The steps of both writers: tasks hold rows back, the driver releases or discards them."""

    def __init__(self, target: WriteTarget) -> None:
        self._target = target

    def _hold(self, batches: Iterator[pa.RecordBatch], write: tuple[str, int]) -> HeldPart:
        freeze_modules()
        with closing(self._target.open()) as store:
            return HeldPart(_PartWriter(self._target, store, write).write(batches))

    def _release(self, messages: Sequence[Any], write: PartedWrite | None) -> None:
        with closing(self._target.open()) as store:
            PartedWrites(store.database).release(write, _parts(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: N803 - Spark's name
        """Discard the held rows; rows that cannot be discarded now expire after a day."""
        with closing(self._target.open()) as store:
            PartedWrites(store.database).discard(part.id for part in _parts(messages))


class BackBatchWriter(_BackWriter, DataSourceArrowWriter):
    """The writer of a batch query into topics."""

    def __init__(self, target: WriteTarget, write: PartedWrite | None) -> None:
        super().__init__(target)
        self._write = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Hold one task's rows back."""
        write = self._write
        return self._hold(iterator, ("", 0) if write is None else (write.application, write.epoch))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Release the held rows."""
        self._release(messages, self._write)


class BackStreamWriter(_BackWriter, StreamArrowWriter):  # type: ignore[misc]  # its class depends on Spark's version
    """The writer of a streaming query into topics."""

    def __init__(self, target: WriteTarget, checkpoint: str) -> None:
        super().__init__(target)
        self._checkpoint = checkpoint

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Hold one task's rows back; their query and batch matter only when the driver releases them."""
        return self._hold(iterator, _under_way())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Release a micro-batch, unless it is already there."""
        batch = read_batch(self._checkpoint, batchId)
        self._release(messages, PartedWrite(_application(batch.query_id), batchId, batch.content))


def _application(query_id: str) -> str:
    return f"spark/{query_id}"


def _under_way() -> tuple[str, int]:
    task = TaskContext.get()
    query, number = (
        None if task is None else task.getLocalProperty(name)
        for name in ("sql.streaming.queryId", "streaming.sql.batchId")
    )
    return _application(query or ""), int(number or 0)


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BackBatchWriter:
    """Return the writer of a batch query. Raises InvalidOption, InvalidColumn, StoreUnsupported."""
    target = _target(options, schema, overwrite)
    return BackBatchWriter(target, _named(options, target.topic))


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BackStreamWriter:
    """Return the writer of a streaming query. Raises InvalidOption, InvalidColumn, StoreUnsupported."""
    checkpoint = options.get("checkpointLocation") or ""
    if not checkpoint:
        raise InvalidOption("checkpointLocation", "", "given to the writer: .option('checkpointLocation', …)")
    return BackStreamWriter(_target(options, schema, overwrite), checkpoint)


def _named(options: Mapping[str, str], topic: str | None) -> PartedWrite | None:
    """Return the identity that a batch write gives itself, separate for each topic; None if it has none."""
    name, version = options.get("txnAppId"), options.get("txnVersion")
    if not name and version is None:
        return None
    if not name:
        raise InvalidOption("txnAppId", name or "", "a name for this job, as txnVersion is given")
    application, content = name if topic is None else f"{name}/{topic}", options.get("txnContent") or ""
    return PartedWrite(application, write_number(version), content, follows=False)
