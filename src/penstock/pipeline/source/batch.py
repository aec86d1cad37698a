"""A range of topics as a batch, and the tasks that read a batch, of a batch query or of a stream."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..columns import record_batch
from ..offsets import Piece, Range, split
from ..versions import freeze_modules
from .fetch import open_fetcher
from .fetch.contract import Request
from .opening import open_view
from .options import SourceOptions
from .view import removed, report_removed

_TASK_RECORDS = 2_000  # a second task costs two more Python workers, and a file for each table


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
    freeze_modules()
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
    return [Task(batch.topic, batch.topic_id, given) for given in split(batch.pieces(), tasks, cut=options.may_cut)]


class BatchReader(DataSourceReader):
    """A range of one or several topics, fixed when the DataFrame is planned."""

    def __init__(self, *options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return the tasks."""
        ranges = [_asked_range(options) for options in self._options]
        tasks = [task for options, each in zip(self._options, ranges, strict=True) for task in plan(options, each)]
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
        kept = {partition: max(start, heads.bounds[partition].start) for partition, start in starts.items()}
        return Range(view.identity().id, options.topic, heads.topic.id, kept, ends)
