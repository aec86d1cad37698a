"""Iceberg tables under the rules of the Delta ones, without Spark: each batch once."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.expressions import visitors
from pyiceberg.table import Table as Loaded

from penstock.errors import InvalidOption, PipelineFailed, RangesDiffer, TableDamaged, TableDiffers
from penstock.pipeline.lake.commit import AppendFiles, Evolve, TablePart, commit
from penstock.pipeline.lake.data_files import FileWriter, OpenFile
from penstock.pipeline.lake.erasure import _rows
from penstock.pipeline.lake.iceberg.catalog import begin, catalog_of
from penstock.pipeline.lake.iceberg.table import IcebergTable
from penstock.pipeline.lake.identity import ByOffsets, Unmoved
from penstock.pipeline.lake.kinds import table_at
from penstock.pipeline.lake.paths import is_table, tables_in
from penstock.pipeline.lake.rewind import cut_table
from penstock.pipeline.lake.routing import OneTable, Partitioning
from penstock.pipeline.lake.sink import IcebergSink
from penstock.pipeline.lake.state import reset
from penstock.pipeline.lake.tables import describe, history, vacuum
from penstock.pipeline.lake.upkeep import forget_deleted, optimize
from penstock.pipeline.lake.upsert import BUCKETS, Upsert
from penstock.pipeline.offsets import Places, Range
from tests.pipeline import test_table
from tests.pipeline.conftest import ROOT, WORKERS_PATH, Command
from tests.pipeline.read_back import live_rows
from tests.pipeline.rest_catalog import rest_catalog
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_upsert_merging import SCHEMA, Row, a_batch, a_part, a_row

APPEND, UPSERT = AppendFiles(), Upsert(("key",), (1,))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Give the path of a table in a lake of Iceberg tables."""
    begin(tmp_path / "my lake é", None, None)
    return tmp_path / "my lake é" / "orders"


def loaded(path: Path) -> Loaded:
    catalog, name = catalog_of(path)
    return catalog.load_table(name)


def read_back(path: Path, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return some columns of a table, sorted, as pyiceberg says, and DuckDB and Polars after it."""
    found = loaded(path)
    arrow = found.scan(selected_fields=tuple(columns)).to_arrow()
    by_pyiceberg = _sorted(tuple(row[name] for name in columns) for row in arrow.to_pylist())
    chosen = ", ".join(f'"{name}"' for name in columns)
    with duckdb.connect() as conn:
        found.scan().to_duckdb("rows", conn)
        conn.execute("SET TimeZone = 'UTC'")
        assert _sorted(conn.execute(f"SELECT {chosen} FROM rows").fetchall()) == by_pyiceberg
        files = [str(path / name) for name in table_at(path).file_names()]
        if files:
            from_files = f"SELECT {chosen} FROM read_parquet($files, union_by_name => true)"
            assert _sorted(conn.execute(from_files, {"files": files}).fetchall()) == by_pyiceberg
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
        assert _sorted(polars.scan_iceberg(found).select(columns).collect().rows()) == by_pyiceberg
    return by_pyiceberg


def _sorted(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)


def held(path: Path) -> dict[str, Row]:
    rows = loaded(path).scan().to_arrow().to_pylist()
    found = {row["key"].decode(): row for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def offsets(path: Path) -> list[int]:
    return [row[0] for row in read_back(path, ["offset"])]


def appended(path: Path, start: int, end: int, identity: ByOffsets | None = None) -> bool:
    part = a_part(path, [a_row(f"k-{n}", n) for n in range(start, end)])
    return commit(part, identity or a_batch(start, end), APPEND)


def test_batches_that_follow_each_other_are_there_once_and_all_readers_say_so(table: Path) -> None:
    for n in range(0, 50, 10):
        assert appended(table, n, n + 10)
    assert not appended(table, 40, 50), "it is there already"
    with pytest.raises(RangesDiffer, match="is there up to 50"):
        appended(table, 70, 80)
    assert offsets(table) == sorted(range(50), key=repr)
    assert read_back(table, ["key", "text", "partition", "offset", "deleted", "bucket"])
    assert [each.name for each in tables_in(table.parent)] == ["orders"]
    (state,) = describe(table.parent)
    assert (state.size.version, state.size.rows, state.size.files) == (5, 50, 5)


def test_the_documented_example_finds_a_table_whatever_its_folder_is_called(table: Path) -> None:
    appended(table, 0, 3)
    page = (ROOT / "docs" / "how-to" / "iceberg.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page.partition("## Read them")[2], re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)  # as a user would copy it
    assert names["table"](table.parent, "orders").scan().to_arrow().num_rows == 3


def test_a_batch_without_rows_moves_the_end(table: Path) -> None:
    assert appended(table, 0, 5)
    assert commit(TablePart(table, SCHEMA, ()), a_batch(5, 9), APPEND)
    assert appended(table, 9, 10)
    assert len(offsets(table)) == 6


def test_the_commit_of_a_driver_that_was_overtaken_is_refused_and_looks_again(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zombie has seen the table before the batch came in; pyiceberg itself would add the rows again."""
    appended(table, 0, 10)
    put, times = AppendFiles.put, list[int]()

    def late(self: AppendFiles, *given: Any) -> None:
        if not times:
            times.append(1)
            assert appended(table, 10, 20), "the other driver"
        put(self, *given)

    monkeypatch.setattr(AppendFiles, "put", late)
    assert not appended(table, 10, 20)
    assert len(offsets(table)) == 20
    assert len(loaded(table).snapshots()) == 2


def test_a_commit_that_pyiceberg_tries_again_by_itself_doubles_rows(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above: why it must not."""
    monkeypatch.setattr(IcebergTable, "_begin", lambda self: self._table.transaction())
    appended(table, 0, 10)
    put, times = AppendFiles.put, list[int]()

    def late(self: AppendFiles, *given: Any) -> None:
        if not times:
            times.append(1)
            appended(table, 10, 20)
        put(self, *given)

    monkeypatch.setattr(AppendFiles, "put", late)
    appended(table, 10, 20)
    assert len(offsets(table)) == 30


@pytest.mark.parametrize("point", ["pipeline.before_table_commit", "pipeline.after_table_commit"])
def test_a_driver_that_dies_around_its_commit_loses_and_doubles_nothing(table: Path, point: str) -> None:
    appended(table, 0, 10)
    program = (
        "import sys; from pathlib import Path; from penstock import points; "
        "from tests.pipeline.test_iceberg import appended; "
        "points.arm(sys.argv[2], points.kill); appended(Path(sys.argv[1]), 10, 20)"
    )
    words = [sys.executable, "-c", program, str(table), point]
    died = subprocess.run(words, cwd=ROOT, env=os.environ | {"PYTHONPATH": WORKERS_PATH}, check=False)
    assert died.returncode == -signal.SIGKILL
    assert appended(table, 10, 20) == point.startswith("pipeline.before")
    assert len(offsets(table)) == 20


def test_the_table_of_upserts_is_what_a_dictionary_would_be_after_every_batch(table: Path) -> None:
    rng, expected, offset = random.Random(7), dict[str, Row](), 0
    for _ in range(6):
        rows = []
        start = offset
        for _ in range(rng.randint(1, 80)):
            rows.append(a_row(f"k-{rng.randint(0, 60)}", offset, deleted=rng.random() < 0.2))
            offset += 1
        rng.shuffle(rows)
        assert commit(a_part(table, rows), a_batch(start, offset), UPSERT)
        expected |= {row["key"].decode(): row for row in sorted(rows, key=lambda row: row["offset"])}
        assert held(table) == expected
    assert read_back(table, ["key", "offset", "bucket"])
    living = {key.encode() for key, row in expected.items() if not row["deleted"]}
    assert set(live_rows(table).column("key").to_pylist()) == living
    assert len(table_at(table).file_names()) <= BUCKETS
    with pytest.raises(InvalidOption, match="upsert by key"):
        commit(a_part(table, []), a_batch(offset, offset + 1), Upsert(("text",), (1,)))


def test_manifests_that_are_asked_at_once_are_asked_about_their_own_files(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg's threads would share an evaluator: each keeps there what it was asked about last."""
    for n in range(3):
        commit(a_part(table, [a_row(f"k-{n}", n)]), a_batch(n, n + 1), UPSERT)
    begun = visitors._ManifestEvalVisitor.eval

    def asked(self: Any, manifest: Any) -> bool:
        self.partition_fields = manifest.partitions
        threading.Event().wait(0.1)  # others put theirs there, if it is the same evaluator
        mine = self.partition_fields is manifest.partitions
        return begun(self, manifest) if mine else False

    monkeypatch.setattr(visitors._ManifestEvalVisitor, "eval", asked)
    assert commit(a_part(table, [a_row(f"k-{n}", 3 + n) for n in range(3)]), a_batch(3, 6), UPSERT)
    assert sorted(row["offset"] for row in held(table).values()) == [3, 4, 5]


def test_new_fields_get_columns_and_a_type_that_changed_is_refused(table: Path) -> None:
    inner = pa.struct([("a", pa.int16())])
    first = pa.schema([*SCHEMA, ("more", inner)])
    then = pa.schema([*SCHEMA, ("more", pa.struct([("a", pa.int16()), ("b", pa.string())])), ("note", pa.string())])
    commit(a_part(table, [a_row("a", 0) | {"more": {"a": 1}}], first), a_batch(0, 1), Evolve())
    later = a_row("b", 1) | {"more": {"a": 2, "b": "x"}, "note": "new"}
    commit(a_part(table, [later], then), a_batch(1, 2), Evolve())
    commit(a_part(table, [a_row("c", 2)]), a_batch(2, 3), Evolve())
    rows = {row["offset"]: (row["more"], row["note"]) for row in loaded(table).scan().to_arrow().to_pylist()}
    assert rows == {0: ({"a": 1, "b": None}, None), 1: ({"a": 2, "b": "x"}, "new"), 2: (None, None)}
    other = pa.schema([*SCHEMA, ("note", pa.int64())])
    with pytest.raises(TableDiffers, match="note"):
        commit(a_part(table, [a_row("d", 3) | {"note": 1}], other), a_batch(3, 4), Evolve())
    commit(a_part(table, [a_row("d", 3)]), a_batch(3, 4), APPEND)
    assert loaded(table).scan(row_filter="offset = 3").to_arrow()["note"].to_pylist() == [None]


@pytest.mark.parametrize("format", ["iceberg", "delta"])
@pytest.mark.parametrize("now", [("Note", pa.string()), ("more", pa.struct([("A", pa.int16())]))], ids=str)
def test_a_field_whose_name_has_another_case_is_refused_in_both_formats(
    request: pytest.FixtureRequest, tmp_path: Path, format: str, now: tuple[str, pa.DataType]
) -> None:
    """Readers would find one column twice, and could not read the table any more."""
    at = request.getfixturevalue("table") if format == "iceberg" else tmp_path / "delta"
    first = pa.schema([*SCHEMA, ("note", pa.string()), ("more", pa.struct([("a", pa.int16())]))])
    commit(a_part(at, [a_row("a", 0) | {"note": "old", "more": {"a": 1}}], first), a_batch(0, 1), Evolve())
    renamed = pa.schema([*SCHEMA, now])
    with pytest.raises(TableDiffers, match=r"(?i)note string.* Note string|struct"):
        commit(a_part(at, [a_row("b", 1)], renamed), a_batch(1, 2), Evolve())
    commit(a_part(at, [a_row("b", 1) | {"note": "new"}], first), a_batch(1, 2), Evolve())
    notes = [row["note"] for batch in table_at(at).batches(["note"]) for row in batch.to_pylist()]
    assert sorted(notes) == ["new", "old"]


def test_days_are_hidden_partitions(table: Path) -> None:
    schema = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])
    days = Partitioning.parse("day(timestamp)")
    moments = [n * 3_600_000_000 for n in range(0, 72, 6)] + [None]
    batch = pa.record_batch([pa.array(range(len(moments))), pa.array(moments, schema.field(1).type)], schema=schema)

    files = FileWriter(table, OneTable(schema), days).write(iter([batch]))
    assert len(files) == 4
    assert commit(TablePart(table, schema, tuple(files), ("timestamp_day",)), a_batch(0, 13), APPEND)
    assert {each.part["timestamp_day"] for each in table_at(table).files()} == {"0", "1", "2", None}
    one_day = loaded(table).scan("timestamp >= '1970-01-02T00:00:00+00:00' and timestamp < '1970-01-03T00:00:00+00:00'")
    assert len(list(one_day.plan_files())) == 1
    assert sorted(one_day.to_arrow().column("offset").to_pylist()) == [4, 5, 6, 7]
    assert len(offsets(table)) == 13


def test_small_files_are_joined_old_ones_go_and_what_the_table_knows_stays(table: Path) -> None:
    for n in range(0, 50, 10):
        appended(table, n, n + 10)
    (table / "part-left-by-a-crash.parquet").write_bytes(b"nothing")
    (done,) = optimize(table.parent, file_bytes=1 << 20)
    assert (done.files, done.into) == (5, 1)
    assert [each.operation for each in history(table.parent, limit=2)] == ["optimize", "append"]
    before = set(table.rglob("*.parquet"))
    assert len(before) == 7
    (dry,) = vacuum(table.parent, older_than_hours=0, dry_run=True)
    assert set(table.rglob("*.parquet")) == before
    (gone,) = vacuum(table.parent, older_than_hours=0, dry_run=False)
    assert set(dry.files) <= set(gone.files)
    assert len(list(table.rglob("*.parquet"))) == 1
    assert len(loaded(table).snapshots()) == 1
    assert len(offsets(table)) == 50
    with pytest.raises(RangesDiffer):  # where it ends does not go with its snapshots
        appended(table, 0, 10)
    assert not appended(table, 40, 50)
    assert appended(table, 50, 60)


def test_old_snapshots_go_by_themselves_and_ends_stay(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.pipeline.lake.iceberg.table._KEPT_SNAPSHOTS", 3)
    for n in range(8):
        appended(table, n, n + 1)
    assert len(loaded(table).snapshots()) == 3
    assert len(offsets(table)) == 8


def test_a_snapshot_that_somebody_has_named_stays_and_nothing_stops(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.pipeline.lake.iceberg.table._KEPT_SNAPSHOTS", 3)
    assert appended(table, 0, 2)
    before = loaded(table)
    before.manage_snapshots().create_tag(before.metadata.current_snapshot_id or 0, "audit").commit()
    for n in range(2, 12, 2):
        assert appended(table, n, n + 2)
    assert optimize(table.parent, file_bytes=1 << 20)
    vacuum(table.parent, older_than_hours=0, dry_run=False)
    then = loaded(table).scan(snapshot_id=before.metadata.current_snapshot_id).to_arrow()
    assert (then.num_rows, len(offsets(table))) == (2, 12)
    with pytest.raises(PipelineFailed, match="tags or branches, which keep what was: audit; drop them"):
        table_at(table).purge(0)
    loaded(table).manage_snapshots().remove_tag("audit").commit()
    table_at(table).purge(0)
    assert len(loaded(table).snapshots()) == 1


def test_keys_that_were_deleted_are_forgotten(table: Path) -> None:
    schema = pa.schema([*SCHEMA, ("timestamp", pa.timestamp("us", "UTC"))])
    rows = [a_row("a", 0), a_row("b", 1, deleted=True), a_row("c", 2, deleted=True)]
    rows = [row | {"timestamp": 0} for row in rows]
    commit(a_part(table, rows, schema), a_batch(0, 3), UPSERT)
    assert forget_deleted(table, older_than_hours=1, dry_run=True) == 2
    assert forget_deleted(table, older_than_hours=1) == 2
    assert set(held(table)) == {"a"}
    assert not commit(a_part(table, rows, schema), a_batch(0, 3), UPSERT)


def test_a_table_is_cut_back_to_where_the_log_was(table: Path) -> None:
    for n in (0, 10):
        appended(table, n, n + 10)
    (source,) = table_at(table).sources()
    assert cut_table(table_at(table), source, {0: 5}, {0: 7}) == 15
    assert table_at(table).ends(source) == {0: 5}
    assert len(offsets(table)) == 5
    assert appended(table, 5, 12)


def test_a_reset_forgets_tables_in_the_catalog_too(table: Path) -> None:
    appended(table, 0, 10)
    reset(table.parent, rebuild=True)
    assert not is_table(table)
    begin(table.parent, None, None)
    assert appended(table, 0, 3)
    assert len(offsets(table)) == 3


def test_a_table_that_its_catalog_does_not_know_is_not_taken_for_a_new_one(table: Path) -> None:
    appended(table, 0, 10)
    catalog, name = catalog_of(table)
    catalog.drop_table(name)
    with pytest.raises(TableDamaged, match="catalog knows no table"):
        table_at(table).size()


def test_a_folder_has_one_format_and_one_catalog(tmp_path: Path, table: Path) -> None:
    assert commit(a_part(tmp_path / "delta" / "orders", [a_row("a", 0)]), a_batch(0, 1), APPEND)
    with pytest.raises(InvalidOption, match="delta, as the tables in"):
        begin(tmp_path / "delta", None, None)
    with pytest.raises(InvalidOption, match="the file beside the lake, namespace my_lake_é"):
        begin(table.parent, "http://localhost:1/", None)
    with pytest.raises(InvalidOption, match="address of a REST catalog"):
        begin(tmp_path / "other", "ftp://x", None)


@pytest.mark.parametrize("address", ["https://me:hunter2@host/x", "ftp://me:hunter2@host/x"])
def test_a_catalog_with_a_login_is_refused_and_the_password_not_said(tmp_path: Path, address: str) -> None:
    with pytest.raises(InvalidOption, match="address") as refused:
        begin(tmp_path / "lake", address, None)
    assert "hunter2" not in str(refused.value)
    assert not (tmp_path / "lake").exists()


def test_a_rest_catalog_knows_the_tables_and_refuses_who_was_overtaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rest_catalog(tmp_path) as url:
        begin(tmp_path / "lake", url, "shop")
        table = tmp_path / "lake" / "orders"
        assert appended(table, 0, 10)
        assert not (table.parent / "_penstock" / "catalog.db").exists()
        put, times = AppendFiles.put, list[int]()

        def late(self: AppendFiles, *given: Any) -> None:
            if not times:
                times.append(1)
                assert appended(table, 10, 20), "the other driver"
            put(self, *given)

        with monkeypatch.context() as patch:
            patch.setattr(AppendFiles, "put", late)
            assert not appended(table, 10, 20)
        # What was reported as failed may count later: its file stays.
        assert len(list(table.glob("*.parquet"))) == 3
        assert len(offsets(table)) == 20
        optimize(table.parent, file_bytes=1 << 20)
        vacuum(table.parent, older_than_hours=0, dry_run=False)
        assert len(list(table.glob("*.parquet"))) == 1
        reset(table.parent, rebuild=True)
        begin(table.parent, url, "shop")
        assert appended(table, 0, 3)
        assert len(offsets(table)) == 3


@pytest.mark.parametrize("work", ["compact", "cut_back", "erase"])
def test_files_of_a_commit_that_counts_though_the_catalog_said_nothing_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    with rest_catalog(tmp_path) as url:
        begin(tmp_path / "lake", url, "shop")
        path, committed = tmp_path / "lake" / "orders", RestCatalog.commit_table
        assert appended(path, 0, 10)
        assert appended(path, 10, 20)
        table, erased = table_at(path), Places()
        erased.add(np.array([0]), np.array([3]))
        known = Unmoved(tuple(table.sources()), False)
        works: dict[str, Any] = {
            "compact": lambda: table.compact(1 << 20),
            "cut_back": lambda: cut_table(table, table.sources()[0], {0: 15}, {}),
            "erase": lambda: _rows(path, {TOPIC: erased}, known, dry_run=False),
        }

        def silent(*given: Any) -> None:
            committed(*given)
            raise CommitStateUnknownException("the proxy gave up")

        with monkeypatch.context() as patch:
            patch.setattr(RestCatalog, "commit_table", silent)
            with pytest.raises(CommitStateUnknownException):
                works[work]()
        assert len(offsets(path)) == {"compact": 20, "cut_back": 15, "erase": 19}[work]


def test_the_command_refuses_another_format_before_spark_starts(
    table: Path, sqlite_store: LogStore, penstock: Command
) -> None:
    where = ["--url", sqlite_store.url, "--topic", TOPIC, "--to", str(table.parent)]
    done = penstock("pipeline", "lake", *where)
    assert (done.code, "iceberg, as the tables in" in done.err) == (2, True), done.err
    done = penstock("pipeline", "lake", *where, "--format", "iceberg", "--catalog", "http://127.0.0.1:1/")
    assert (done.code, "what the lake" in done.err) == (2, True), done.err
    done = penstock("pipeline", "lake", *where, "--namespace", "shop")
    assert (done.code, "are for --format iceberg" in done.err) == (2, True), done.err


def test_a_type_may_be_called_metadata(table: Path) -> None:
    appended(table.parent / "metadata", 0, 3)
    assert not is_table(table.parent)
    assert [each.name for each in tables_in(table.parent)] == ["metadata"]


def test_a_file_of_another_column_order_and_an_empty_table_can_be_read(table: Path) -> None:
    other = pa.schema(list(reversed(list(SCHEMA))))
    file = OpenFile(table, other)
    file.add(pa.RecordBatch.from_pylist([a_row("a", 0)], schema=other))
    assert commit(TablePart(table, SCHEMA, (file.finish(),)), a_batch(0, 1), APPEND)
    assert read_back(table, ["key", "offset"]) == [(b"a", 0)]


def test_a_stream_fills_a_lake_of_iceberg_tables_each_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink as Spark calls it: tasks that write, a driver that commits, a checkpoint that is lost."""
    monkeypatch.setattr(test_table, "DeltaSink", IcebergSink)
    to = tmp_path / "lake"
    query = test_table.Query(tmp_path / "one", to, tableBy="type")
    ends, types = test_table.ends, ("a", "b/c")
    query.run(ends(0), ends(10), types)
    number = query.plan(ends(10), ends(20))
    query.commit(number, query.write(ends(10), ends(20), types))
    query.commit(number, query.write(ends(10), ends(20), types))  # a crash before Spark knew of it
    other = test_table.Query(tmp_path / "two", to, tableBy="type")
    with pytest.raises(RangesDiffer):
        other.run(ends(0), ends(10), types)
    other.run(ends(20), ends(30), types)
    assert [each.name for each in tables_in(to)] == ["a", "b~2Fc"]
    found = [row for each in tables_in(to) for row in read_back(each, ["partition", "offset"])]
    assert sorted(found) == test_table.all_places(30)
    monkeypatch.undo()
    with pytest.raises(InvalidOption, match="iceberg, as the tables in"):
        test_table.Query(tmp_path / "three", to, tableBy="type").run(ends(30), ends(40), types)


def test_a_batch_of_two_topics_is_known_by_both(table: Path) -> None:
    both = ByOffsets(tuple(Range("log", name, number, {0: 0}, {0: 2}) for number, name in enumerate("ab")))
    assert appended(table, 0, 2, both)
    assert [each.topic for each in table_at(table).sources()] == ["a", "b"]
    assert not appended(table, 0, 2, both)
