"""The files of tables: their statistics and parts hide no row from a reader, and let it skip others."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from penstock.errors import InvalidOption, TableDiffers
from penstock.pipeline.lake.commit import AppendFiles, Evolve, TablePart, commit
from penstock.pipeline.lake.data_files import FileWriter
from penstock.pipeline.lake.identity import by_application
from penstock.pipeline.lake.routing import OneTable, Partitioning

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("word", pa.string()),
        ("nothing", pa.string()),
        ("seldom", pa.int32()),
        ("raw", pa.binary()),
        ("half", pa.float64()),
        ("even", pa.bool_()),
        ("day", pa.date32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
START = datetime(2026, 11, 16, 22, 30, tzinfo=UTC)


def rows_from(first: int, many: int) -> pa.Table:
    numbers = range(first, first + many)
    return pa.table(
        {
            "n": numbers,
            "word": [f"w-{n:03}" if n % 3 else "é" * 80 for n in numbers],
            "nothing": [None] * many,
            "seldom": [n if n % 4 == 0 else None for n in numbers],
            "half": [n / 2 if n % 5 else None for n in numbers],
            "even": [n % 2 == 0 if n % 10 else None for n in numbers],
            "day": [date(2026, 1, 1) + timedelta(days=n) for n in numbers],
            "raw": [bytes([n % 256]) for n in numbers],
            "timestamp": [START + timedelta(minutes=10 * n, microseconds=999_999) for n in numbers],
        },
        schema=SCHEMA,
    )


def put(to: Path, first: int, many: int, by: str | None = None) -> None:
    """Write some rows as one batch."""
    partitioning = Partitioning.parse(by)
    files = FileWriter(to, OneTable(SCHEMA), partitioning).write(iter(rows_from(first, many).to_batches()))
    part = TablePart(to, partitioning.whole(SCHEMA), tuple(files), tuple(partitioning.columns(SCHEMA)))
    commit(part, by_application("test", str(first)), AppendFiles())


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "table"


CONDITIONS = [
    "n = 0",
    "n >= 25",
    "n < 5",
    "word = 'w-001'",
    "word > 'w-020'",
    "word < 'f'",
    "word > 'x'",
    f"word > '{'é' * 70}'",
    "nothing IS NULL",
    "nothing IS NOT NULL",
    "nothing = 'x'",
    "seldom IS NULL",
    "seldom = 8",
    "seldom IS NOT NULL AND n > 20",
    "raw = '\\x03'::BLOB",
    "half = 0.5",
    "half > 13.9",
    "half IS NULL",
    "even",
    "NOT even AND n > 25",
    "even IS NULL",
    "day = '2026-01-30'",
    "day < '2026-01-03'",
    "timestamp = '2026-11-16 22:30:00.999999+00'",
    "timestamp > '2026-11-17 03:20:00.999+00'",
    "timestamp >= '2026-11-17 03:20:00.999999+00'",
    "timestamp < '2026-11-16 22:31:00+00'",
    "timestamp BETWEEN '2026-11-17' AND '2026-11-17 01:00:00'",
]


@pytest.mark.parametrize("by", [None, "day(timestamp)", "hour(timestamp)", "month(timestamp)"])
def test_a_reader_that_filters_finds_the_rows_that_it_would_find_without(to: Path, by: str | None) -> None:
    for first in range(0, 30, 10):
        put(to, first, 10, by)
    found, wanted = dict[str, Any](), dict[str, Any]()
    with duckdb.connect() as conn:
        conn.execute("SET TimeZone = 'UTC'")
        conn.register("lazily", DeltaTable(to).to_pyarrow_dataset())
        conn.register("plain", rows_from(0, 30))
        for condition in CONDITIONS:
            for answers, name in ((found, "lazily"), (wanted, "plain")):
                asked = f"SELECT n FROM {name} WHERE {condition} ORDER BY n"
                answers[condition] = conn.execute(asked).fetchall()
    assert found == wanted


def test_statistics_are_those_of_the_rows(to: Path) -> None:
    put(to, 4, 3)
    stats = json.loads(_adds(to)[0]["stats"])
    assert stats["numRecords"] == 3
    assert stats["minValues"]["timestamp"] == "2026-11-16T23:10:00.999Z"
    assert stats["maxValues"]["timestamp"] == "2026-11-16T23:30:01.000Z"
    assert (stats["minValues"]["n"], stats["maxValues"]["n"]) == (4, 6)
    assert stats["nullCount"]["nothing"] == 3
    assert "nothing" not in stats["minValues"]


@pytest.mark.parametrize(
    ("kind", "value", "condition"),
    [
        (pa.decimal128(10, 2), Decimal("1.50"), "x = 1.5"),
        (pa.struct([("k", pa.string())]), {"k": "a"}, "x.k = 'a'"),
        (pa.list_(pa.int32()), [1], "x[1] = 1"),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)], "x['a'] = 1"),
        (pa.float64(), float("nan"), "isnan(x)"),
        (pa.float32(), 0.5, "x = 0.5"),
        (pa.timestamp("us"), datetime(2026, 1, 1), "x = '2026-01-01'"),  # noqa: DTZ001 - a time without zone
        (pa.bool_(), True, "x"),
    ],
)
def test_columns_of_other_types_hide_nothing(to: Path, kind: Any, value: Any, condition: str) -> None:
    schema = pa.schema([("n", pa.int64()), ("x", kind)])
    rows = pa.table({"n": [1, 2], "x": [value, None]}, schema=schema)
    files = FileWriter(to, OneTable(schema)).write(iter(rows.to_batches()))
    commit(TablePart(to, schema, tuple(files)), by_application("test", "1"), AppendFiles())
    with duckdb.connect() as conn:
        conn.register("lazily", DeltaTable(to).to_pyarrow_dataset())
        assert conn.execute(f"SELECT n FROM lazily WHERE {condition}").fetchall() == [(1,)]
        assert conn.execute("SELECT n FROM lazily WHERE x IS NULL").fetchall() == [(2,)]
        assert conn.execute("SELECT n FROM lazily WHERE n = 2").fetchall() == [(2,)]


def test_a_reader_opens_only_the_files_that_may_have_what_it_asks_for(to: Path) -> None:
    for first in range(0, 50, 10):
        put(to, first, 10)
    dataset = DeltaTable(to).to_pyarrow_dataset()
    asked = list(dataset.get_fragments(filter=pc.field("n") >= 42))
    assert len(asked) == 1


def test_a_table_in_parts_has_a_file_for_each_day(to: Path) -> None:
    put(to, 0, 30, "day(timestamp)")
    table = DeltaTable(to)
    assert table.metadata().partition_columns == ["timestamp_day"]
    assert sorted(each["partitionValues"]["timestamp_day"] for each in _adds(to)) == ["2026-11-16", "2026-11-17"]
    found = table.to_pyarrow_table(columns=["n", "timestamp_day", "timestamp"]).to_pylist()
    assert {row["n"] for row in found} == set(range(30))
    assert {row["timestamp_day"] for row in found} == {date(2026, 11, 16), date(2026, 11, 17)}
    assert all(row["timestamp"].date() == row["timestamp_day"] for row in found)


def test_a_table_whose_columns_grow_is_cut_into_parts_too(to: Path) -> None:
    days = Partitioning.parse("day(timestamp)")
    files = FileWriter(to, OneTable(SCHEMA), days).write(iter(rows_from(0, 30).to_batches()))
    part = TablePart(to, days.whole(SCHEMA), tuple(files), tuple(days.columns(SCHEMA)))
    commit(part, by_application("test", "1"), Evolve())
    table = DeltaTable(to)
    assert table.metadata().partition_columns == ["timestamp_day"]
    found = table.to_pyarrow_table(columns=["timestamp_day", "timestamp"]).to_pylist()
    assert all(row["timestamp"].date() == row["timestamp_day"] for row in found)


def test_another_partitioning_than_the_table_has_is_refused(to: Path) -> None:
    put(to, 0, 10, "day(timestamp)")
    with pytest.raises(TableDiffers, match="timestamp_day date"):
        put(to, 10, 10)
    with pytest.raises(TableDiffers, match="timestamp_hour string"):
        put(to, 10, 10, "hour(timestamp)")
    assert DeltaTable(to).to_pyarrow_table().num_rows == 10


@pytest.mark.parametrize("said", ["timestamp", "week(timestamp)", "day()", "day(timestamp", "day(n)"])
def test_what_no_partitioning_can_be_is_refused(said: str) -> None:
    with pytest.raises(InvalidOption, match="partitionBy"):
        Partitioning.parse(said).whole(SCHEMA)


def _adds(to: Path) -> list[dict[str, Any]]:
    files = (file.read_text("utf-8").splitlines() for file in (to / "_delta_log").glob("*.json"))
    log = (json.loads(line) for lines in files for line in lines)
    return [line["add"] for line in log if "add" in line]
