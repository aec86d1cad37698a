"""Several topics as one stream: the option `subscribe`, as of Spark's Kafka source.

An offset is then the ranges of all topics, `{"topics": [range, …]}`. A topic without records in a batch has a
range that starts where it ends, so each range alone describes the batch's records of its topic.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ..offset_forms import Form, by_topic, of_topics, standing
from ..offsets import Range
from ..versions import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from .data_source import StreamReader, Task, read_task
from .options import SourceOptions


class SeveralTopics(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One reader for each topic. A topic subscribed to later begins where a new query would.

    A topic that is no longer subscribed to keeps its position, in case it comes back.
    """

    def __init__(self, options: Sequence[SourceOptions]) -> None:
        self._options = options[0]
        self._readers = {each.topic: StreamReader(each) for each in options}

    def initialOffset(self) -> Form:  # noqa: N802 - Spark's name
        """Return where a new query begins."""
        return of_topics([reader.initialOffset() for reader in self._readers.values()])

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of a batch over all topics."""
        return next(iter(self._readers.values())).getDefaultReadLimit()

    def latestOffset(self, start: Form, limit: ReadLimit) -> Form:  # noqa: N802 - Spark's name
        """Return where the next batch ends; `start` itself when there is nothing new."""
        starts = by_topic(start)
        known = starts | {
            topic: reader.initialOffset() for topic, reader in self._readers.items() if topic not in starts
        }
        ends = self._ends(known, limit)
        if all(ends[topic] == form for topic, form in known.items()):
            return start
        return of_topics(
            [end if end != known[topic] else standing(end) for topic, end in sorted(ends.items())]
        )

    def reportLatestOffset(self) -> Form:  # noqa: N802 - Spark's name
        """Return the ends of the topics, so that progress can show the lag."""
        return of_topics([reader.reportLatestOffset() for reader in self._readers.values()])

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Record where the topics end now."""
        for reader in self._readers.values():
            reader.prepareForTriggerAvailableNow()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the tasks of a batch."""
        starts = by_topic(start)
        return [
            task
            for topic, form in by_topic(end).items()
            if Range.from_json(form).pieces()
            for task in self._reader(topic).partitions(starts.get(topic, form), form)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        assert isinstance(partition, Task)
        return read_task(self._options, partition)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: the checkpoint keeps the position."""

    def _reader(self, topic: str) -> StreamReader:
        """Return the reader of a topic, even one that is only in a batch to be repeated."""
        return self._readers.get(topic) or StreamReader(replace(self._options, topic=topic))

    def _ends(self, starts: Mapping[str, Form], limit: ReadLimit) -> dict[str, Form]:
        """Return where each topic ends in the next batch: an equal share for each, then the rest."""
        readers = self._readers
        if not isinstance(limit, ReadMaxRows):
            return dict(starts) | {
                topic: readers[topic].latestOffset(starts[topic], limit) for topic in readers
            }
        share = max(1, limit.max_rows // len(readers))
        ends = dict(starts)
        left = limit.max_rows
        for topic, reader in readers.items():
            ends[topic] = reader.latestOffset(starts[topic], ReadMaxRows(min(share, max(left, 1))))
            left -= _count(starts[topic], ends[topic])
        for topic, reader in readers.items():
            taken = _count(starts[topic], ends[topic])
            if left > 0 and taken >= share:
                more = reader.latestOffset(starts[topic], ReadMaxRows(taken + left))
                if more != starts[topic]:  # it may now prefer to wait for more records
                    ends[topic] = more
                left -= _count(starts[topic], ends[topic]) - taken
        return ends


def _count(start: Form, end: Form) -> int:
    return 0 if start == end else Range.from_json(end).count()
