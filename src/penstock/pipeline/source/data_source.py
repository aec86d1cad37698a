"""The source `format("penstock")`: a topic as a batch or a stream, with offsets per partition, all in Arrow.

There is no `pushFilters`: in Spark 4.2 and 4.3 a filter that one query pushes down leaks into the next query
on the same DataFrame (a test in `tests/pipeline` watches the leak). Ranges and columns are options. A loaded
DataFrame is frozen at the log's content at that moment: call `load()` once per query.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from penstock.clock import SYSTEM
from penstock.log.contract import Position, Topic

from ..columns import record_batch, spark_schema
from ..history import Past, check_past
from ..lake.lake import Lake
from ..lake.paths import table_path
from ..lake.storage import Location, asks_storage
from ..offsets import Ends, Piece, Range, admit, before_barriers, split
from ..python_worker import settle_in
from ..versions import (
    TELLS_START,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from .admission import admit_bytes
from .fetch import open_fetcher
from .fetch.contract import Request
from .options import LATEST, ReadingPlace, SourceOptions, read_all
from .place_keeping import PlaceKeeping
from .view import Heads, TopicView, open_view, removed, report_removed

_TASK_RECORDS = 2_000  # a second task costs two more Python workers, and a file for each table


class PenstockSource(DataSource):
    """Spark's entry point: a name, a schema, and the reader or writer for a batch or a stream."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "penstock"

    def schema(self) -> str:
        """Return the requested columns."""
        return spark_schema(read_all(self.options)[0].columns)

    def reader(self, schema: Any) -> DataSourceReader:
        """Return the reader of a batch query."""
        return BatchReader(*read_all(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a streaming query."""
        from .several_topics import SeveralTopics  # made of the readers below

        asked = read_all(self.options)
        reader: Any = SeveralTopics(asked) if self.options.get("subscribe") else StreamReader(*asked)
        return reader if TELLS_START else PlaceKeeping(reader)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch query's rows to topics."""
        from ..writeback.writer import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        """Return the writer of a streaming query's rows to topics."""
        from ..writeback.writer import stream_writer

        return stream_writer(self.options, schema, overwrite)


@dataclass
class Task(InputPartition):
    """The ranges that one task reads."""

    topic: str
    topic_id: int
    pieces: list[Piece]


def read_task(options: SourceOptions, task: Task) -> Iterator[pa.RecordBatch]:
    """Yield a task's records, and check that retention has removed none of them meanwhile.

    Offsets that are missing for another reason (erased, deleted by hand) are skipped; `reconcile` lists them.
    """
    settle_in()
    with closing(open_fetcher(options.url, options.names, task.topic, options.kafka)) as fetcher:
        request = Request(task.topic_id, task.pieces, options.columns)
        wanted = sum(piece.end - piece.start for piece in task.pieces)
        for batch in fetcher.batches(request):
            wanted -= batch.num_rows
            yield record_batch(batch, task.topic, options.columns)
        if wanted:
            report_removed(task.topic, fetcher.lost(request), fail=options.fail_on_loss)


def plan(options: SourceOptions, batch: Range) -> list[InputPartition]:
    """Return the tasks of a batch; few records get one task, unless the user asks for more."""
    tasks = options.tasks
    if not options.may_cut:
        tasks = min(tasks, -(-batch.count() // _TASK_RECORDS) or 1)
    cut = split(batch.pieces(), tasks, cut=options.may_cut)
    return [Task(batch.topic, batch.topic_id, given) for given in cut]


class BatchReader(DataSourceReader):
    """A range of one or several topics, fixed when the DataFrame is planned."""

    def __init__(self, *options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        ranges = [_asked_range(options) for options in self._options]
        tasks = [
            task for options, each in zip(self._options, ranges, strict=True) for task in plan(options, each)
        ]
        return tasks or [Task(ranges[0].topic, ranges[0].topic_id, [])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        assert isinstance(partition, Task)
        return read_task(self._options[0], partition) if partition.pieces else iter(())


def _asked_range(options: SourceOptions) -> Range:
    with closing(open_view(options.url, options.names, options.topic, options.kafka)) as view:
        heads = view.heads()
        starts = view.resolve(options.starting, heads, "startingOffsets")
        ends = view.resolve(options.ending, heads, "endingOffsets")
        report_removed(options.topic, removed(starts, ends, heads.starts()), fail=options.fail_on_loss)
        return Range(view.log_id(), options.topic, heads.topic.id, _kept(starts, heads), ends)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A topic from a position on. Its state is in Spark's checkpoint; this object may be lost at any time."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._until: Ends | None = None
        self._checked: dict[str, Any] | None = None  # the last offsets that were checked against the log
        self._planned: dict[str, Any] | None = None
        self._planned_at: float | None = None
        self._seen: Heads | None = None  # read for `latestOffset`, until `reportLatestOffset`

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query begins: where its table ends, or at `startingOffsets`."""
        options = self._options
        with closing(self._view()) as view:
            heads = view.heads()
            if options.continue_from is not None:
                found = continued(table_path("continueFrom", options.continue_from), view, heads)
                if found is not None:
                    return found.to_json()
            log_id, incarnation = view.identity()
            starts = view.resolve(options.starting, heads, "startingOffsets")
        topic = heads.topic
        return Range(log_id, options.topic, topic.id, starts, starts, incarnation=incarnation).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of a batch."""
        at_most = self._options.max_records
        return ReadAllAvailable() if at_most is None else ReadMaxRows(at_most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the next batch ends; `start` itself when there is nothing new."""
        before = Range.from_json(start)
        with closing(self._view()) as view:
            heads = self._seen = view.heads()
            last = self._last(view, heads)
            there = before_barriers(before.ends, last, heads.growths)
            batch = before.next(self._admitted(before, view, heads.topic, there, limit))
            past = Past.of("the checkpoint", before)
            idle = start == self._checked and not batch.count()
            present = view.present(heads, () if idle else {*past.places(), *_lasts(batch)})
        check_past(past, present)
        self._checked = start
        if before.pending is None:
            lost = removed(dict.fromkeys(batch.ends, 0) | before.ends, last, heads.starts())
            report_removed(before.topic, lost, fail=self._options.fail_on_loss)
        if not batch.count() or self._waits(before, batch, there):
            return start
        marks = {place.partition: present.marks[place] for place in _lasts(batch) if place in present.marks}
        kept = {partition: mark for partition, mark in before.marks.items() if not batch.moves(partition)}
        batch = replace(batch, incarnation=present.identity.incarnation, marks=kept | marks)
        self._checked = self._planned = batch.to_json()
        self._planned_at = SYSTEM.monotonic()
        return self._planned

    def _waits(self, before: Range, batch: Range, ends: Ends) -> bool:
        """Return whether a batch is delayed, because it would be small and comes soon after another.

        The first record after a pause goes at once. A query that runs once, a batch of maximum size, and the
        rest of an interrupted batch do not wait.
        """
        least, last = self._options.min_records, self._planned_at
        if least is None or last is None or self._until is not None or before.pending is not None:
            return False
        waiting = before.next(ends).count()
        if waiting >= least or batch.count() < waiting:
            return False
        return SYSTEM.monotonic() - last < self._options.wait_seconds

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of the log, so that progress can show the lag.

        Spark calls this right after `latestOffset`, which has read the ends for both.
        """
        heads, self._seen = self._seen, None
        if heads is None:
            with closing(self._view()) as view:
                heads = view.heads()
        return {"topic": self._options.topic, "ends": [end for _, end in sorted(heads.ends().items())]}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Record where the log ends now: a query that runs once ends there."""
        with closing(self._view()) as view:
            self._until = view.heads().ends()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the tasks of a batch. Its own range decides, not the end of the batch before."""
        batch = Range.from_json(end)
        if end != self._planned:  # planned before a crash: the log may have changed since
            past = Past.of("the checkpoint", batch)
            with closing(self._view()) as view:
                check_past(past, view.present(view.heads(), past.places()))
        return plan(self._options, batch)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        assert isinstance(partition, Task)
        return read_task(self._options, partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: the checkpoint keeps the position, and Spark does not call this for the last batch."""

    def _view(self) -> TopicView:
        options = self._options
        return open_view(options.url, options.names, options.topic, options.kafka)

    def _last(self, view: TopicView, heads: Heads) -> Ends:
        """Return where the stream may end: at the log's end, at the recorded end, or at `endingOffsets`."""
        ends = heads.ends() if self._until is None else self._until
        if self._options.ending == ReadingPlace(LATEST):
            return ends
        last = view.resolve(self._options.ending, heads, "endingOffsets")
        return {partition: min(end, last[partition]) for partition, end in ends.items()}

    def _admitted(self, before: Range, view: TopicView, topic: Topic, ends: Ends, limit: ReadLimit) -> Ends:
        """Return where the batch after another may end, within its limits."""
        if before.pending is not None:
            return before.pending
        if isinstance(limit, ReadMaxRows):
            ends = admit(before.ends, ends, limit.max_rows)
        most = self._options.max_bytes
        if most is None:
            return ends
        return admit_bytes(before.ends, ends, most, lambda *asked: view.fitting(topic, *asked))


@asks_storage
def continued(path: Location, view: TopicView, heads: Heads) -> Range | None:
    """Return where tables end in a topic; None if the topic has not fed them.

    A batch that only some of them hold is pending. Raises AnotherLog, HistoryTakenBack, MarkMissing.
    """
    lake = Lake(path)
    lake.check_mark()
    pasts = lake.pasts(heads.topic.name)
    if not pasts:
        return None
    identity, topic = view.identity(), heads.topic
    mine = [past for past in pasts if (past.log_id, past.topic_id) == (identity.id, topic.id)]
    present = view.present(heads, {place for past in mine for place in past.places()})
    for past in mine or pasts:
        check_past(past, present)
    starts = {p: min(past.ends.get(p, 0) for past in mine) for p in heads.bounds}
    pending = {p: max(past.ends.get(p, 0) for past in mine) for p in heads.bounds}
    marks = {p: mark for past in mine for p, mark in past.marks.items() if past.ends[p] == starts.get(p)}
    done = Range(identity.id, topic.name, topic.id, starts, starts, None, identity.incarnation, marks)
    return done if pending == starts else replace(done, pending=pending)


def _lasts(batch: Range) -> list[Position]:
    return [Position(partition, end - 1) for partition, end in batch.ends.items() if end]


def _kept(starts: Ends, heads: Heads) -> Ends:
    return {partition: max(start, heads.bounds[partition].start) for partition, start in starts.items()}
