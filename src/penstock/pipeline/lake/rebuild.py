"""Rebuilds a table of a lake from the log, up to where the other tables end, in one commit.

Its rows are written beside the old table, which readers use meanwhile. Then the sink sets the old table
aside, where it stays until it is dropped (`set_aside.py`), and commits; then the stream goes on with all
tables. The commit has the identity that the stream's own would have. After a crash the rebuild starts again.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import msgspec
from pyspark.sql import SparkSession

from ..offsets import Range
from ..query import Job, asking, source_options
from ..source.options import written_offsets
from ..source.stream import continued
from ..source.view import open_view
from .kinds import table_at
from .modes import lake_rows
from .old_tables import not_in_log
from .paths import is_table
from .state import known_tables, made_again, reader_name


def make_again(spark: SparkSession, job: Job, tell: Callable[[str], None]) -> list[str]:
    """Rebuild the tables that a reset has listed; return their names. Raises AnotherLog, HistoryTakenBack.

    Before it begins, calls `tell` with the number of rows of each table that cannot be rebuilt.
    """
    names = known_tables(job.to).again
    if not names:
        return []
    batch = _range(job)
    for said in _missing(job, names):
        tell(said)
    ends = written_offsets(job.topic, batch.ends, others=0)
    source = source_options(job) | {"startingOffsets": "earliest", "endingOffsets": ends}
    with asking():
        frame = spark.read.format("penstock").options(**source).load()
        rows, how = lake_rows(frame, job.mode, job.to)
        writer = rows.write.format(job.sink).mode("append").options(**how, **job.sink_options())
        writer = writer.option("onlyTables", "/".join(names))
        writer = writer.option("batchRange", msgspec.json.encode(batch.to_json()).decode())
        with _described(spark, f"{reader_name(job.to)}: {', '.join(names)} again from the log"):
            writer.save()
    made_again(job.to)
    return list(names)


@contextmanager
def _described(spark: SparkSession, said: str) -> Iterator[None]:
    """Describe the jobs of the block in Spark's UI, which does so only for streams by default."""
    spark.sparkContext.setJobDescription(said)
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


def _missing(job: Job, names: Iterable[str]) -> Iterator[str]:
    with closing(open_view(job.url, job.names, job.topic)) as view:
        heads, log = view.heads(), view.identity()
    for name in names:
        if is_table(job.to / name):
            left = not_in_log(table_at(job.to / name), heads, log)
            yield f"table {name}: {left.said('cannot be made again from the log')}"


def _range(job: Job) -> Range:
    """Return the range that the existing tables hold, from the start of the topic."""
    with closing(open_view(job.url, job.names, job.topic)) as view:
        found = continued(job.to, view, view.heads())
    assert found is not None, "a reset of all tables removes the checkpoint, too"
    return replace(found, starts=dict.fromkeys(found.ends, 0), pending=None)
