"""A new checkpoint begins where the tables end, also when a crash left them at two places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock import points
from penstock.errors import HistoryTakenBack
from penstock.operate.drop import restored
from penstock.pipeline.columns import COLUMNS, spark_schema
from penstock.pipeline.lake.commit import AFTER_COMMIT
from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.lake.sink import DeltaSink
from penstock.pipeline.lake.storage import Location
from penstock.pipeline.offsets import Range
from penstock.pipeline.source.options import read_options
from penstock.pipeline.source.stream import StreamReader
from tests.pipeline.stores import PARTITIONS, TOPIC, LogStore


class Driver:
    """A query over the real source and the real sink, batch by batch, in this process."""

    def __init__(self, store: LogStore, to: Location, checkpoint: Path, **options: str) -> None:
        given = {"url": store.url, "topic": TOPIC, "continueFrom": str(to), **options}
        self.reader = StreamReader(read_options(given))
        self.sink = DeltaSink({"path": str(to), "tableBy": "type", "checkpointLocation": str(checkpoint)})
        self.folder = checkpoint
        (checkpoint / "offsets").mkdir(parents=True)
        (checkpoint / "metadata").write_text('{"id": "q"}')
        self.place: dict[str, Any] = self.reader.initialOffset()
        self.batch = 0

    def step(self) -> Range:
        """Run one batch and return what it held."""
        end = self.reader.latestOffset(self.place, ReadAllAvailable())
        assert end != self.place, "there is nothing new"
        (self.folder / "offsets" / str(self.batch)).write_text(f"v1\n{{}}\n{json.dumps(end)}\n")
        writer = self.sink.streamWriter(schema(), False)
        tasks = self.reader.partitions(self.place, end)
        writer.commit([writer.write(self.reader.read(task)) for task in tasks], self.batch)
        self.place, self.batch = end, self.batch + 1
        return Range.from_json(end)


def schema() -> Any:
    """Return the columns as Spark hands them to a sink."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    kinds = [BinaryType(), BinaryType(), StringType(), ArrayType(header), StringType()]
    kinds += [IntegerType(), LongType(), TimestampType()]
    return StructType([StructField(name, kind) for name, kind in zip(COLUMNS, kinds, strict=True)])


def places(to: Location) -> list[tuple[int, int]]:
    tables = [DeltaTable(str(path)).to_pyarrow_table(columns=["partition", "offset"]) for path in tables_in(to)]
    return sorted((row["partition"], row["offset"]) for row in pa.concat_tables(tables).to_pylist())


def test_a_new_checkpoint_begins_where_the_tables_end(store: LogStore, tmp_path: Path) -> None:
    to = tmp_path / "lake"
    store.fill(100)
    Driver(store, to, tmp_path / "one").step()
    store.fill(50)
    assert Driver(store, to, tmp_path / "two").step().count() == 50
    assert places(to) == sorted(store.records())


def test_a_new_checkpoint_does_not_go_on_with_tables_of_another_history(store: LogStore, tmp_path: Path) -> None:
    store.fill(20)
    Driver(store, tmp_path / "lake", tmp_path / "first").step()
    restored(store.outbox)
    store.fill(20)
    with pytest.raises(HistoryTakenBack):
        Driver(store, tmp_path / "lake", tmp_path / "second")


def test_a_new_checkpoint_knows_partitions_that_the_tables_have_not_seen(store: LogStore, tmp_path: Path) -> None:
    to = tmp_path / "lake"
    store.fill(100)
    Driver(store, to, tmp_path / "one").step()
    store.outbox.log.grow(TOPIC, 16)
    store.fill(50)
    assert Driver(store, to, tmp_path / "two").step().count() == 50
    assert places(to) == sorted(store.records())


def test_a_new_lake_begins_at_the_starting_offsets(store: LogStore, tmp_path: Path) -> None:
    store.fill(100)
    driver = Driver(store, tmp_path / "lake", tmp_path / "one", startingOffsets="latest")
    store.fill(20)
    assert driver.step().count() == 20


def test_after_a_crash_between_tables_a_new_checkpoint_first_ends_that_batch(
    store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "lake"
    store.fill(100)
    driver = Driver(store, to, tmp_path / "one")
    driver.step()
    store.fill(60)

    def fail(point: Any) -> None:
        if point == AFTER_COMMIT:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(points, "reach", fail)
        with pytest.raises(KeyboardInterrupt):
            driver.step()
    store.fill(30)  # the log has grown meanwhile: the batch must not
    after = Driver(store, to, tmp_path / "two")
    assert [after.step().count(), after.step().count()] == [60, 30]
    assert places(to) == sorted(store.records())
    assert Range.from_json(after.place).ends == store.ends()
    assert len(store.ends()) == PARTITIONS


def test_the_columns_are_those_of_the_contract() -> None:
    assert [field.name for field in schema()] == list(COLUMNS)
    assert spark_schema(("partition", "offset")) == "`partition` INT, `offset` BIGINT"
