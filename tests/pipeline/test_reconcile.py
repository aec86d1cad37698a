"""From the log to the lake: the numbers agree, and one row less anywhere turns them red with the range."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection
from itertools import combinations
from pathlib import Path
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from penstock import Record
from penstock.cli import group
from penstock.clock import to_ms
from penstock.errors import TableDamaged
from penstock.log.contract import OffsetRange, Position
from penstock.pipeline.lake.erasure import erase_in_tables
from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.lake.reconcile.compare import entry_checksum
from tests.pipeline.stores import TOPIC, TYPES, LogStore
from tests.pipeline.test_continue import Driver
from tests.suites.records import a_record


@pytest.fixture
def lake(store: LogStore, tmp_path: Path) -> Path:
    """Give a lake that holds the whole log."""
    store.fill(200)
    Driver(store, tmp_path / "lake", tmp_path / "checkpoint").step()
    return tmp_path / "lake"


def run(store: LogStore, lake: Path, *words: str) -> Any:
    return CliRunner().invoke(
        group, ["reconcile", "--url", store.url, "--topic", TOPIC, "--lake", str(lake), *words], catch_exceptions=False
    )


def test_a_whole_lake_agrees_with_its_log(store: LogStore, lake: Path) -> None:
    done = run(store, lake)
    assert (done.exit_code, done.output) == (0, "reconciled: logged=200 table=200\n")
    found = json.loads(run(store, lake, "--json").output)
    assert found["agrees"]


def test_a_deleted_row_of_a_table_turns_it_red_with_the_range(store: LogStore, lake: Path) -> None:
    place = 'partition = 3 AND "offset" = 2'
    for table in lake.iterdir():
        if table.name != "_penstock":
            DeltaTable(table).delete(place)
    done = run(store, lake)
    assert done.exit_code == 1
    assert "table: partition 3, 2 to before 3, is not in the tables" in done.output
    assert done.output.endswith("NOT reconciled: logged=200 table=199\n")


def test_a_deleted_row_of_the_log_turns_it_red_with_the_range(store: LogStore, lake: Path) -> None:
    store.run('DELETE FROM penstock_log WHERE partition = 3 AND "offset" = 2')
    done = run(store, lake)
    assert done.exit_code == 1
    assert "logged: partition 3, 2 to before 3, is not in the log" in done.output


def test_a_changed_value_turns_it_red_with_its_place(store: LogStore, lake: Path) -> None:
    place = next(place for place, record in store.records().items() if record.data and place[0] == 3)
    for path in tables_in(lake):
        DeltaTable(path).update(
            predicate=f"partition = 3 AND offset = {place[1]}", updates={"value": "arrow_cast('x', 'Binary')"}
        )
    done = run(store, lake)
    assert done.exit_code == 1
    assert f"table: partition 3, {place[1]} to before {place[1] + 1}, differs from the log" in done.output
    assert run(store, lake, "--no-values").exit_code == 0


def test_erased_records_do_not_differ(store: LogStore, lake: Path) -> None:
    log = store.outbox.log
    log.erase(log.topic(TOPIC), [Position(3, 2), Position(4, 0)])
    done = run(store, lake)
    assert done.exit_code == 0, done.output


def test_rows_of_partitions_and_topics_that_are_not_there(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(30)
    lake = tmp_path / "lake"
    Driver(sqlite_store, lake, tmp_path / "checkpoint").step()
    (first, *_) = tables_in(lake)
    rows = DeltaTable(first).to_pyarrow_table()
    far = rows.slice(0, 1).set_column(5, "partition", pa.array([99], pa.int32()))
    other = rows.slice(0, 2).set_column(4, "topic", pa.array(["invoices"] * 2))
    write_deltalake(first, pa.concat_tables([far, other]), mode="append")
    done = run(sqlite_store, lake)
    assert done.exit_code == 1
    assert "table: partition 99, " in done.output
    assert "is in the tables but not in the log" in done.output
    assert "2 rows of topic 'invoices', which does not feed these tables" in done.output


def test_a_missing_file_is_named(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(30)
    lake = tmp_path / "lake"
    Driver(sqlite_store, lake, tmp_path / "checkpoint").step()
    file = next(tables_in(lake)[0].glob("*.parquet"))
    file.unlink()
    with pytest.raises(TableDamaged, match=f"its file {file.name} is not there") as refused:
        run(sqlite_store, lake)
    remedy = f"keeps the old one: penstock pipeline reset {lake} --rebuild --table {file.parent.name}"
    assert str(refused.value).endswith(remedy), "not the other tables of the lake"


def test_a_foreign_log_is_not_reconciled(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(30)
    lake = tmp_path / "lake"
    Driver(sqlite_store, lake, tmp_path / "checkpoint").step()
    foreign = LogStore(f"sqlite:///{tmp_path}/foreign.db")
    foreign.outbox.log.append(TOPIC, list(sqlite_store.records().values()))
    done = run(foreign, lake)
    foreign.close()
    assert done.exit_code == 1
    assert "was made from log " in done.output


def test_a_restored_log_is_not_reconciled_though_its_new_records_say_the_same(
    sqlite_store: LogStore, tmp_path: Path
) -> None:
    sqlite_store.fill(60)
    lake = tmp_path / "lake"
    Driver(sqlite_store, lake, tmp_path / "checkpoint").step()
    ends = sqlite_store.ends()
    lost = [record for (_, offset), record in sorted(sqlite_store.records().items()) if offset >= 3]
    sqlite_store.run('DELETE FROM penstock_log WHERE "offset" >= 3')  # as the backup has it
    sqlite_store.run("UPDATE penstock_head SET next_offset = 3 WHERE next_offset > 3")
    for record in lost:  # the same content in the same place, published anew
        sqlite_store.outbox.log.append(TOPIC, [a_copy(record)], partition=record.partition)
    assert sqlite_store.ends() == ends
    done = run(sqlite_store, lake, "--no-values")
    assert done.exit_code == 1, done.output
    assert "another record stands at" in done.output


def a_copy(record: Record) -> Record:
    """Return another record with the same content."""
    return a_record(
        key=record.key,
        data=record.data,
        type=record.type,
        raw_headers=record.raw_headers,
        timestamp_ms=to_ms(record.timestamp),
    )


def test_a_lake_that_is_behind_does_not_agree_yet(store: LogStore, lake: Path) -> None:
    store.fill(10)
    done = run(store, lake)
    assert done.exit_code == 1
    assert "NOT reconciled: logged=210 table=200" in done.output


def rewritten(path: Path, change: Callable[[list[dict[str, Any]]], object], without: Collection[str] = ()) -> None:
    """Change the rows of a table as a stranger does, and leave columns out."""
    table = DeltaTable(path)
    found = table.to_pyarrow_table().drop_columns(list(without))
    rows = found.to_pylist()
    change(rows)
    parts = table.metadata().partition_columns or None
    made = pa.Table.from_pylist(rows, schema=found.schema)
    write_deltalake(path, made, mode="overwrite", schema_mode="overwrite", partition_by=parts)


def a_keyed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return next(row for row in rows if row["key"] and row["value"])


def test_bytes_that_went_from_the_key_to_the_value_are_seen(store: LogStore, lake: Path) -> None:
    def move(rows: list[dict[str, Any]]) -> None:
        row = a_keyed(rows)
        row["key"], row["value"] = row["key"][:-1], row["key"][-1:] + row["value"]

    rewritten(lake / TYPES[0], move)
    done = run(store, lake)
    assert done.exit_code == 1
    assert "differs from the log" in done.output


def test_the_values_of_any_two_rows_that_are_swapped_are_seen(sqlite_store: LogStore, tmp_path: Path) -> None:
    log, values = sqlite_store.outbox.log, random.Random(1)
    records = [a_record(key="k", data=values.randbytes(8)) for _ in range(300)]
    log.append(TOPIC, records, partition=0)
    entries, _ = log.read_ranges(log.topic(TOPIC), [OffsetRange(0, 0, 300)], max_bytes=1 << 20)
    sums = {each.offset: entry_checksum(each) for each in entries}
    for one, other in combinations(entries, 2):
        swapped = one._replace(value=other.value), other._replace(value=one.value)
        assert sum(map(entry_checksum, swapped)) != sums[one.offset] + sums[other.offset]


def test_a_row_without_an_offset_is_told_in_words(store: LogStore, lake: Path) -> None:
    rewritten(lake / TYPES[0], lambda rows: rows.append(rows[0] | {"offset": None}))
    done = run(store, lake)
    assert done.exit_code == 1
    assert "table: 1 rows without a place" in done.output


@pytest.mark.parametrize("column", ["value", "key", "type", "headers", "timestamp", "topic"])
def test_a_column_that_a_table_has_lost_is_named(sqlite_store: LogStore, lake: Path, column: str) -> None:
    rewritten(lake / TYPES[0], lambda rows: None, without=[column])
    done = run(sqlite_store, lake)
    assert done.exit_code == 1
    assert f"table: {TYPES[0]} has lost its column {column}" in done.output


@pytest.mark.parametrize("column", ["value", "key", "offset"])
def test_a_column_of_another_type_is_named(sqlite_store: LogStore, lake: Path, column: str) -> None:
    path = lake / TYPES[0]
    rows = DeltaTable(path).to_pyarrow_table()
    number = rows.column_names.index(column)
    text = rows.set_column(number, column, rows[column].cast(pa.string()))
    write_deltalake(path, text, mode="overwrite", schema_mode="overwrite")
    done = run(sqlite_store, lake)
    assert done.exit_code == 1
    assert f"table: {TYPES[0]} has a column {column} of type string, not " in done.output


def test_a_row_in_the_table_of_another_type_is_told(store: LogStore, lake: Path) -> None:
    moved = list[dict[str, Any]]()
    rewritten(lake / TYPES[0], lambda rows: moved.append(rows.pop()))
    rewritten(lake / TYPES[1], lambda rows: rows.extend(moved))
    done = run(store, lake)
    assert done.exit_code == 1
    assert f"table: 1 rows of type {TYPES[0]} stand in {TYPES[1]}" in done.output


def test_records_without_a_type_belong_into_the_table_of_their_topic(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(20)
    sqlite_store.fill(20, type="")
    driver = Driver(sqlite_store, tmp_path / "lake", tmp_path / "checkpoint")
    driver.sink.options["tableOtherwise"] = "topic"
    driver.step()
    done = run(sqlite_store, tmp_path / "lake")
    assert done.exit_code == 0, done.output


def test_a_lake_of_ones_own_with_a_table_for_each_topic_agrees(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.fill(20)
    driver = Driver(sqlite_store, tmp_path / "lake", tmp_path / "checkpoint")
    driver.sink.options["tableBy"] = "topic"
    driver.step()
    done = run(sqlite_store, tmp_path / "lake")
    assert done.exit_code == 0, done.output


def test_erased_records_that_are_still_in_the_tables_are_told(store: LogStore, lake: Path) -> None:
    log = store.outbox.log
    log.erase(log.topic(TOPIC), [Position(3, 2), Position(4, 0)])
    done = run(store, lake)
    assert done.exit_code == 0
    assert "table: 2 erased records are still in the tables; `penstock pipeline erase` removes them" in done.output
    erase_in_tables(lake, log)
    assert "still in the tables" not in run(store, lake).output


def test_a_lake_that_has_lost_its_mark_does_not_agree(store: LogStore, lake: Path) -> None:
    rmtree(lake / "_penstock" / "mark")
    done = run(store, lake)
    assert done.exit_code == 1
    assert "has lost its mark, the folder _penstock/mark" in done.output
