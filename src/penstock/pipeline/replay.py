"""Reading the log again: a range of a topic into a folder of its own, or tables of a lake from the start.

A replay leaves the live pipeline alone: it has its own checkpoint and tables, does not hold retention back,
and never writes to the folder of a pipeline. The folder records its range, so that an interrupted replay goes
on with the same one, even if its end was given as `latest`.

A rebuilt table gets its rows up to where the other tables end, in one commit. They are written beside the old
table, which readers use meanwhile. Then the sink sets the old table aside, where it stays until it is dropped
(`lake/old_tables.py`), and commits with the identity that the stream's own commit would have; then the stream
goes on with all tables. After a crash the rebuild starts again.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace

import msgspec
from pyspark.sql import SparkSession

from penstock.errors import InvalidOption

from .lake.kinds import table_at
from .lake.modes import lake_rows
from .lake.old_tables import not_in_log
from .lake.paths import CONTROL, is_table, tables_in
from .lake.state import Replayed, known_tables, note_replay, reader_name, replayed, tables_rebuilt
from .lake.storage import Location
from .offsets import Ends, Range
from .progress import Progress
from .query import Job, asking, source_options
from .source.opening import open_view
from .source.options import ReadingPlace, written_offsets
from .source.stream import continued
from .source.view import Heads, TopicView, removed, report_removed

ReplayPlace = ReadingPlace | int  # an offset for every partition, or a position that the source understands


def planned(job: Job, first: ReplayPlace, last: ReplayPlace, words: tuple[str, str]) -> Range:
    """Return the range between two positions now. Raises UnknownTopic, InvalidOption, RecordsRemoved."""
    with closing(open_view(job.url, job.names, job.topic)) as view:
        heads = view.heads()
        starts, ends = _offsets(view, heads, first, "--from"), _offsets(view, heads, last, "--until")
        log_id, incarnation = view.identity()
    if _is_turned(first, last, starts, ends):
        raise InvalidOption("--from", words[0], f"a place before --until {words[1]}")
    ends = {partition: max(end, starts[partition]) for partition, end in ends.items()}
    report_removed(job.topic, removed(starts, ends, heads.starts()), fail=job.fail_on_loss)
    return Range(log_id, job.topic, heads.topic.id, starts, ends, incarnation=incarnation)


def _is_turned(first: ReplayPlace, last: ReplayPlace, starts: Ends, ends: Ends) -> bool:
    """Return whether a range ends before it begins; between an offset and a time, partitions may be empty."""
    if isinstance(first, int) and isinstance(last, int):
        return first > last
    turned = [partition for partition, end in ends.items() if starts[partition] > end]
    if isinstance(first, ReadingPlace) and isinstance(last, ReadingPlace):
        if first.timestamp_ms is not None and last.timestamp_ms is not None:
            return first.timestamp_ms > last.timestamp_ms
        if first.offsets and last.offsets:
            return bool(turned)
    return bool(turned) and all(starts[partition] >= end for partition, end in ends.items())


def _offsets(view: TopicView, heads: Heads, place: ReplayPlace, option: str) -> Ends:
    if isinstance(place, int):
        return {partition: min(place, bounds.end) for partition, bounds in heads.bounds.items()}
    return view.resolve(place, heads, option)


def begun(to: Location, asked: Replayed) -> Range:
    """Return the range of a replay: the requested one, or that which its folder began with. Raises InvalidOption."""
    batch, known = Range.from_json(asked.batch), replayed(to)
    if known is None:
        if (to / CONTROL).exists() or tables_in(to):
            raise InvalidOption("--to", str(to), "a folder of its own, and this one has a pipeline or tables")
        return batch
    was = Range.from_json(known.batch)
    same = (known.pipeline, known.words, was.log_id, was.topic_id)
    if same != (asked.pipeline, asked.words, batch.log_id, batch.topic_id):
        first, last = known.words
        raise InvalidOption(
            "--to",
            str(to),
            f"another folder: here is a replay of topic {was.topic} by {known.pipeline}, --from {first} --until {last}",
        )
    return was


def replaying(job: Job, asked: Replayed, batch: Range) -> Job:
    """Return the job of a replay, without partitions added when the topic grows, and reserve its folder."""
    note_replay(job.to, Replayed(asked.pipeline, asked.words, batch.to_json()))
    first, last = (written_offsets(batch.topic, each) for each in (batch.starts, batch.ends))
    return replace(job, starting=first, ending=last, once=True)


class ReplayedRange:
    """The reader of a replay: it holds nothing back, and ends with its range."""

    def __init__(self, batch: Range) -> None:
        self._batch = batch

    def moved(self, ends: Ends) -> None:
        """Do nothing: retention does not wait for a replay."""

    def tell(self, batch: Progress) -> None:
        """Do nothing: traces record only when the live pipeline has a record in its tables."""

    def waiting(self, batch: Progress) -> int | None:
        """Return how many records of the range are left."""
        ends = self._batch.ends
        return sum(max(0, end - batch.ends.get(partition, 0)) for partition, end in ends.items())


def rebuild_tables(spark: SparkSession, job: Job, tell: Callable[[str], None]) -> list[str]:
    """Rebuild the tables that a reset has listed; return their names. Raises AnotherLog, HistoryTakenBack.

    Before it begins, calls `tell` with the number of rows of each table that cannot be rebuilt.
    """
    names = known_tables(job.to).again
    if not names:
        return []
    batch = _range(job)
    for said in _missing(job, names):
        tell(said)
    ends = written_offsets(job.topic, batch.ends)
    source = source_options(job) | {"startingOffsets": "earliest", "endingOffsets": ends}
    with asking():
        rows, how = lake_rows(spark.read.format("penstock").options(**source).load(), job.mode, job.to)
        writer = rows.write.format(job.sink).mode("append").options(**how, **job.sink_options())
        writer = writer.option("onlyTables", "/".join(names))
        writer = writer.option("batchRange", msgspec.json.encode(batch.to_json()).decode())
        # Spark's UI describes only the jobs of streams by itself.
        spark.sparkContext.setJobDescription(f"{reader_name(job.to)}: {', '.join(names)} again from the log")
        try:
            writer.save()
        finally:
            spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    tables_rebuilt(job.to)
    return list(names)


def _missing(job: Job, names: Iterable[str]) -> Iterator[str]:
    with closing(open_view(job.url, job.names, job.topic)) as view:
        heads, log = view.heads(), view.identity()
    for name in names:
        if is_table(job.to / name):
            left = not_in_log(table_at(job.to / name), heads, log)
            yield f"table {name}: {left.describe('cannot be made again from the log')}"


def _range(job: Job) -> Range:
    with closing(open_view(job.url, job.names, job.topic)) as view:
        found = continued(job.to, view, view.heads())
    assert found is not None, "a reset of all tables removes the checkpoint, too"
    return replace(found, starts=dict.fromkeys(found.ends, 0), pending=None)
