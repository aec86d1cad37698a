"""Spark on a log in files: in batch, and into a lake that reconciles."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_continue import places

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_a_log_in_files_is_read_and_its_lake_reconciles(
    spark: SparkSession, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a path from here must mean the same to Spark's processes
    store = LogStore("./a log/")
    try:
        store.fill(300)
        frame = spark.read.format("penstock").options(url=f"{tmp_path}/a log/", topic=TOPIC).load()
        found = {(row.partition, row.offset): row for row in frame.collect()}
        expected = store.records()
        assert found.keys() == expected.keys()
        for place, record in expected.items():
            assert found[place].type == record.type
            assert (found[place].value and bytes(found[place].value)) == record.data

        where = ["--url", "./a log/", "--topic", TOPIC]
        for more in (0, 50):
            if more:
                store.fill(more)
            done = command("pipeline", "lake", *where, "--to", "lake", "--once", "--batch-records", "200")
            assert done.code == 0, done.err
            assert places(tmp_path / "lake") == sorted(store.records())
        done = command("reconcile", *where, "--lake", "lake")
        assert (done.code, done.out) == (0, "reconciled: logged=350 table=350\n")
    finally:
        store.close()
