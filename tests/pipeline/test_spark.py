"""On a real Spark: the source, the sink, windows with late events, and what Spark itself does wrong."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

from penstock.errors import InvalidPipeline, PipelineFailed
from penstock.pipeline.declared import Pipeline
from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.query import Job, Running, begin
from tests.pipeline.stores import TOPIC, TYPES, LogStore, row_of
from tests.services.budget import level_from_environment
from tests.suites.records import a_record

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
MINUTE_MS = 60_000


def load(spark: SparkSession, store: LogStore, **options: Any) -> DataFrame:
    return spark.read.format("penstock").options(url=store.url, topic=TOPIC, **options).load()


def job(store: LogStore, to: Path, **given: Any) -> Job:
    return Job(url=store.url, topic=TOPIC, to=to, once=True, **given)


def finished(running: Running) -> Running:
    assert running.wait(300)
    return running


def by_duckdb(path: Path, query: str) -> list[Any]:
    """Ask a table as a user would: deltalake → Arrow → DuckDB."""
    events = DeltaTable(path).to_pyarrow_table()
    with duckdb.connect() as conn:
        conn.register("events", events)
        return conn.execute(query).fetchall()


def test_spark_reads_what_was_published(store: LogStore, spark: SparkSession) -> None:
    store.fill(300)
    frame = load(spark, store)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,type:string,headers:array<struct<key:string,value:binary>>,"
        "topic:string,partition:int,offset:bigint,timestamp:timestamp>"
    )
    found = [row.asDict(recursive=True) for row in frame.orderBy("partition", "offset").collect()]
    for row in found:
        row["timestamp"] = int(row["timestamp"].timestamp() * 1000)
        row["key"] = None if row["key"] is None else bytes(row["key"])
        row["value"] = None if row["value"] is None else bytes(row["value"])
        row["headers"] = [{**h, "value": None if h["value"] is None else bytes(h["value"])} for h in row["headers"]]
    assert found == [row_of(record) for _, record in sorted(store.records().items())]
    assert load(spark, store, columns="offset").columns == ["offset"]


def test_a_lake_read_back_by_duckdb_is_what_was_published(store: LogStore, spark: SparkSession, tmp_path: Path) -> None:
    store.fill(500)
    to = tmp_path / "lake"
    finished(begin(spark, job(store, to, batch_records=200)))
    store.fill(100)
    finished(begin(spark, job(store, to)))
    assert len(tables_in(to)) == len(TYPES)
    found = [
        row
        for table in tables_in(to)
        for row in by_duckdb(
            table,
            'SELECT partition, "offset", key, value, type, epoch_ms(timestamp), '
            "list_transform(headers, lambda h: h.key), "
            "list_transform(headers, lambda h: h.value) FROM events",
        )
    ]
    wanted = [
        (
            partition,
            offset,
            None if record.key is None else record.key.encode(),
            record.data,
            record.type,
            record.timestamp_ms,
            [name for name, _ in record.raw_headers],
            [value for _, value in record.raw_headers],
        )
        for (partition, offset), record in sorted(store.records().items())
    ]
    assert sorted(found, key=lambda row: row[:2]) == wanted


def test_a_new_checkpoint_on_an_old_table_neither_loses_nor_doubles(
    sqlite_store: LogStore, spark: SparkSession, tmp_path: Path
) -> None:
    to = tmp_path / "table"

    def plain(events: DataFrame) -> DataFrame:
        return events.select("partition", "offset", "type").where("type <> 'a/b'")

    sqlite_store.fill(300)
    first = job(sqlite_store, to, batch_records=100)
    finished(begin(spark, first, Pipeline(function=plain)))
    first.checkpoint.rename(tmp_path / "old")
    sqlite_store.fill(100)
    finished(begin(spark, first, Pipeline(function=plain)))
    wanted = sorted(place for place, record in sqlite_store.records().items() if record.type != "a/b")
    assert sorted(by_duckdb(to, 'SELECT partition, "offset" FROM events')) == wanted


def revenue(events: DataFrame) -> DataFrame:
    """Revenue per minute, events up to two minutes late."""
    order = F.from_json(F.col("value").cast("string"), "cents INT")
    orders = events.where("type = 'order.placed'").select("timestamp", order.alias("order"))
    minutes = orders.withWatermark("timestamp", "2 minutes").groupBy(F.window("timestamp", "1 minute"))
    return minutes.agg(F.sum("order.cents").alias("cents")).select("window.start", "cents")


def publish_minutes(store: LogStore) -> dict[int, int]:
    """Fill the log minute by minute, with late events and with two that are far too late to count.

    Return the revenue of each minute by plain Python.
    """
    start_ms = 1_700_000_040_000
    assert start_ms % MINUTE_MS == 0
    sums: dict[int, int] = defaultdict(int)
    records = []
    for minute in range(20):
        moments = [start_ms + minute * MINUTE_MS + n * 700 for n in range(80)]
        moments += [moments[0] - 90_000] * (minute % 3)  # late, and within the two minutes
        lost = [start_ms - 3_600_000] * 2 if minute == 15 else []  # long after their window was closed
        for n, moment in enumerate(moments + lost):
            data = json.dumps({"cents": n}).encode()
            records.append(a_record("shop", data, timestamp_ms=moment))  # one key: in this order
            if moment not in lost:
                sums[moment // MINUTE_MS * MINUTE_MS] += n
        records.append(a_record("shop", type="other", timestamp_ms=moments[0]))
    store.outbox.log.append(TOPIC, records)
    return sums


def test_windows_with_late_events_equal_a_plain_computation_and_state_refuses_a_new_checkpoint(
    sqlite_store: LogStore, spark: SparkSession, tmp_path: Path
) -> None:
    to = tmp_path / "revenue"
    sums = publish_minutes(sqlite_store)
    places = len(sqlite_store.records())
    done = finished(begin(spark, job(sqlite_store, to, batch_records=places // 3), Pipeline(function=revenue)))
    dropped = [
        each["numRowsDroppedByWatermark"]
        for progress in done._query.recentProgress
        for each in progress["stateOperators"]
    ]
    # An event of another day closes all windows; a second run goes on from the state of the first.
    closing = a_record("shop", b'{"cents": 0}', timestamp_ms=1_800_000_000_000)
    sqlite_store.outbox.log.append(TOPIC, [closing])
    finished(begin(spark, job(sqlite_store, to), Pipeline(function=revenue)))
    found = by_duckdb(to, "SELECT epoch_ms(start), cents FROM events ORDER BY start")
    assert found == sorted(sums.items())
    assert sum(dropped) == 1, "the two that are too late, gathered to one row before they are dropped"
    again = job(sqlite_store, to)
    again.checkpoint.rename(tmp_path / "old")
    with pytest.raises(PipelineFailed, match="reset --rebuild"):
        finished(begin(spark, again, Pipeline(function=revenue)))
    assert by_duckdb(to, "SELECT epoch_ms(start), cents FROM events ORDER BY start") == found


def test_a_pipeline_that_returns_something_else_is_refused(
    sqlite_store: LogStore, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(InvalidPipeline, match="returned int"):
        begin(spark, job(sqlite_store, tmp_path), Pipeline(function=lambda events: 3, target="x:y"))
    with pytest.raises(InvalidPipeline, match="does not come from"):
        begin(spark, job(sqlite_store, tmp_path), Pipeline(function=lambda events: spark.range(3)))


def test_a_failure_is_one_line_without_a_stack_trace(
    sqlite_store: LogStore, spark: SparkSession, tmp_path: Path
) -> None:
    sqlite_store.fill(100)
    sqlite_store.expire(2, before=3)
    wanted = f'{{"{TOPIC}": {{"2": 0}}}}'
    with pytest.raises(PipelineFailed) as failed:
        finished(begin(spark, job(sqlite_store, tmp_path / "lake", starting=wanted)))
    assert "partition 2: 0 to before 3" in str(failed.value)
    assert "\n" not in str(failed.value)
    assert "Traceback" not in str(failed.value)


# What Spark itself does: pinned, so that we see the day it changes.


class LeakingSource(DataSource):
    """A source that pushes filters down exactly as Spark's documentation shows."""

    @classmethod
    def name(cls) -> str:
        return "leaking"

    def schema(self) -> str:
        return "x INT"

    def reader(self, schema: Any) -> DataSourceReader:
        return LeakingReader()


class LeakingReader(DataSourceReader):
    def __init__(self) -> None:
        self.only: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for each in filters:
            if isinstance(each, EqualTo) and each.attribute == ("x",):
                self.only = each.value
            else:
                yield each

    def partitions(self) -> list[InputPartition]:
        values = range(4) if self.only is None else [self.only]
        return [InputPartition(value) for value in values]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        for _ in range(4):
            yield (partition.value,)


@pytest.mark.skipif(level_from_environment() != "long", reason="long only: it is about Spark alone")
def test_pushed_filters_still_leak_into_the_next_query(spark: SparkSession) -> None:
    """The day this fails Spark is mended, and the source may push filters down."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(LeakingSource)
    frame = spark.read.format("leaking").load()
    counts = [frame.count(), frame.where("x = 1").count(), frame.count()]
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert counts == [16, 4, 4], "a filter no longer leaks: [16, 4, 16] would be right"


def test_our_source_pushes_no_filters_and_so_leaks_none(sqlite_store: LogStore, spark: SparkSession) -> None:
    sqlite_store.fill(200)
    frame = load(spark, sqlite_store)
    ends = sqlite_store.ends()
    counts = [frame.count(), frame.where("partition = 1").count(), frame.count()]
    assert counts == [200, ends[1], 200]
    union = frame.where("partition = 0").union(frame.where("partition = 1"))
    assert union.count() == ends[0] + ends[1]


def test_a_loaded_frame_is_frozen_and_a_new_one_is_not(sqlite_store: LogStore, spark: SparkSession) -> None:
    sqlite_store.fill(100)
    frame = load(spark, sqlite_store)
    assert frame.count() == 100
    sqlite_store.fill(50)
    assert frame.count() == 100
    assert load(spark, sqlite_store).count() == 150
