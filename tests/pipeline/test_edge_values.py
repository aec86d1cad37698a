"""No value that a record or a typed event may have stops a pipeline: edges of all types, in both formats."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock.pipeline.columns import COLUMNS, record_batch
from penstock.pipeline.lake.commit import AppendFiles, Evolve, TablePart, commit
from penstock.pipeline.lake.data_files import FileWriter
from penstock.pipeline.lake.identity import by_application
from penstock.pipeline.lake.kinds import table_at
from penstock.pipeline.lake.routing import OneTable, Partitioning
from penstock.pipeline.lake.sink import begin_iceberg
from penstock.pipeline.lake.storage import location
from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, LogStore
from tests.suites.records import a_record

FIRST, LAST = datetime.min, datetime.max  # noqa: DTZ901 - the zone is that of the column
EDGES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "bigint": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "double": (pa.float64(), [-inf, -0.0, 5e-324, 1.7976931348623157e308, inf, nan]),
    "decimal": (pa.decimal128(38, 18), [Decimal(f"{sign}{'9' * 20}.{'9' * 18}") for sign in ("", "-")]),
    "string": (pa.string(), ["", "\0", "\U0010ffff" * 70]),
    "binary": (pa.binary(), [b"", b"\xff" * 100]),
    "date": (pa.date32(), [date.min, date.max]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [each.replace(tzinfo=UTC) for each in (FIRST, LAST)]),
    "timestamp_ntz": (pa.timestamp("us"), [FIRST, LAST]),
    "struct": (pa.struct([("a", pa.timestamp("us"))]), [{"a": FIRST}, {"a": LAST}, {"a": None}]),
    "array": (pa.list_(pa.timestamp("us")), [[], [FIRST, None, LAST]]),
    "map": (pa.map_(pa.string(), pa.date32()), [[], [("", date.max)]]),
}
FORMATS = pytest.mark.parametrize("iceberg", [False, True], ids=["delta", "iceberg"])


def written(
    root: Path,
    rows: pa.Table,
    number: int,
    *,
    iceberg: bool,
    by: str | None = None,
    committing: AppendFiles | None = None,
) -> pa.Table:
    """Bring rows into a table as a batch; return what it holds then."""
    root.mkdir(exist_ok=True)
    if iceberg:
        begin_iceberg(location(str(root)), None, None)
    cut, to = Partitioning.parse(by), location(str(root / "table"))
    files = FileWriter(to, OneTable(rows.schema), cut).write(iter(rows.to_batches()))
    schema = rows.schema if iceberg else cut.whole(rows.schema)
    part = TablePart(to, schema, tuple(files), tuple(cut.columns(rows.schema)))
    assert commit(part, by_application("test", str(number)), committing or AppendFiles())
    return pa.Table.from_batches(table_at(to).batches(rows.schema.names)).sort_by("n")


@FORMATS
@pytest.mark.parametrize("committing", [AppendFiles(), Evolve()], ids=["raw", "typed"])
def test_every_edge_of_every_type_is_stored_as_it_is_and_the_next_batch_follows(
    tmp_path: Path, iceberg: bool, committing: AppendFiles
) -> None:
    most = max(len(values) for _, values in EDGES.values())
    columns = {
        name: pa.array([*values, *[None] * (most - len(values)), values[0]], kind)
        for name, (kind, values) in EDGES.items()
    }
    rows = pa.table({"n": list(range(most + 1)), **columns})
    found = written(tmp_path, rows, 1, iceberg=iceberg, committing=committing)
    assert str(found.to_pylist()) == str(rows.to_pylist())
    more = rows.set_column(0, "n", pa.array([n + 100 for n in range(most + 1)]))
    found = written(tmp_path, more, 2, iceberg=iceberg, committing=committing)
    assert found.num_rows == 2 * (most + 1)


ODD_MS = [-(2**63), -62135596800001, -1, 0, 253402300800000, 1_790_000_000_000_000, 2**63 - 1]


@FORMATS
@pytest.mark.parametrize("by", [None, "year(timestamp)", "month(timestamp)", "day(timestamp)", "hour(timestamp)"])
def test_a_record_with_any_time_is_stored_and_told_at_the_edge_of_the_years_that_readers_know(
    tmp_path: Path, iceberg: bool, by: str | None
) -> None:
    many = len(ODD_MS)
    given = {
        "partition": pa.array([0] * many, pa.int32()),
        "offset": pa.array(range(many), pa.int64()),
        "timestamp_ms": pa.array(ODD_MS, pa.int64()),
    }
    fetched = pa.record_batch(given)
    names = tuple(name for name in COLUMNS if name in ("offset", "timestamp"))
    rows = pa.Table.from_batches([record_batch(fetched, "events", names)]).rename_columns(["n", "timestamp"])
    found = written(tmp_path, rows, 1, iceberg=iceberg, by=by).column("timestamp").to_pylist()
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    before = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert found == [first, first, before, datetime(1970, 1, 1, tzinfo=UTC), last, last, last]
    if not iceberg:
        assert DeltaTable(tmp_path / "table").to_pyarrow_dataset().to_table().num_rows == many


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63) + 1_000_000, 253402300800000000])
@pytest.mark.parametrize("by", [None, "day(x)", "year(x)"])
def test_a_time_of_a_query_in_no_known_year_is_stored_as_it_is(tmp_path: Path, value: int, by: str | None) -> None:
    rows = pa.table({"n": [1], "x": pa.array([value], pa.int64()).cast(pa.timestamp("us", tz="UTC"))})
    assert written(tmp_path, rows, 1, iceberg=False, by=by).equals(rows)
    assert DeltaTable(tmp_path / "table").to_pyarrow_dataset().to_table(columns=["n", "x"]).equals(rows)


def test_the_last_moment_before_a_day_is_in_the_part_of_its_own_day() -> None:
    times = pa.array([-1, 0], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    parts = Partitioning.parse("day(x)").parts(pa.record_batch({"x": times}))
    assert [dict(part)["x_day"] for part, _ in parts] == ["1969-12-31", "1970-01-01"]


def an_edge(n: int, real: float, money: str, at: str, day: str, word: str, raw: str) -> dict[str, Any]:
    fields = {"n": n, "real": real, "money": money, "at": at, "day": day, "word": word, "raw": raw}
    return fields | {"inner": {word: at}, "days": [day, day]}


EDGE_EVENTS = [
    an_edge(-(2**63), -1.7976931348623157e308, "-99999999999999999999.999999999999999999", *each)
    for each in [
        ("0001-01-01T00:00:00Z", "0001-01-01", "", ""),
        ("0001-01-01T00:00:00+18:00", "0001-01-01", "\x00", "AA=="),  # in UTC the year before the first
        ("0900-01-01T00:00:00-18:00", "0900-02-28", "\U0010ffff" * 70, "/////w=="),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31", '"\\', "AA=="),
        ("9999-12-31T23:59:59.999999-18:00", "9999-12-31", "é", "AA=="),  # in UTC the year after the last
    ]
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@FORMATS
def test_no_value_of_a_typed_event_stops_the_command(
    sqlite_store: LogStore, command: Command, tmp_path: Path, iceberg: bool
) -> None:
    """Each is in the table of its type, or in `rejected`; and the next run goes on."""
    to, where = tmp_path / "lake", ["--url", sqlite_store.url, "--topic", TOPIC]
    words = ["pipeline", "lake", *where, "--to", str(to), "--once", "--partition-by", "day(at)"]
    words += ["--types", "tests.pipeline.edge_events:outbox", *(["--format", "iceberg"] if iceberg else [])]
    for n, each in enumerate(EDGE_EVENTS):
        record = a_record(key=f"k{n}", type="edge", data=json.dumps(each).encode(), timestamp_ms=ODD_MS[3 + n % 2])
        sqlite_store.outbox.log.append(TOPIC, [record])
    done = command(*words)
    assert done.code == 0, done.err
    counted = command("reconcile", *where, "--lake", str(to))
    assert (counted.code, counted.out) == (0, "reconciled: logged=5 table=5\n"), counted.out + counted.err
