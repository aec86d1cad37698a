"""Topics as a stream, from a position on; Spark's checkpoint keeps the position.

The offset of several topics (the option `subscribe`, as of Spark's Kafka source) is the ranges of all of
them. A topic without records in a batch has a range that starts where it ends, so each range alone describes
the batch's records of its topic.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from penstock.clock import SYSTEM
from penstock.log.contract import Position, Topic

from ..history import Past, check_past
from ..lake.lake import Lake
from ..lake.paths import table_path
from ..lake.storage import Location, asks_storage
from ..offsets import Ends, Form, Range, admit, before_barriers, by_topic, of_topics, standing
from ..versions import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from .batch import Task, plan, read_task
from .opening import HeldView
from .options import LATEST, ReadingPlace, SourceOptions
from .view import Heads, TopicView, admit_bytes, removed, report_removed


class _CheckpointedReader(DataSourceStreamReader):
    def commit(self, end: Mapping[str, Any]) -> None:
        """Do nothing: the checkpoint keeps the position, and Spark does not call this for the last batch."""


class _TaskReader(_CheckpointedReader, SupportsTriggerAvailableNow):
    _options: SourceOptions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        assert isinstance(partition, Task)
        return read_task(self._options, partition)


class StreamReader(_TaskReader):
    """A topic from a position on. Its state is in Spark's checkpoint; this object may be lost at any time."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._view = HeldView(options.url, options.names, options.topic, options.kafka)
        self._until: Ends | None = None
        self._checked: dict[str, Any] | None = None  # the last offsets that were checked against the log
        self._planned: dict[str, Any] | None = None
        self._planned_at: float | None = None
        self._seen: Heads | None = None  # read for `latestOffset`, until `reportLatestOffset`

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query begins: where its table ends, or at `startingOffsets`."""
        options = self._options
        with self._view.used() as view:
            heads = view.heads()
            if options.continue_from is not None:
                found = continued(table_path("continueFrom", options.continue_from), view, heads)
                if found is not None:
                    return found.to_json()
            log_id, incarnation = view.identity()
            starts = view.resolve(options.starting, heads, "startingOffsets")
        return Range(log_id, options.topic, heads.topic.id, starts, starts, incarnation=incarnation).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit of a batch."""
        at_most = self._options.max_records
        return ReadAllAvailable() if at_most is None else ReadMaxRows(at_most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the next batch ends; `start` itself when there is nothing new."""
        before = Range.from_json(start)
        with self._view.used() as view:
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
        """Return the log's end, for the lag; Spark calls this right after `latestOffset`, which has read it."""
        heads, self._seen = self._seen, None
        if heads is None:
            with self._view.used() as view:
                heads = view.heads()
        return {"topic": self._options.topic, "ends": [end for _, end in sorted(heads.ends().items())]}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Record where the log ends now: a query that runs once ends there."""
        with self._view.used() as view:
            self._until = view.heads().ends()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the tasks of a batch. Its own range decides, not the end of the batch before."""
        batch = Range.from_json(end)
        if end != self._planned:  # planned before a crash: the log may have changed since
            past = Past.of("the checkpoint", batch)
            with self._view.used() as view:
                check_past(past, view.present(view.heads(), past.places()))
        return plan(self._options, batch)

    def stop(self) -> None:
        """Close the store."""
        self._view.close()

    def _last(self, view: TopicView, heads: Heads) -> Ends:
        """Return where the stream may end: at the log's end, at the recorded end, or at `endingOffsets`."""
        ends = heads.ends() if self._until is None else self._until
        if self._options.ending == ReadingPlace(LATEST):
            return ends
        last = view.resolve(self._options.ending, heads, "endingOffsets")
        return {partition: min(end, last[partition]) for partition, end in ends.items()}

    def _admitted(self, before: Range, view: TopicView, topic: Topic, ends: Ends, limit: ReadLimit) -> Ends:
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


class SeveralTopics(_TaskReader):
    """One reader for each topic. One left out keeps its position; one added later begins as in a new query."""

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
        known = starts | {name: each.initialOffset() for name, each in self._readers.items() if name not in starts}
        ends = self._ends(known, limit)
        if all(ends[topic] == form for topic, form in known.items()):
            return start
        return of_topics([end if end != known[topic] else standing(end) for topic, end in sorted(ends.items())])

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

    def stop(self) -> None:
        """Close the store."""
        for each in self._readers.values():
            each.stop()

    def _reader(self, topic: str) -> StreamReader:
        return self._readers.get(topic) or StreamReader(replace(self._options, topic=topic))

    def _ends(self, starts: Mapping[str, Form], limit: ReadLimit) -> dict[str, Form]:
        """Return where each topic ends in the next batch: an equal share for each, then the rest."""
        readers = self._readers
        if not isinstance(limit, ReadMaxRows):
            return dict(starts) | {topic: readers[topic].latestOffset(starts[topic], limit) for topic in readers}
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


class PositionKeeper(_CheckpointedReader):
    """Calls a reader of one or several topics in the way Spark does since 4.2. Used by one thread."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._place: Form | None = None  # where the next batch begins

    def initialOffset(self) -> Form:  # noqa: N802 - Spark's name
        """Return where a new query begins: the same position in every call."""
        if self._place is None:
            self._place = self._reader.initialOffset()
        return self._place

    def latestOffset(self) -> Form:  # type: ignore[override]  # noqa: N802 - Spark's name
        """Return where the next batch ends."""
        end: Form = self._reader.latestOffset(self.initialOffset(), self._reader.getDefaultReadLimit())
        return end

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return the tasks of a batch, and let the next one begin at its end."""
        tasks: list[InputPartition] = [] if start == end else self._reader.partitions(start, end)
        self._place = dict(end)
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        found: Iterator[pa.RecordBatch] = self._reader.read(partition)
        return found

    def stop(self) -> None:
        """Close the store."""
        self._reader.stop()
