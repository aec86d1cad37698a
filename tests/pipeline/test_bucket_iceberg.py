"""Iceberg tables in a bucket, by the rules of those in a folder: without Spark, in PostgreSQL and by REST."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any
from urllib.parse import urlsplit

import duckdb
import polars
import psycopg
import pytest
from psycopg import sql
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import StaticTable
from pyiceberg.table import Table as Loaded

from penstock.errors import (
    CatalogAway,
    FilesUnseen,
    InvalidOption,
    PipelineInterrupted,
    RangesDiffer,
    StorageAway,
    TableDamaged,
)
from penstock.pipeline.failure import failure
from penstock.pipeline.lake.commit import AppendFiles, commit
from penstock.pipeline.lake.delta.table import LakeTable
from penstock.pipeline.lake.iceberg.catalog import begin, catalog_of
from penstock.pipeline.lake.iceberg.table import IcebergTable
from penstock.pipeline.lake.kinds import kind_of, table_at
from penstock.pipeline.lake.old_tables import drop_old
from penstock.pipeline.lake.paths import is_table, tables_in
from penstock.pipeline.lake.rewind import cut_table
from penstock.pipeline.lake.sink import IcebergSink, check_delta
from penstock.pipeline.lake.state import remember, reset
from penstock.pipeline.lake.storage import Location, location, storage_of
from penstock.pipeline.lake.tables import describe, history, vacuum
from penstock.pipeline.lake.upkeep import optimize
from penstock.pipeline.lake.upsert import Upsert
from tests.pipeline import test_table
from tests.pipeline.conftest import Command
from tests.pipeline.read_back import live_rows
from tests.pipeline.rest_catalog import rest_catalog
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_bucket_lake import objects
from tests.pipeline.test_upsert_merging import Row, a_batch, a_part, a_row
from tests.services.object_store import SECRET, ObjectStore

APPEND, UPSERT = AppendFiles(), Upsert(("key",), (1,))
pytestmark = pytest.mark.slow


@pytest.fixture(params=["postgres", "rest"])
def catalog(request: pytest.FixtureRequest, bucket: str, object_store: ObjectStore, tmp_path: Path) -> Iterator[str]:
    """Give the address of a catalog of each kind; that by REST reaches the bucket in pyiceberg's own way."""
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_url")
        return
    with rest_catalog(tmp_path, **as_readers_do(object_store)) as url:
        yield url


@pytest.fixture
def table(bucket: str, catalog: str) -> Location:
    """Give the place of a table in a lake of Iceberg tables."""
    lake = location(f"{bucket}/shop/my lake é")
    begin(lake, catalog, None)
    return lake / "orders"


def as_readers_do(store: ObjectStore) -> dict[str, str]:
    """Return how pyiceberg itself is told where a bucket is."""
    said = store.environment()
    return {
        "s3.endpoint": said["AWS_ENDPOINT_URL"],
        "s3.region": said["AWS_REGION"],
        "s3.access-key-id": said["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": said["AWS_SECRET_ACCESS_KEY"],
    }


def loaded(path: Location, store: ObjectStore) -> Loaded:
    """Return a table as a reader sees it that knows nothing of ours, by its description."""
    return StaticTable.from_metadata(table_at(path).moment(), as_readers_do(store))


def read_back(path: Location, columns: Sequence[str], store: ObjectStore) -> list[tuple[Any, ...]]:
    """Return some columns of a table, sorted, as pyiceberg says, and DuckDB and Polars after it."""
    found = loaded(path, store)
    arrow = found.scan(selected_fields=tuple(columns)).to_arrow()
    rows = _sorted(tuple(row[name] for name in columns) for row in arrow.to_pylist())
    with duckdb.connect() as conn:
        found.scan().to_duckdb("rows", conn)
        chosen = ", ".join(f'"{name}"' for name in columns)
        assert _sorted(conn.execute(f"SELECT {chosen} FROM rows").fetchall()) == rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
        assert _sorted(polars.scan_iceberg(found).select(columns).collect().rows()) == rows
    return rows


def _sorted(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)


def offsets(path: Location) -> list[int]:
    found = table_at(path).batches(["offset"])
    return sorted(offset for batch in found for offset in batch.column("offset").to_pylist())


def appended(path: Location, start: int, end: int) -> bool:
    return commit(a_part(path, [a_row(f"k-{n}", n) for n in range(start, end)]), a_batch(start, end), APPEND)


def names(path: Location, ending: str) -> list[str]:
    return [name for name in objects(path) if name.endswith(ending)]


def test_batches_are_there_once_through_upkeep_and_all_readers_say_so(
    table: Location, object_store: ObjectStore
) -> None:
    for n in range(0, 50, 10):
        assert appended(table, n, n + 10)
    assert not appended(table, 40, 50), "it is there already"
    with pytest.raises(RangesDiffer, match="is there up to 50"):
        appended(table, 70, 80)
    columns = ["key", "text", "partition", "offset", "deleted", "bucket"]
    before = read_back(table, columns, object_store)
    assert sorted(row[3] for row in before) == list(range(50))
    assert [each.name for each in tables_in(table.parent)] == ["orders"]
    assert (is_table(table), is_table(table.parent), kind_of(table)) == (True, False, IcebergTable)
    (state,) = describe(table.parent)
    assert (state.size.version, state.size.rows, state.size.files) == (5, 50, 5)

    storage_of(table).replace(table / "part-left-by-a-crash.parquet", b"nothing")
    storage_of(table).replace(table / "_penstock" / "ours.json", b"{}")
    (done,) = optimize(table.parent, file_bytes=1 << 20)
    assert (done.files, done.into) == (5, 1)
    assert [each.operation for each in history(table.parent, limit=2)] == ["optimize", "append"]
    (dry,) = vacuum(table.parent, older_than_hours=0, dry_run=True)
    assert "part-left-by-a-crash.parquet" in dry.files
    (gone,) = vacuum(table.parent, older_than_hours=0, dry_run=False)
    assert set(dry.files) <= set(gone.files)
    assert len(names(table, ".parquet")) == 1
    assert names(table, "ours.json"), "it is not Iceberg's"
    assert read_back(table, columns, object_store) == before
    with pytest.raises(RangesDiffer):  # where it ends does not go with its snapshots
        appended(table, 0, 10)
    assert appended(table, 50, 60)

    (source,) = table_at(table).sources()
    assert cut_table(table_at(table), source, {0: 55}, {0: 7}) == 5
    assert offsets(table) == list(range(55))
    assert appended(table, 55, 60)
    assert not any(SECRET.encode() in content for content in objects(table.parent).values())


def test_the_table_of_upserts_is_what_a_dictionary_would_be(table: Location, object_store: ObjectStore) -> None:
    rng, expected, offset = random.Random(7), dict[str, Row](), 0
    for _ in range(3):
        rows, start = list[Row](), offset
        for _ in range(rng.randint(1, 80)):
            rows.append(a_row(f"k-{rng.randint(0, 60)}", offset, deleted=rng.random() < 0.2))
            offset += 1
        rng.shuffle(rows)
        assert commit(a_part(table, rows), a_batch(start, offset), UPSERT)
        assert not commit(a_part(table, rows), a_batch(start, offset), UPSERT)
        expected |= {row["key"].decode(): row for row in sorted(rows, key=lambda row: row["offset"])}
        found = {row[0].decode(): row[1:] for row in read_back(table, ["key", "offset", "deleted"], object_store)}
        assert found == {key: (row["offset"], row["deleted"]) for key, row in expected.items()}
    living = {key.encode() for key, row in expected.items() if not row["deleted"]}
    assert set(live_rows(table).column("key").to_pylist()) == living


def test_of_two_drivers_one_commits_a_batch_and_the_other_looks_again(table: Location) -> None:
    appended(table, 0, 10)
    at = 10
    for _ in range(4):
        start, ways = Barrier(2), (at + 5, at + 7)
        parts = [a_part(table, [a_row(f"k-{n}", n) for n in range(at, until)]) for until in ways]

        def bring(number: int, begin: int, start: Barrier, ways: Sequence[int], parts: Sequence[Any]) -> bool:
            start.wait()
            try:
                return commit(parts[number], a_batch(begin, ways[number]), APPEND)
            except RangesDiffer:
                return False

        with ThreadPoolExecutor(2) as pool:
            tries = [pool.submit(bring, number, at, start, ways, parts) for number in range(2)]
        won = [each.result() for each in tries]
        assert won.count(True) == 1
        at = ways[won.index(True)]
        assert offsets(table) == list(range(at))


@pytest.mark.parametrize("again", [False, True])
def test_a_driver_that_was_overtaken_adds_nothing_and_with_pyicebergs_own_retries_it_does(
    table: Location, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    if again:
        monkeypatch.setattr(IcebergTable, "_begin", lambda self: self._table.transaction())
    appended(table, 0, 10)
    put, times = AppendFiles.put, list[int]()

    def late(self: AppendFiles, *given: Any) -> None:
        if not times:
            times.append(1)
            assert appended(table, 10, 20), "the other driver"
        put(self, *given)

    monkeypatch.setattr(AppendFiles, "put", late)
    assert appended(table, 10, 20) == again
    assert len(offsets(table)) == (30 if again else 20)


def test_files_that_are_not_there_are_not_committed(table: Location) -> None:
    appended(table, 0, 10)
    part = a_part(table, [a_row("k", 10)])
    storage_of(table).replace(table / part.files[0].name, b"cut")
    with pytest.raises(FilesUnseen):
        commit(part, a_batch(10, 11), APPEND)
    part = a_part(table, [a_row("k", 10)])
    (table / part.files[0].name).unlink()
    with pytest.raises(FilesUnseen):
        commit(part, a_batch(10, 11), APPEND)
    assert offsets(table) == list(range(10))


def test_a_table_that_its_catalog_has_lost_is_not_taken_for_a_new_one(table: Location) -> None:
    appended(table, 0, 10)
    known, name = catalog_of(table)
    known.drop_table(name)
    with pytest.raises(TableDamaged, match="catalog knows no table"):
        appended(table, 10, 20)
    assert not known.table_exists(name)


def test_a_crash_before_the_catalog_knew_of_a_table_leaves_one_that_is_gone_on_with(table: Location) -> None:
    IcebergTable.opened(table, a_part(table, []).schema)
    known, name = catalog_of(table)
    known.drop_table(name)
    assert appended(table, 0, 10)
    assert offsets(table) == list(range(10))


def test_a_stream_fills_a_lake_each_batch_once(
    bucket: str, catalog: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink as Spark calls it: tasks that write, a driver that commits, a checkpoint that is lost."""
    monkeypatch.setattr(test_table, "DeltaSink", IcebergSink)
    to, ends, types = location(f"{bucket}/lake"), test_table.ends, ("a", "b/c")
    query = test_table.Query(tmp_path / "one", to, tableBy="type", catalog=catalog)
    query.run(ends(0), ends(10), types)
    number = query.plan(ends(10), ends(20))
    query.commit(number, query.write(ends(10), ends(20), types))
    query.commit(number, query.write(ends(10), ends(20), types))  # a crash before Spark knew of it
    other = test_table.Query(tmp_path / "two", to, tableBy="type")  # the lake knows its catalog
    with pytest.raises(RangesDiffer):
        other.run(ends(0), ends(10), types)
    other.run(ends(20), ends(30), types)
    assert [each.name for each in tables_in(to)] == ["a", "b~2Fc"]
    rows = (
        row
        for each in tables_in(to)
        for batch in table_at(each).batches(["partition", "offset"])
        for row in batch.to_pylist()
    )
    assert sorted((row["partition"], row["offset"]) for row in rows) == test_table.all_places(30)
    with pytest.raises(InvalidOption, match="iceberg, as the tables in"):
        check_delta(to)

    assert {each.name for each, _ in reset(to, rebuild=True).aside} == {"a", "b~2Fc"}
    assert table_at(to / "_old.a").size().rows + table_at(to / "_old.b~2Fc").size().rows == 90
    drop_old(to)
    assert not any(objects(to))
    with pytest.raises(InvalidOption, match="cannot keep the catalog"):
        other.run(ends(0), ends(10), types)
    again = test_table.Query(tmp_path / "three", to, tableBy="type", catalog=catalog)
    again.run(ends(0), ends(5), types)
    assert sum(each.size.rows for each in describe(to)) == len(test_table.all_places(5))


def test_a_lake_of_the_same_namespace_keeps_its_tables(table: Location, catalog: str, bucket: str) -> None:
    appended(table, 0, 10)
    other = location(f"{bucket}/elsewhere/my lake é")
    begin(other, catalog, None)
    with pytest.raises(InvalidOption, match="another one than my_lake_é, where table orders is s3://"):
        appended(other / "orders", 0, 10)
    remember(other, ["orders"])  # as if it were its own
    reset(other, rebuild=True)
    drop_old(other)  # the files of the batch that was refused
    assert offsets(table) == list(range(10)), "it is in the catalog still"
    begin(other, catalog, "elsewhere")
    assert appended(other / "orders", 0, 3)
    assert (len(offsets(table)), len(offsets(other / "orders"))) == (10, 3)


def test_a_bucket_has_one_format(table: Location, catalog: str, bucket: str) -> None:
    delta = location(f"{bucket}/delta")
    assert commit(a_part(delta / "orders", [a_row("a", 0)]), a_batch(0, 1), APPEND)
    assert kind_of(delta / "orders") is LakeTable
    with pytest.raises(InvalidOption, match="delta, as the tables in"):
        begin(delta, catalog, None)
    with pytest.raises(InvalidOption, match="what the lake"):
        begin(table.parent, "postgresql://elsewhere/catalog", None)
    begin(table.parent, None, None)


def test_without_a_catalog_the_remedy_is_said_before_spark_starts(
    bucket: str, sqlite_store: LogStore, penstock: Command, tmp_path: Path
) -> None:
    line = ["pipeline", "lake", "--url", sqlite_store.url, "--topic", TOPIC, "--once", "--format", "iceberg"]
    line += ["--to", f"{bucket}/lake", "--checkpoint", str(tmp_path / "kept")]
    for more, code, said in (
        ([], 2, "it must be postgresql://HOST/DATABASE or https://…, for the object store of s3://"),
        (["--catalog", "sqlite:///x.db"], 2, "the address of a REST catalog, https://…, or of a database"),
        (["--catalog", "postgresql://me:hunter2@127.0.0.1:1/c"], 2, "without a password; give it as PGPASSWORD"),
        (["--catalog", "postgresql://127.0.0.1:1/c?password=hunter2"], 2, "give it as PGPASSWORD"),
        (["--catalog", "postgresql://me@127.0.0.1:1/c"], 3, "tables at '127.0.0.1:1/c' cannot be reached"),
        (["--catalog", "http://127.0.0.1:1/c"], 3, "tables at '127.0.0.1:1/c' cannot be reached"),
    ):
        done = penstock(*line, *more)
        assert (done.code, said in done.err) == (code, True), done.err
        assert "Traceback" not in done.err
        assert "hunter2" not in done.err
    assert not location(f"{bucket}/lake").exists(), "what is refused leaves nothing behind"


def test_who_is_away_is_named_and_tried_again(table: Location, catalog: str, monkeypatch: pytest.MonkeyPatch) -> None:
    appended(table, 0, 10)
    table_then, (known, name) = table_at(table), catalog_of(table)
    assert table_then.size().rows == 10
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        with pytest.raises(StorageAway, match="AWS_ENDPOINT_URL"):
            table_then.files()
    if urlsplit(catalog).scheme == "http":
        monkeypatch.setattr(RestCatalog, "url", lambda *_, **__: "http://127.0.0.1:1/v1/config")
    else:
        database = sql.Identifier(str(psycopg.conninfo.conninfo_to_dict(catalog)["dbname"]))
        closed = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(database)
        other = psycopg.conninfo.make_conninfo(catalog, dbname="postgres")
        with psycopg.connect(other, autocommit=True) as conn:
            conn.execute(closed)
    with pytest.raises(CatalogAway):
        known.load_table(name)
    with pytest.raises(CatalogAway, match="cannot be reached") as away:
        appended(table, 10, 20)
    assert isinstance(failure(f"x\npenstock.errors.CatalogAway: {away.value}\nat org"), PipelineInterrupted)
    assert "\n" not in str(away.value)
