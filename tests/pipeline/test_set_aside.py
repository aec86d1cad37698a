"""A rebuild destroys nothing: the new table is made beside the old one, which stays until it is dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from penstock.model.limits import ERASED
from penstock.pipeline.lake.commit import Evolve, commit
from penstock.pipeline.lake.iceberg.catalog import begin
from penstock.pipeline.lake.kinds import table_at
from penstock.pipeline.lake.old_tables import drop_old, not_in_lake, old_tables
from penstock.pipeline.lake.paths import folder_of, tables_in
from penstock.pipeline.lake.sink import DeltaSink, IcebergSink
from penstock.pipeline.lake.state import check_tables, finish_reset, known_tables, remember, reset, tables_rebuilt
from penstock.pipeline.lake.storage import Location, location
from penstock.pipeline.lake.storage.local import LocalStorage
from penstock.pipeline.lake.tables import vacuum
from penstock.pipeline.lake.upsert import Upsert
from penstock.pipeline.offsets import Range
from tests.pipeline import test_table
from tests.pipeline.conftest import Command
from tests.pipeline.stores import PARTITIONS, TOPIC, LogStore
from tests.pipeline.stores import TYPES as STORE_TYPES
from tests.pipeline.test_table import ARROW, SCHEMA, Query, all_places, ends
from tests.pipeline.test_taken_back import restore
from tests.pipeline.test_upsert_merging import a_batch, a_part, a_row
from tests.pipeline.test_upsert_reconcile import WrittenLake

TYPES, TYPES_OF_STORE = ["a", "b"], [folder_of(each) for each in STORE_TYPES]


@pytest.fixture(params=["delta", "iceberg", "bucket"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "iceberg":
        monkeypatch.setattr(test_table, "DeltaSink", IcebergSink)
    return str(request.param)


@pytest.fixture
def to(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Location:
    """Give the place of a lake of each kind."""
    if kind == "bucket":
        return location(f"{request.getfixturevalue('bucket')}/shop/lake")
    return tmp_path / "my lake é"


@pytest.fixture
def lake(kind: str, to: Location, tmp_path: Path) -> Query:
    """Give a query with a lake of two tables."""
    query = Query(tmp_path / "one", to, tableBy="type")
    query.run(ends(0), ends(10), TYPES)
    query.run(ends(10), ends(20), TYPES)
    return query


def places(table: Location) -> list[tuple[int, int]]:
    found = [row for batch in table_at(table).batches(["partition", "offset"]) for row in batch.to_pylist()]
    return sorted((row["partition"], row["offset"]) for row in found)


def of_b(first: int, last: int) -> list[tuple[int, int]]:
    """Return the places of the rows of type b: every second one."""
    return [(p, n) for p, n in all_places(last) if n % 2 and n >= first]


def written_again(to: Location, kind: str, first: int, last: int) -> tuple[Any, Any]:
    """Run the tasks of the batch that makes table b again, from what the log still holds."""
    batch = Range("log", "orders", 1, ends(0), ends(last))
    options = {
        "path": str(to),
        "tableBy": "type",
        "onlyTables": "b",
        "batchRange": msgspec.json.encode(batch.to_json()).decode(),
    }
    writer = (IcebergSink if kind == "iceberg" else DeltaSink)(options).writer(SCHEMA, False)
    rows = [{"type": TYPES[n % 2], "partition": p, "offset": n} for p, n in all_places(last) if n >= first]
    return writer, writer.write(iter(pa.Table.from_pylist(rows, ARROW).to_batches()))


def test_a_table_is_made_again_beside_the_old_one_which_stays(lake: Query, to: Location, kind: str) -> None:
    done = reset(to, rebuild=True, tables=["b"])
    assert done == ([], [])
    assert known_tables(to).again == ("b",)
    writer, written = written_again(to, kind, 12, 20)
    assert places(to / "b") == of_b(0, 20), "readers have the old one while the new one is made"
    writer.commit([written])
    tables_rebuilt(to)
    assert [each.name for each in tables_in(to)] == TYPES
    assert places(to / "b") == of_b(12, 20)
    assert places(to / "_old.b") == of_b(0, 20)
    assert not (to / "_penstock" / "new").exists()
    lake.run(ends(20), ends(30), TYPES)
    assert places(to / "b") == of_b(12, 30)
    vacuum(to, older_than_hours=0, dry_run=False)
    old = table_at(to / "_old.b")
    assert not_in_lake(old, to).describe("are gone") == "18 of 30 rows are gone"
    assert [each.name for each in drop_old(to)] == ["_old.b"]
    assert old_tables(to) == []
    assert places(to / "b") == of_b(12, 30)


def test_a_crash_within_the_swap_loses_neither(
    lake: Query, to: Location, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reset(to, rebuild=True, tables=["b"])
    writer, written = written_again(to, kind, 12, 20)

    def crash(*given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("penstock.pipeline.lake.sink.commit", crash)
        with pytest.raises(KeyboardInterrupt):
            writer.commit([written])
    assert places(to / "_old.b") == of_b(0, 20)
    assert known_tables(to).again == ("b",)
    writer, written = written_again(to, kind, 12, 20)
    writer.commit([written])
    assert places(to / "b") == of_b(12, 20)
    assert [each.name for each in old_tables(to)] == ["_old.b"]


def test_all_tables_are_set_aside_and_the_lake_begins_anew(lake: Query, to: Location, tmp_path: Path) -> None:
    done = reset(to, rebuild=True)
    assert [(one.name, other.name) for one, other in done.aside] == [("a", "_old.a"), ("b", "_old.b")]
    assert tables_in(to) == []
    check_tables(to)
    Query(tmp_path / "two", to, tableBy="type").run(ends(0), ends(5), TYPES)
    assert places(to / "_old.b") == of_b(0, 20)
    assert places(to / "b") == of_b(0, 5)
    reset(to, rebuild=True)
    assert [each.name for each in old_tables(to)] == ["_old.a", "_old.a.2", "_old.b", "_old.b.2"]


def test_a_folder_that_is_a_table_keeps_the_old_one_inside(to: Location, tmp_path: Path, kind: str) -> None:
    Query(tmp_path / "one", to).run(ends(0), ends(10))
    reset(to, rebuild=True)
    assert places(to / "_old") == all_places(10)
    new = Query(tmp_path / "two", to)
    new.run(ends(0), ends(3))
    new.run(ends(3), ends(4))
    vacuum(to, older_than_hours=0, dry_run=False)
    assert (places(to), places(to / "_old")) == (all_places(4), all_places(10))
    reset(to, rebuild=True)
    assert [each.name for each in old_tables(to)] == ["_old", "_old.2"]
    assert places(to / "_old.2") == all_places(4)


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_reset_that_is_cut_short_loses_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    to = tmp_path / "lake"
    Query(tmp_path / "one", to, tableBy="type").run(ends(0), ends(10), TYPES)
    copy, times = LocalStorage.copy, list[Path]()

    def cut(self: LocalStorage, file: Path, target: Path) -> None:
        if len(times) == after:
            raise KeyboardInterrupt
        times.append(file)
        copy(self, file, target)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "copy", cut)
        with pytest.raises(KeyboardInterrupt):
            reset(to, rebuild=True)
    assert places(to / "b") == of_b(0, 10)
    finish_reset(to)
    assert (places(to / "_old.b"), tables_in(to)) == (of_b(0, 10), [])


@pytest.mark.parametrize("iceberg", [False, True], ids=["delta", "iceberg"])
@pytest.mark.parametrize("committing", [Upsert(("key",), (1,)), Evolve()], ids=["upsert", "typed"])
def test_tables_of_upserts_and_typed_ones_stay_whole(tmp_path: Path, iceberg: bool, committing: Any) -> None:
    to = tmp_path / "lake"
    if iceberg:
        begin(to, None, None)
    for n in range(3):
        part = a_part(to / "orders", [a_row("a", n), a_row(f"b{n}", n)])
        commit(part, a_batch(n, n + 1), committing)
    remember(to, ["orders"])
    before = table_at(to / "orders")
    rows, said = _rows(before), (before.schema_form(), before.partition_columns())
    reset(to, rebuild=True)
    old = table_at(to / "_old.orders")
    assert (_rows(old), (old.schema_form(), old.partition_columns())) == (rows, said)
    assert [each.topic for each in old.sources()] == ["orders"]


def _rows(table: Any) -> list[str]:
    names = table.arrow_schema().names
    return sorted(str(row) for batch in table.batches(names) for row in batch.to_pylist())


def test_a_table_that_cannot_be_read_keeps_its_files(tmp_path: Path) -> None:
    to = tmp_path / "lake"
    Query(tmp_path / "one", to, tableBy="type").run(ends(0), ends(10), TYPES)
    files = {each.name for each in (to / "b").glob("*.parquet")}
    for each in (to / "b" / "_delta_log").iterdir():
        each.unlink()
    done = reset(to, rebuild=True, tables=["b"])
    assert [other.name for _, other in done.aside] == ["_old.b"]
    assert {each.name for each in (to / "_old.b").glob("*.parquet")} == files
    vacuum(to, older_than_hours=0, dry_run=False)
    assert {each.name for each in (to / "_old.b").glob("*.parquet")} == files


# -- the command


@pytest.fixture
def written(sqlite_store: LogStore, tmp_path: Path) -> WrittenLake:
    """Give a lake of a log that has lost its first two records of each partition to retention."""
    sqlite_store.fill(150)
    lake = WrittenLake(sqlite_store, tmp_path / "lake", committing=Evolve())
    lake.step()
    for partition in range(PARTITIONS):
        sqlite_store.expire(partition, 2)
    return lake


def test_a_rebuild_says_how_many_rows_cannot_be_made_again(
    written: WrittenLake, sqlite_store: LogStore, penstock: Command
) -> None:
    name = TYPES_OF_STORE[0]
    rows = places(written.to / name)
    lost = len([place for place in rows if place[1] < 2])
    words = ["pipeline", "reset", str(written.to), "--rebuild", "--table", name, "--yes"]
    done = penstock(*words, "--url", sqlite_store.url)
    assert f"{name}: {lost} of {len(rows)} rows cannot be rebuilt from the log\n" in done.out
    assert "the old table stays as it is until then" in done.out
    assert places(written.to / name) == rows
    assert "give --url to see how many rows" in penstock(*words).out


def test_old_tables_are_dropped_only_when_asked_and_told_what_goes(
    written: WrittenLake, sqlite_store: LogStore, penstock: Command
) -> None:
    name = TYPES_OF_STORE[0]
    rows = places(written.to / name)
    done = penstock("pipeline", "reset", str(written.to), "--rebuild", "--yes", "--url", sqlite_store.url)
    assert f"stays as {written.to / f'_old.{name}'} until you drop it" in done.out
    asked = penstock("pipeline", "reset", str(written.to), "--drop-old")
    assert (asked.code, "use --yes" in asked.err) == (2, True)
    assert f"_old.{name}: {len(rows)} of {len(rows)} rows are in no other table\n" in asked.out
    assert places(written.to / f"_old.{name}") == rows
    for other in ("--rebuild", "--from-table"):
        assert penstock("pipeline", "reset", str(written.to), "--drop-old", other, "--yes").code == 2
    assert penstock("pipeline", "reset", str(written.to), "--drop-old", "--yes").code == 0
    assert old_tables(written.to) == []


def test_erasing_reaches_the_old_tables(written: WrittenLake, sqlite_store: LogStore, penstock: Command) -> None:
    """They hold the same personal data."""
    penstock("pipeline", "reset", str(written.to), "--rebuild", "--yes")
    WrittenLake(sqlite_store, written.to, committing=Evolve()).step()
    sqlite_store.run(f"UPDATE penstock_log SET type = '{ERASED}' WHERE \"offset\" = 5")
    done = penstock("pipeline", "erase", str(written.to), "--url", sqlite_store.url, "--yes")
    assert done.code == 0, done.out + done.err
    assert len(old_tables(written.to)) == len(tables_in(written.to)) > 1
    for table in [*tables_in(written.to), *old_tables(written.to)]:
        assert 5 not in {offset for _, offset in places(table)}


def test_rows_that_are_cut_off_after_a_restore_stay_in_a_copy(
    written: WrittenLake, sqlite_store: LogStore, penstock: Command
) -> None:
    before = {each.name: places(each) for each in tables_in(written.to)}
    restore(sqlite_store, 5)
    words = ["pipeline", "reset", str(written.to), "--from-table", "--url", sqlite_store.url, "--topic", TOPIC]
    done = penstock(*words, "--yes")
    assert "the previous tables stay as _old" in done.out
    for name, rows in before.items():
        assert places(written.to / name) == [place for place in rows if place[1] < 5]
        assert places(written.to / f"_old.{name}") == rows
