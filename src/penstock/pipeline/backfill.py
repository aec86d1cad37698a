"""Spark's workers hand the records of a batch to a function one by one: a backfill of a handler.

A task has whole partitions of the topic and reads each in the order of offsets: so the records of a key come
in order, one after another. There is no shuffle between the log and the function, and no more tasks than
partitions. A batch ends where a topic has grown, so the order holds across that, too.

At least once: an unfinished batch and a failed task run again from their start, with `redelivered` set. An
error in the function ends the pipeline; nothing is skipped or parked. Positions are read before records: if
retention removes records in between, that ends the pipeline, too, unless loss is allowed.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from penstock.database.naming import Names
from penstock.errors import InvalidPipeline
from penstock.log.contract import DEFAULT_MAX_BYTES, Bounds, OffsetRange
from penstock.log.entry import Entry, record_of
from penstock.log.kafka_settings import KafkaSettings
from penstock.log.store import open_store
from penstock.model.limits import ERASED
from penstock.model.outcome import Done, outcome_of
from penstock.model.record import Record

from .address import is_kafka
from .declared import Pipeline
from .offsets import PLACE, Piece, merged
from .source.view import removed, report_removed
from .versions import freeze_modules

_HANDED = "handed BIGINT"


@dataclass(frozen=True)
class TopicRecords:
    """The records of a topic, read in the task that handles them."""

    url: str
    names: Names
    topic: str
    kafka: KafkaSettings | None = None  # how a Kafka cluster is reached
    fail_on_loss: bool = True

    def read(self, pieces: Iterator[Piece]) -> Iterator[Record]:
        """Yield the records of some pieces, in order, except erased ones. Raises RecordsRemoved."""
        found = self._of_cluster(pieces) if is_kafka(self.url) else self._of_store(pieces)
        return (record_of(self.topic, each) for each in found if each.type != ERASED)

    def _of_store(self, pieces: Iterator[Piece]) -> Iterator[Entry]:
        with closing(open_store(self.url, self.names)) as store:
            topic = store.log.topic(self.topic)
            for partition, start, end in pieces:
                at, cut = start, True
                while cut and at < end:
                    wanted = [OffsetRange(partition, at, end)]
                    entries, cut = store.log.read_ranges(topic, wanted, max_bytes=DEFAULT_MAX_BYTES)
                    first = entries[0].offset if entries else end
                    if at < first:
                        self._report(Piece(partition, at, first), store.log.all_bounds(topic))
                    yield from entries
                    at = entries[-1].offset + 1 if entries else end

    def _of_cluster(self, pieces: Iterator[Piece]) -> Iterator[Entry]:
        from penstock.log.kafka_form import entries_of

        from .source.kafka_topic import KafkaTopicReader

        with closing(KafkaTopicReader(self.url, self.topic, self.kafka)) as reader:
            number = reader.known().topic.id
            for partition, start, end in pieces:
                for low, _, batch in reader.batches(partition, start, end, removed=self._removed):
                    for each in entries_of(batch, number, partition):
                        if low <= each.offset < end:
                            yield each

    def _report(self, piece: Piece, bounds: Mapping[int, Bounds]) -> None:
        """Report the missing records of a piece that retention removed; other missing ones are skipped."""
        partition, start, end = piece
        for lost in removed({partition: start}, {partition: end}, {partition: bounds[partition].start}):
            self._removed(lost)

    def _removed(self, piece: Piece) -> None:
        report_removed(self.topic, [piece], fail=self.fail_on_loss)


def hand_out(batch: DataFrame, topic: TopicRecords, declared: Pipeline, *, redelivered: bool) -> None:
    """Call the function of a pipeline for every record of a batch, which holds their positions."""

    def hand(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_modules()
        task, count = TaskContext.get(), 0
        again = redelivered or (task is not None and task.attemptNumber() > 0)
        for record in topic.read(_pieces(batches)):
            _call(declared, msgspec.structs.replace(record, redelivered=True) if again else record)
            count += 1
        yield pa.RecordBatch.from_pydict({"handed": pa.array([count], pa.int64())})

    batch.mapInArrow(hand, _HANDED).collect()


def _call(declared: Pipeline, record: Record) -> None:
    answer = outcome_of(declared(record))
    if not isinstance(answer, Done):
        raise InvalidPipeline(
            declared.name,
            f"it answered {type(answer).__name__} to a record, which only a worker understands; raise an "
            "error to stop, or return nothing",
        )


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
    """Return the positions of rows as runs, in their order."""
    places = (zip(*(batch.column(name).to_pylist() for name in PLACE), strict=True) for batch in batches)
    return merged(Piece(partition, offset, offset + 1) for some in places for partition, offset in some)
