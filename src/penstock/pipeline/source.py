"""The source `format("penstock")`: a topic as a batch or a stream, per-partition offsets, Arrow all the way.

There is no `pushFilters`: in Spark 4.2 and 4.3 a filter that one query pushes down stays for the next query
on the same DataFrame (`tests/pipeline` keeps the leak in sight). Ranges and columns are options. A loaded
DataFrame is frozen at what the log held then: `load()` once per query.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import HistoryTakenBack, InvalidOption, MissingExtra
from penstock.log.contract import LogIdentity

from .columns import record_batch, spark_schema
from .fetch import open_fetcher
from .fetch.contract import Request
from .offsets import Ends, Piece, Range, admit, before_barriers, split
from .options import SourceOptions, read_options
from .paths import table_path
from .table import ends_of, incarnations_of
from .view import Heads, TopicView, removed, report_removed

try:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError as exc:
    raise MissingExtra("a pipeline", "spark") from exc


class PenstockSource(DataSource):
    """What Spark asks first: a name, a schema, and the reader for a batch or a stream."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock"

    def schema(self) -> str:
        """Return the columns asked for."""
        return spark_schema(read_options(self.options).columns)

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of a batch query."""
        return BatchReader(read_options(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query."""
        return StreamReader(read_options(self.options))


@dataclass
class Task(InputPartition):
    """What one task reads."""

    topic_id: int
    pieces: list[Piece]


def read_task(options: SourceOptions, task: Task) -> Iterator[pa.RecordBatch]:
    """Yield a task's records, and see that retention took none of them meanwhile.

    Offsets that are missing for another reason (erased, deleted by hand) are skipped; `reconcile` lists them.
    """
    with closing(open_fetcher(options.url, options.names)) as fetcher:
        wanted = sum(piece.end - piece.start for piece in task.pieces)
        for batch in fetcher.batches(Request(task.topic_id, task.pieces, options.columns)):
            wanted -= batch.num_rows
            yield record_batch(batch, options.topic, options.columns)
        if wanted:
            starts = {piece.partition: piece.start for piece in reversed(task.pieces)}
            ends = {piece.partition: piece.end for piece in task.pieces}
            lost = removed(starts, ends, fetcher.starts(task.topic_id))
            report_removed(options.topic, lost, fail=options.fail_on_loss)


def plan(options: SourceOptions, topic_id: int, pieces: list[Piece]) -> list[InputPartition]:
    """Return the tasks of a batch."""
    return [Task(topic_id, given) for given in split(pieces, options.tasks, cut=options.may_cut)]


class BatchReader(DataSourceReader):
    """A range of a topic, fixed when the DataFrame is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        options = self._options
        with closing(TopicView(options.url, options.names, options.topic)) as view:
            heads = view.heads()
            starts = view.resolve(options.starting, heads, "startingOffsets")
            ends = view.resolve(options.ending, heads, "endingOffsets")
            report_removed(options.topic, removed(starts, ends, heads.starts()), fail=options.fail_on_loss)
            found = Range(view.log_id(), options.topic, heads.topic.id, _kept(starts, heads), ends)
        return plan(options, heads.topic.id, found.pieces()) or [Task(heads.topic.id, [])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        assert isinstance(partition, Task)
        return read_task(self._options, partition) if partition.pieces else iter(())


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A topic from a place on. Its state lives in Spark's checkpoint; this object keeps none that matters."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._until: Ends | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query begins: where its table ends, or at `startingOffsets`."""
        options = self._options
        with closing(self._view()) as view:
            heads = view.heads()
            log_id, incarnation = identity = view.identity()
            if options.continue_from is not None:
                found = reached(options.continue_from, log_id, heads)
                if found is not None:
                    _check_tables(options.continue_from, found, heads, identity)
                    return replace(found, incarnation=incarnation).to_json()
            starts = view.resolve(options.starting, heads, "startingOffsets")
        topic = heads.topic
        return Range(log_id, options.topic, topic.id, starts, starts, incarnation=incarnation).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how much a batch may take."""
        at_most = self._options.max_records
        return ReadAllAvailable() if at_most is None else ReadMaxRows(at_most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the next batch ends; `start` itself when there is nothing new."""
        before = Range.from_json(start)
        if before.pending is not None:
            return before.next(before.pending).to_json()
        with closing(self._view()) as view:
            heads, identity = view.heads(), view.identity()
        ends = heads.ends() if self._until is None else self._until
        self._check(before, heads, identity)
        lost = removed(dict.fromkeys(ends, 0) | before.ends, ends, heads.starts())
        report_removed(before.topic, lost, fail=self._options.fail_on_loss)
        ends = before_barriers(before.ends, ends, heads.growths)
        if isinstance(limit, ReadMaxRows):
            ends = admit(before.ends, ends, limit.max_rows)
        batch = replace(before.next(ends), incarnation=identity.incarnation)
        return batch.to_json() if batch.count() else start

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of the log, so that progress can show the lag."""
        with closing(self._view()) as view:
            heads = view.heads()
        return {"topic": self._options.topic, "ends": [end for _, end in sorted(heads.ends().items())]}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember where the log ends now: a query that runs once ends there."""
        with closing(self._view()) as view:
            self._until = view.heads().ends()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the tasks of a batch. The batch's own range counts, not where the last one ended."""
        batch = Range.from_json(end)
        return plan(self._options, batch.topic_id, batch.pieces())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        assert isinstance(partition, Task)
        return read_task(self._options, partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: the checkpoint keeps the place, and Spark does not call this for the last batch."""

    def _view(self) -> TopicView:
        return TopicView(self._options.url, self._options.names, self._options.topic)

    def _check(self, before: Range, heads: Heads, identity: LogIdentity) -> None:
        """Refuse a checkpoint of another topic, also of one with the same name that was deleted.

        And of another history of the log, of which the query may have records that are not there any more.
        """
        if before.topic_id != heads.topic.id:
            was = f"{before.topic} ({before.topic_id})"
            raise InvalidOption("topic", heads.topic.name, f"the one the checkpoint was made with: {was}")
        if before.incarnation in (None, identity.incarnation) and not _is_beyond(before.ends, heads):
            return
        raise HistoryTakenBack(before.topic, _compared(before.ends, heads))


def reached(path: str, log_id: str, heads: Heads) -> Range | None:
    """Return where tables end in a topic; None if they have nothing of it.

    A batch that only some of them hold is pending.
    """
    topic = heads.topic
    tables = ends_of(table_path("continueFrom", path), log_id, topic.id, len(heads.bounds))
    if not tables:
        return None
    starts, pending = heads.starts(), heads.starts()
    for partition in starts:
        ends = [each[partition] for each in tables.values()]
        starts[partition], pending[partition] = min(ends), max(ends)
    done = Range(log_id, topic.name, topic.id, starts, starts)
    return done if pending == starts else replace(done, pending=pending)


def _check_tables(path: str, found: Range, heads: Heads, identity: LogIdentity) -> None:
    """Refuse to go on with tables that were made from another history of the log."""
    known = incarnations_of(table_path("continueFrom", path), identity.id, heads.topic.id)
    if known - {identity.incarnation} or _is_beyond(found.ends, heads):
        raise HistoryTakenBack(heads.topic.name, _compared(found.ends, heads))


def _is_beyond(ends: Ends, heads: Heads) -> bool:
    """Return whether something was read that the log does not hold yet, or no longer."""
    return any(
        end > heads.bounds[partition].end for partition, end in ends.items() if partition in heads.bounds
    )


def _compared(ends: Ends, heads: Heads, at_most: int = 4) -> str:
    """Return where something ends and where the log does, in words."""
    words = [
        f"partition {partition}: read up to {end}, the log ends at {heads.bounds[partition].end}"
        for partition, end in sorted(ends.items())
        if partition in heads.bounds and end
    ]
    more = [f"and {len(words) - at_most} more partitions"] if len(words) > at_most else []
    return ", ".join(words[:at_most] + more)


def _kept(starts: Ends, heads: Heads) -> Ends:
    return {partition: max(start, heads.bounds[partition].start) for partition, start in starts.items()}
