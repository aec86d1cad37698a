"""The bounds of files hide no row from any reader, whatever the values are, and each column has some."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.pipeline.lake.commit import AppendFiles, TablePart, commit
from penstock.pipeline.lake.data_files import FileWriter
from penstock.pipeline.lake.identity import by_application
from penstock.pipeline.lake.routing import OneTable
from tests.services.budget import Budget

PLAIN: dict[str, tuple[pa.DataType, list[Any]]] = {
    "byte": (pa.int8(), [-128, 0, 5, 127]),
    "whole": (pa.int64(), [-(2**63), -1, 0, 7, 2**53 + 1, 2**63 - 1]),
    "half": (pa.float64(), [-1.5, 0.0, -0.0, 5e-324, 1.7976931348623157e308, 3.25]),
    "single": (pa.float32(), [-1.5, 0.5, 1.100000023841858]),
    "truth": (pa.bool_(), [True, False]),
    "word": (pa.string(), ["", "a", "é", "\u0000", '"\\', "\U0010ffff", "zz"]),
    "day": (pa.date32(), [date.min, date(900, 1, 1), date(1969, 12, 31), date(2026, 1, 1), date.max]),
}
ODD: dict[str, tuple[pa.DataType, list[Any]]] = {
    **PLAIN,
    "half": (pa.float64(), [*PLAIN["half"][1], inf, -inf, nan]),
    "single": (pa.float32(), [-1.5, 0.5, inf, -inf, nan]),
    "word": (pa.string(), [*PLAIN["word"][1], "x" * 64, "x" * 65, "\U0010ffff" * 70, "é" * 100]),
    "money": (
        pa.decimal128(38, 18),
        [Decimal(each) for each in ("0", "1E-18", "-1.5", "12345678901234567890.123456789012345678")],
    ),
    "moment": (
        pa.timestamp("us", tz="UTC"),
        [
            datetime.min.replace(tzinfo=UTC),
            datetime(900, 1, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
            datetime.max.replace(tzinfo=UTC),
        ],
    ),
    "local": (
        pa.timestamp("us"),
        [datetime.min, datetime(2026, 1, 1, 0, 0, 0, 999), datetime.max],  # noqa: DTZ001, DTZ901 - without one
    ),
    "bytes": (pa.binary(), [b"", b"a"]),
    "list": (pa.list_(pa.int64()), [[], [1]]),
    "inner": (
        pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))]),
        [{"a": 1, "b": {"c": "x"}}, {"a": 2, "b": None}],
    ),
    "mixed": (pa.struct([("a", pa.int64()), ("l", pa.list_(pa.int8()))]), [{"a": 1, "l": [1]}]),
}
SORTED_BY_EACH = {"half", "single"}  # pyarrow gives rows of NaN, too, where it asks for all up to infinity
Kinds = dict[str, tuple[pa.DataType, list[Any]]]
LEAVES: dict[str, list[tuple[str, ...]]] = {"inner": [("inner", "a"), ("inner", "b", "c")], "mixed": [("mixed", "a")]}
COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def schema_of(kinds: Kinds) -> pa.Schema:
    return pa.schema([("n", pa.int64()), *((name, kind) for name, (kind, _) in kinds.items())])


def random_rows(draw: random.Random, kinds: Kinds, first: int) -> pa.Table:
    """Return a few rows; a column may be all null, or have one value only."""
    many = draw.randint(1, 4)
    columns: dict[str, list[Any]] = {"n": list(range(first, first + many))}
    for name, (_, values) in kinds.items():
        some = draw.sample(values, draw.randint(1, len(values)))
        columns[name] = draw.choices([*some, None] if draw.random() < 0.6 else [None, some[0]], k=many)
    return pa.table(columns, schema=schema_of(kinds))


def put(to: Path, rows: pa.Table, number: int) -> None:
    files = FileWriter(to, OneTable(rows.schema)).write(iter(rows.to_batches()))
    commit(TablePart(to, rows.schema, tuple(files)), by_application("test", str(number)), AppendFiles())


def a_table(to: Path, draw: random.Random, kinds: Kinds) -> pa.Table:
    files = list[pa.Table]()
    for number in range(4):
        files.append(random_rows(draw, kinds, sum(len(each) for each in files)))
        put(to, files[-1], number)
    return pa.concat_tables(files)


def stats_of(to: Path) -> list[dict[str, Any]]:
    files = sorted((to / "_delta_log").glob("*.json"))
    lines = [line for file in files for line in file.read_text("utf-8").split("\n") if line]
    return [json.loads(add["stats"]) for line in lines if (add := json.loads(line).get("add"))]


def test_no_reader_misses_a_row_by_the_bounds_of_a_random_table(tmp_path: Path, budget: Budget) -> None:
    for each in budget("pipeline.bounds"):
        draw, to = random.Random(each.seed), tmp_path / str(each.number)
        kinds = dict(draw.sample(list(ODD.items()), 3))
        rows = a_table(to, draw, kinds)
        paths = [path for name in kinds for path in LEAVES.get(name, [(name,)])]
        missed = [
            f"{reader} {path} {said}"
            for path in paths
            for reader, said, found, wanted in answers(to, rows, path, draw)
            if (not {*wanted} <= {*found} if path[0] in SORTED_BY_EACH else found != wanted)
        ]
        assert missed == []


def answers(to: Path, rows: pa.Table, path: tuple[str, ...], draw: random.Random) -> list[tuple[Any, ...]]:
    """Return for some conditions what each reader finds in the table, and in the rows themselves."""
    dataset, lazily = DeltaTable(to).to_pyarrow_dataset(), pl.scan_delta(str(to))
    frame = pl.DataFrame(rows)
    column, place = pc.field(*path) if len(path) == 1 else pc.field(path), pl.col(path[0])
    for name in path[1:]:
        place = place.struct.field(name)
    asked = [("IS NULL", column.is_null(), place.is_null()), ("IS NOT NULL", column.is_valid(), place.is_not_null())]
    said = "".join(f'"{path[0]}"' if not at else f'."{name}"' for at, name in enumerate(path))
    done, values = [], [None, None]
    given = rows.column(path[0]).combine_chunks()
    given = pc.struct_field(given, list(path[1:])) if path[1:] else given
    others = given.drop_null().to_pylist() if not pa.types.is_list(given.type) else []
    for value in draw.sample(others, min(1, len(others))):
        for sign, compared in COMPARED.items():
            literal = pa.scalar(value, given.type)
            asked.append(
                (
                    f"{sign} ?",
                    compared(column, literal),
                    compared(
                        place,
                        pl.lit(pl.Series(pa.array([value], given.type)).first(), dtype=frame.select(place).dtypes[0]),
                    ),
                )
            )
            values.append(literal)
    with duckdb.connect() as conn:
        conn.execute("SET TimeZone = 'UTC'")
        conn.register("lazily", dataset)
        conn.register("plain", rows)
        for (words, arrow, polars), value in zip(asked, values, strict=True):
            shown = f"{words} {value}"
            done.append(("pyarrow", shown, numbers(dataset.to_table(filter=arrow)), numbers(rows.filter(arrow))))
            done.append(("polars", shown, numbers(lazily.filter(polars).collect()), numbers(frame.filter(polars))))
            if value is not None:
                conn.register("literal", pa.table({"v": pa.array([value.as_py()], given.type)}))
                words = words.replace("?", "(SELECT v FROM literal)")
            both = [
                sorted(n for (n,) in conn.execute(f"SELECT n FROM {name} WHERE {said} {words}").fetchall())
                for name in ("lazily", "plain")
            ]
            done.append(("duckdb", shown, both[0], both[1]))
    return done


def numbers(found: Any) -> list[int]:
    return sorted(found["n"].to_pylist() if isinstance(found, pa.Table) else found["n"].to_list())


def test_bounds_of_plain_values_are_those_of_delta_rs(tmp_path: Path, budget: Budget) -> None:
    for each in budget("pipeline.bounds"):
        rows = random_rows(random.Random(each.seed), PLAIN, 0)
        ours, theirs = tmp_path / f"ours{each.number}", tmp_path / f"theirs{each.number}"
        put(ours, rows, 1)
        write_deltalake(theirs, rows)
        assert stats_of(ours) == stats_of(theirs)


def test_each_column_has_bounds_whatever_stands_beside_it(tmp_path: Path) -> None:
    rows = pa.table({name: pa.array(values[:1], kind) for name, (kind, values) in ODD.items()})
    rows = rows.set_column(rows.schema.get_field_index("half"), "half", pa.array([nan]))
    put(tmp_path / "table", rows, 1)
    (stats,) = stats_of(tmp_path / "table")
    bounded = ODD.keys() - {"bytes", "list", "mixed"}
    assert stats["minValues"].keys() == stats["maxValues"].keys() == bounded
    assert stats["minValues"]["inner"] == {"a": 1, "b": {"c": "x"}}
    assert (stats["minValues"]["half"], stats["maxValues"]["half"]) == ("-Infinity", "Infinity")


FAR = 1_790_000_000_000_000_000  # microseconds: in the year 58692


@pytest.mark.parametrize(
    ("kind", "values", "least", "most"),
    [
        (pa.timestamp("us", tz="UTC"), [0, FAR], "1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"),
        (pa.timestamp("us"), [-FAR, 0], "0001-01-01T00:00:00.000", "1970-01-01T00:00:00.000"),
        (pa.timestamp("us", tz="UTC"), [-(2**63), 2**63 - 1], "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"),
        (pa.date32(), [-(2**31), 2**31 - 1], "0001-01-01", "9999-12-31"),
    ],
)
def test_bounds_of_times_end_with_the_years_that_readers_know(
    tmp_path: Path, kind: pa.DataType, values: list[int], least: str, most: str
) -> None:
    times = pa.array(values, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    rows = pa.table({"n": [0, 1], "x": times})
    put(tmp_path / "table", rows, 1)
    (stats,) = stats_of(tmp_path / "table")
    assert (stats["minValues"]["x"], stats["maxValues"]["x"]) == (least, most)
    dataset = DeltaTable(tmp_path / "table").to_pyarrow_dataset()
    assert numbers(dataset.to_table(filter=pc.field("n") == 1)) == [1]
    epoch = date(1970, 1, 1) if pa.types.is_date(kind) else pa.scalar(0, pa.int64()).cast(kind)
    wanted = [n for n, value in enumerate(values) if value >= 0]
    assert numbers(dataset.to_table(filter=pc.field("x") >= epoch)) == wanted


def test_a_long_text_has_a_bound_that_is_not_before_it(tmp_path: Path) -> None:
    for number, text in enumerate(("\U0010ffff" * 70, "x" * 64 + "\U0010ffff" * 3, "x" * 65)):
        put(tmp_path / f"t{number}", pa.table({"s": [text]}), 1)
        (stats,) = stats_of(tmp_path / f"t{number}")
        assert stats["minValues"]["s"] <= text <= stats["maxValues"]["s"]


def test_the_bounds_of_a_file_are_those_of_all_its_rows(tmp_path: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = [start + timedelta(microseconds=n) for n in (999_500, 1, 500)]
    batches = [pa.record_batch({"t": pa.array([each], pa.timestamp("us", tz="UTC"))}) for each in times]
    files = FileWriter(tmp_path / "t", OneTable(batches[0].schema)).write(iter(batches))
    stats = json.loads(files[0].stats)
    assert (stats["minValues"]["t"], stats["maxValues"]["t"]) == (
        "2026-01-01T00:00:00.000Z",
        "2026-01-01T00:00:01.000Z",
    )
