"""Another engine takes away what a table's log says: the table still knows what feeds it, and how far."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from penstock.errors import EndsLost, RangesDiffer
from penstock.pipeline.lake.delta import kept_sources
from penstock.pipeline.lake.delta.table import LakeTable
from penstock.pipeline.lake.tables import describe
from tests.pipeline.conftest import Command
from tests.pipeline.stores import TOPIC, LogStore
from tests.pipeline.test_lake import lake_rows
from tests.pipeline.test_table import Query, all_places, ends, rows_of


def cleaned_up(table: Path) -> None:
    """Let another engine join the files, write a checkpoint, and clean up the log before it."""
    found = DeltaTable(table)
    found.optimize.z_order(["offset"])
    found.create_checkpoint()
    for file in (table / "_delta_log").glob("*.json"):
        if int(file.name.partition(".")[0]) < found.version():
            file.unlink()


def robbed(table: Path, keeps: str = "") -> None:
    """The same, by an engine whose checkpoints have no application transactions, or only some."""
    cleaned_up(table)
    for file in (table / "_delta_log").glob("*.checkpoint.parquet"):
        rows = pq.read_table(file)
        names = [each and each["appId"] for each in rows.column("txn").to_pylist()]
        stays = [not name or bool(keeps and name.endswith(keeps)) for name in names]
        pq.write_table(rows.filter(pa.array(stays)), file)


def metadata_commits(table: Path) -> int:
    files = (table / "_delta_log").glob("*.json")
    return sum('"metaData"' in line for file in files for line in file.read_text().splitlines())


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def query(tmp_path: Path, to: Path) -> Query:
    return Query(tmp_path / "one", to)


def test_what_feeds_a_table_is_known_when_its_log_was_cleaned_up(query: Query, to: Path) -> None:
    for n in range(0, 30, 10):
        query.run(ends(n), ends(n + 10))
    cleaned_up(to)
    (state,) = describe(to)
    assert [(each.topic, each.ends) for each in state.sources] == [("orders", ends(30))]
    query.run(ends(30), ends(40))
    assert rows_of(to) == all_places(40)


@pytest.mark.parametrize("keeps", ["", "/0"], ids=["all", "some"])
def test_a_table_that_lost_its_transactions_neither_doubles_nor_loses(
    query: Query, to: Path, tmp_path: Path, keeps: str, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(0, 30, 10):
        query.run(ends(n), ends(n + 10))
    again = query.write(ends(20), ends(30))
    robbed(to, keeps)
    with caplog.at_level(logging.WARNING):
        (state,) = describe(to)
    assert state.sources[0].ends == ends(30)
    assert "another engine has dropped its application transactions; its rows say where" in caplog.text
    query.commit(2, again)
    assert rows_of(to) == all_places(30), "the last batch was run again"
    with pytest.raises(RangesDiffer):
        Query(tmp_path / "older", to).run(ends(0), ends(40))
    query.run(ends(30), ends(30) | {1: 35})
    assert len(rows_of(to)) == 3 * 30 + 5
    caplog.clear()
    (state,) = describe(to)
    assert state.sources[0].ends == ends(30) | {1: 35}
    assert caplog.text == "", "the next commit has said them all again"


def test_a_quiet_partition_whose_rows_were_deleted_ends_where_it_was_last_kept(
    query: Query, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_sources, "_DAY_MS", 0)
    query.run(ends(0), ends(10))
    query.run(ends(10), ends(10) | {0: 20})
    DeltaTable(to).delete("partition = 2")
    robbed(to)
    (state,) = describe(to)
    assert state.sources[0].ends == ends(10) | {0: 20}


def test_the_tables_of_a_lake_that_lost_their_transactions_go_on_from_its_mark(to: Path, tmp_path: Path) -> None:
    query = Query(tmp_path / "one", to, tableBy="type")
    query.run(ends(0), ends(10), ["a", "b"])
    for name in "ab":
        robbed(to / name)
    assert [each.sources[0].ends for each in describe(to)] == [ends(10), ends(10)]
    query.commit(0, query.write(ends(0), ends(10), ["a", "b"]))
    query.run(ends(10), ends(20), ["a", "b"])
    assert lake_rows(to) == all_places(20)


def test_a_table_whose_rows_have_no_places_is_refused_by_name(query: Query, to: Path) -> None:
    query.run(ends(0), ends(10))
    log = to / "_delta_log" / "00000000000000000000.json"
    robbed(to)
    assert not log.exists()
    table = LakeTable(to)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LakeTable, "has_columns", lambda self, names: False)
        with pytest.raises(EndsLost, match=f"table {to} no longer says up to which offsets it holds its topics"):
            table.ends(table.sources()[0])
        with pytest.raises(EndsLost):
            query.run(ends(10), ends(20))
    assert rows_of(to) == all_places(10)


def test_the_properties_change_once_and_not_with_every_batch(
    query: Query, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another engine's OPTIMIZE must be done again when they change meanwhile."""
    for n in range(0, 80, 10):
        query.run(ends(n), ends(n + 10))
    assert metadata_commits(to) == 2, "the table was made, and had its first batch"
    monkeypatch.setattr(kept_sources, "_DAY_MS", 0)
    query.run(ends(80), ends(90))
    assert metadata_commits(to) == 3, "a day has passed"
    assert kept_sources.kept_ends(LakeTable(to).configuration()).ends == {f"penstock/log/1/{p}": 90 for p in ends(0)}


def test_transactions_are_none_of_those_that_an_engine_may_drop_for_their_age(query: Query, to: Path) -> None:
    query.run(ends(0), ends(10))
    found = DeltaTable(to)
    properties = {"delta.setTransactionRetentionDuration": "interval 0 seconds"}
    found.alter.set_table_properties(properties, raise_if_not_exists=False)
    found = DeltaTable(to)
    found.create_checkpoint()
    assert found.transaction_version("penstock/log/1/0") == 10
    (file,) = (to / "_delta_log").glob("*.checkpoint.parquet")
    assert pq.read_table(file, columns=["txn"]).column("txn").drop_null().to_pylist() != []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_pipeline_with_a_new_checkpoint_goes_on_behind_another_engine_that_took_it_all(
    sqlite_store: LogStore, command: Command, module: str, tmp_path: Path
) -> None:
    to, where = tmp_path / "plain", ["--url", sqlite_store.url]
    words = ["pipeline", "run", f"{module}:plain", *where, "--once"]
    sqlite_store.fill(60)
    assert command(*words).code == 0
    robbed(to)
    shutil.rmtree(to / "_penstock" / "checkpoint")
    reconcile = ["reconcile", *where, "--topic", TOPIC, "--lake", str(to)]
    counted = command(*reconcile)
    assert (counted.code, counted.out) == (0, "reconciled: logged=60 table=60\n"), counted.err
    sqlite_store.fill(40)
    done = command(*words)
    assert (done.code, done.out) == (0, "done: 40 rows in 1 batches\n"), done.err
    assert rows_of(to) == sorted(sqlite_store.records())
    counted = command(*reconcile)
    assert (counted.code, counted.out) == (0, "reconciled: logged=100 table=100\n"), counted.err
    assert json.loads(command("pipeline", "show", str(to), "--json").out)[0]["sources"]
