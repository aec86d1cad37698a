"""`pipeline run --mode upsert | complete`: results of a query that keeps state, against plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, LogStore

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def counted(events: DataFrame) -> DataFrame:
    """How often each key came."""
    keyed = events.where("key IS NOT NULL").withColumn("who", F.col("key").cast("string"))
    return keyed.groupBy("who").agg(F.count("*").alias("many"))


def odd(events: DataFrame) -> DataFrame:
    """The keys that came an odd number of times: also such that no longer belong go."""
    return counted(events).where("many % 2 = 1")


def latest(events: DataFrame) -> DataFrame:
    """The records as they are; without state, their places decide."""
    return events.where("key IS NOT NULL").select("key", "value", "partition", "offset")


def counts(store: LogStore) -> dict[str, int]:
    return Counter(record.key for record in store.records().values() if record.key is not None)


def rows_of(to: Path) -> list[dict[str, Any]]:
    return [row for row in DeltaTable(str(to)).to_pyarrow_table().to_pylist() if not row["deleted"]]


def check_counts(store: LogStore, to: Path) -> None:
    rows = [(row["who"], row["many"]) for row in rows_of(to)]
    assert sorted(rows) == sorted(counts(store).items())


def check_odd(store: LogStore, to: Path) -> None:
    rows = [(row["who"], row["many"]) for row in rows_of(to)]
    assert sorted(rows) == sorted((who, many) for who, many in counts(store).items() if many % 2)


def check_latest(store: LogStore, to: Path) -> None:
    last = {record.key: record.data for _, record in sorted(store.records().items()) if record.key}
    rows = [(row["key"].decode(), row["value"]) for row in rows_of(to)]
    assert sorted(rows) == sorted((key, data) for key, data in last.items() if data is not None)


@pytest.mark.parametrize(
    ("function", "mode", "key", "check"),
    [
        ("counted", "upsert", "who", check_counts),
        ("odd", "complete", "who", check_odd),
        ("latest", "upsert", "key", check_latest),
    ],
)
def test_a_table_is_what_the_query_says_after_every_run(
    sqlite_store: LogStore,
    command: Command,
    tmp_path: Path,
    function: str,
    mode: str,
    key: str,
    check: Callable[[LogStore, Path], None],
) -> None:
    to = tmp_path / "table"
    words = ["--url", sqlite_store.url, "--topic", TOPIC, "--to", str(to), "--once"]
    for many in (200, 90):
        sqlite_store.fill(many)
        done = command(
            *("pipeline", "run", f"tests.pipeline.test_run_modes:{function}", *words),
            *("--mode", mode, "--key", key, "--batch-records", "120"),
        )
        assert done.code == 0, done.err
        check(sqlite_store, to)


def test_parts_by_the_time_of_a_column_that_has_none_are_refused_and_nothing_is_held(
    sqlite_store: LogStore, command: Command, tmp_path: Path
) -> None:
    sqlite_store.fill(10)
    words = ["--url", sqlite_store.url, "--topic", TOPIC, "--to", str(tmp_path / "table"), "--once"]
    target = "tests.pipeline.test_run_modes:latest"
    done = command("pipeline", "run", target, *words, "--partition-by", "day(timestamp)")
    assert done.code == 2
    assert "option --partition-by='day(timestamp)': it must be" in done.err
    assert "of a column of timestamps: here is none" in done.err
    log = sqlite_store.outbox.log
    assert log.holds(log.topic(TOPIC)) == {}
