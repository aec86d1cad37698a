"""`reconcile --lake` on tables of upserts: the latest row of each key is there, and no other is missed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from penstock import Record
from penstock.errors import TableDamaged
from penstock.log.contract import Position
from penstock.pipeline.columns import COLUMNS, arrow_schema
from penstock.pipeline.lake.commit import AppendFiles, Evolve, TablePart
from penstock.pipeline.lake.identity import ByOffsets
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.paths import folder_of
from penstock.pipeline.lake.reconcile import superseded
from penstock.pipeline.lake.upkeep import forget_deleted
from penstock.pipeline.lake.upsert import BUCKETS, Upsert
from penstock.pipeline.offsets import Range
from tests.pipeline.stores import PARTITIONS, TOPIC, TYPES, LogStore, row_of
from tests.pipeline.test_reconcile import rewritten, run
from tests.pipeline.test_upsert_merging import a_part
from tests.suites.records import a_record

RAW = pa.schema([*arrow_schema(tuple(COLUMNS)), ("deleted", pa.bool_()), ("bucket", pa.int32())])
TYPED = pa.schema([*(field for field in RAW if field.name != "value"), ("n", pa.int64())])
REJECTED = pa.schema([*arrow_schema(tuple(COLUMNS)), ("reason", pa.string())])
UPSERT = Upsert(("key",), (PARTITIONS,))
TableOf = Callable[[Record], str]


def by_type(record: Record) -> str:
    return "rejected" if record.key is None else folder_of(record.type or "")


class WrittenLake:
    """A lake as `--mode upsert` makes it, or `--types` without, batch by batch, without Spark."""

    def __init__(
        self,
        store: LogStore,
        to: Path,
        typed: Collection[str] = (),
        table: TableOf = by_type,
        committing: AppendFiles = UPSERT,
    ) -> None:
        self._committing = committing
        self.store, self.to, self._typed, self._table = store, to, typed, table
        self._ends = dict.fromkeys(range(PARTITIONS), 0)

    def step(self) -> None:
        """Take all that is new."""
        log, ends, rows = self.store.outbox.log, self.store.ends(), dict[str, list[dict[str, Any]]]()
        for (partition, offset), record in self.store.records().items():
            if offset >= self._ends[partition]:
                rows.setdefault(self._table(record), []).append(self._row(record))
        range_ = Range(log.identity().id, TOPIC, log.topic(TOPIC).id, self._ends, ends)
        parts = [self._part(name, each) for name, each in rows.items()]
        Lake(self.to).commit(parts, ByOffsets((range_,)), self._committing)
        self._ends = ends

    def delete(self, partition: int, offset: int) -> None:
        for path in self.to.iterdir():
            if path.name != "_penstock":
                DeltaTable(path).delete(f"partition = {partition} AND offset = {offset}")

    def _row(self, record: Record) -> dict[str, Any]:
        row = row_of(record)
        moment = row["timestamp"] * 1000
        bucket = sum(row["key"] or b"") % BUCKETS
        said = {"timestamp": moment, "deleted": record.data is None, "bucket": bucket, "reason": "no"}
        data = record.data or b""
        value = json.loads(data) if data.endswith(b"}") else {}
        return row | said | {"n": value.get("n")}

    def _part(self, name: str, rows: list[dict[str, Any]]) -> TablePart:
        schema = REJECTED if name == "rejected" else TYPED if name in self._typed else RAW
        return a_part(self.to / name, [{n: row[n] for n in schema.names} for row in rows], schema)


@pytest.fixture(params=[30, pytest.param(500_000, marks=pytest.mark.slow)])
def lake(
    request: pytest.FixtureRequest, sqlite_store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> WrittenLake:
    """Give a lake that holds the whole log, which is sorted in one piece or in several."""
    monkeypatch.setattr(superseded, "_FILE_ROWS", request.param)
    lake = WrittenLake(sqlite_store, tmp_path / "lake")
    for _ in range(2):
        sqlite_store.fill(150)
        lake.step()
    return lake


def latest(store: LogStore) -> dict[tuple[str, str], tuple[int, int]]:
    """Return the place of the latest record of each type and key, as a dictionary has it."""
    found = {}
    for place, record in sorted(store.records().items()):
        if record.key is not None:
            found[record.type or "", record.key] = place
    return found


def test_a_whole_lake_agrees_and_what_is_superseded_is_told_as_such(lake: WrittenLake) -> None:
    done = run(lake.store, lake.to)
    rejected = sum(record.key is None for record in lake.store.records().values())
    held = len(latest(lake.store)) + rejected
    assert held < 300
    assert (done.exit_code, done.output) == (0, f"reconciled: logged=300 table={held} superseded={300 - held}\n")


def test_a_latest_row_that_is_missing_turns_it_red_and_only_that_one(lake: WrittenLake) -> None:
    records = lake.store.records()
    there = [place for place in latest(lake.store).values() if records[place].data is not None]
    partition, offset = random.Random(3).choice(there)
    lake.delete(partition, offset)
    done = run(lake.store, lake.to)
    assert done.exit_code == 1
    (fault, _) = done.output.splitlines()
    assert fault == f"table: partition {partition}, {offset} to before {offset + 1}, is not in the tables"


def test_a_rejected_row_that_is_missing_turns_it_red(lake: WrittenLake) -> None:
    place = next(place for place, record in lake.store.records().items() if record.key is None)
    lake.delete(*place)
    done = run(lake.store, lake.to)
    assert done.exit_code == 1
    assert "is not in the tables" in done.output


def test_an_older_row_in_the_place_of_the_latest_turns_it_red(lake: WrittenLake) -> None:
    records, last = lake.store.records(), latest(lake.store)
    (type, key), place = next(each for each in last.items() if records[each[1]].data is not None)
    older = max(
        place
        for place, record in records.items()
        if (record.type, record.key) == (type, key) and place != last[type, key]
    )
    DeltaTable(lake.to / folder_of(type)).update(
        predicate=f"partition = {place[0]} AND offset = {place[1]}",
        updates={"offset": str(older[1]), "partition": f"arrow_cast({older[0]}, 'Int32')"},
    )
    done = run(lake.store, lake.to, "--no-values")
    assert done.exit_code == 1
    assert "superseded by later records of the log, and still there" in done.output
    assert f"partition {place[0]}, {place[1]} to before {place[1] + 1}, is not in the tables" in done.output


def test_a_latest_row_that_says_something_else_turns_it_red(lake: WrittenLake) -> None:
    records = lake.store.records()
    partition, offset = next(place for place in latest(lake.store).values() if records[place].data is not None)
    DeltaTable(lake.to / folder_of(records[partition, offset].type or "")).update(
        predicate=f"partition = {partition} AND offset = {offset}", updates={"value": "arrow_cast('x', 'Binary')"}
    )
    done = run(lake.store, lake.to)
    assert done.exit_code == 1
    assert f"partition {partition}, {offset} to before {offset + 1}, differs from the log" in done.output


def test_a_lake_that_is_behind_is_red_with_what_it_has_not_read(lake: WrittenLake) -> None:
    lake.store.fill(20)
    done = run(lake.store, lake.to)
    assert done.exit_code == 1
    assert "is not in the tables" in done.output
    lake.step()
    assert run(lake.store, lake.to).exit_code == 0


def test_forgotten_deletions_erased_records_and_what_retention_took_are_no_faults(lake: WrittenLake) -> None:
    assert sum(forget_deleted(lake.to / folder_of(type)) for type in TYPES)
    done = run(lake.store, lake.to)
    assert done.exit_code == 0, done.output
    log = lake.store.outbox.log
    records = lake.store.records()
    there = [place for place in latest(lake.store).values() if records[place].data is not None]
    log.erase(log.topic(TOPIC), [Position(*place) for place in there[:3]])
    lake.store.expire(3, 5)
    done = run(lake.store, lake.to)
    assert done.exit_code == 0, done.output


def test_a_typed_lake_with_aliases_and_rejected_values_agrees(sqlite_store: LogStore, tmp_path: Path) -> None:
    def table(record: Record) -> str:
        return "rejected" if record.data == b"{" else "order.placed"

    sqlite_store.outbox.log.append(
        TOPIC,
        [
            a_record(key="a", type="order.made", data=b"1"),  # an alias, of which no row is left
            a_record(key="a", type="order.placed", data=b"2"),
            a_record(key="a", type="order.placed", data=b"{"),  # it does not fit, so it replaces nothing
            a_record(key="b", type="order.placed", data=b"3"),
            a_record(key="b", type="order.created", data=b"4"),  # an alias
        ],
    )
    lake = WrittenLake(sqlite_store, tmp_path / "lake", ["order.placed"], table)
    lake.step()
    done = run(sqlite_store, lake.to)
    assert (done.exit_code, done.output) == (0, "reconciled: logged=5 table=3 superseded=2\n")
    (place,) = (place for place, each in sqlite_store.records().items() if each.data == b"2")
    lake.delete(*place)
    assert run(sqlite_store, lake.to).exit_code == 1


def test_the_table_of_a_function_says_what_is_not_checked(sqlite_store: LogStore, tmp_path: Path) -> None:
    sqlite_store.outbox.log.append(TOPIC, [a_record(key="a"), a_record(key="a")])
    lake = WrittenLake(sqlite_store, tmp_path, table=lambda _: "orders")
    lake.step()
    done = run(sqlite_store, tmp_path / "orders")
    assert done.exit_code == 0, done.output
    assert "table: it has one row for each key, made by a function" in done.output
    assert done.output.endswith("reconciled: logged=2 table=1\n")
    sqlite_store.fill(1)
    assert run(sqlite_store, tmp_path / "orders").exit_code == 1


@pytest.mark.parametrize("deleted", [True, False])
def test_a_deletion_that_is_none_and_one_that_is_taken_back_are_seen(lake: WrittenLake, deleted: bool) -> None:
    def flip(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["deleted"] == deleted)["deleted"] = not deleted

    rewritten(lake.to / TYPES[0], flip)
    done = run(lake.store, lake.to)
    assert done.exit_code == 1
    assert "differs from the log" in done.output


def test_tables_of_upserts_that_lost_what_tells_their_rows_apart_are_damaged(lake: WrittenLake) -> None:
    rewritten(lake.to / TYPES[0], lambda rows: None, without=["key"])
    with pytest.raises(TableDamaged, match="key is gone, or something else"):
        run(lake.store, lake.to)


@pytest.fixture(params=[UPSERT, Evolve()], ids=["upsert", "append"])
def typed_lake(request: pytest.FixtureRequest, sqlite_store: LogStore, tmp_path: Path) -> WrittenLake:
    """Give a lake with two typed tables, a raw one, and rejected rows."""
    typed = [folder_of(type) for type in TYPES[:2]]
    lake = WrittenLake(sqlite_store, tmp_path / "lake", typed, committing=request.param)
    for _ in range(2):
        sqlite_store.fill(150)
        lake.step()
    done = run(sqlite_store, lake.to)
    assert done.exit_code == 0, done.output
    return lake


@pytest.mark.parametrize(
    "change",
    [
        lambda row: {"key": row["key"] + b"x"},
        lambda row: {"type": "nonsense"},
        lambda row: {"headers": [{"key": "q", "value": b"1"}]},
        lambda row: {"timestamp": row["timestamp"] + timedelta(days=1)},
        lambda row: {"deleted": not row["deleted"]},
    ],
    ids=["key", "type", "headers", "time", "deleted"],
)
def test_what_a_typed_row_says_beside_its_fields_is_compared(
    typed_lake: WrittenLake, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    rewritten(typed_lake.to / TYPES[0], lambda rows: rows[3].update(change(rows[3])))
    done = run(typed_lake.store, typed_lake.to)
    assert done.exit_code == 1
    assert "differs from the log" in done.output


def test_the_value_of_a_rejected_row_of_a_typed_lake_is_compared(typed_lake: WrittenLake) -> None:
    rewritten(typed_lake.to / "rejected", lambda rows: rows[3].update(value=b"x"))
    done = run(typed_lake.store, typed_lake.to)
    assert done.exit_code == 1
    assert "differs from the log" in done.output


def test_a_changed_field_of_a_typed_row_turns_it_red_with_its_place(typed_lake: WrittenLake) -> None:
    changed = dict[str, Any]()

    def change(rows: list[dict[str, Any]]) -> None:
        row = next(row for row in rows if row["n"] is not None)
        row["n"] += 1
        changed.update(row)

    rewritten(typed_lake.to / TYPES[0], change)
    done = run(typed_lake.store, typed_lake.to)
    assert done.exit_code == 1
    (fault, _) = [line for line in done.output.splitlines() if "superseded" not in line.split(":")[0]]
    place = f"partition {changed['partition']}, {changed['offset']} to before {changed['offset'] + 1}"
    assert fault == f"table: {place}, differs from the log"
    assert run(typed_lake.store, typed_lake.to, "--no-values").exit_code == 0


@pytest.mark.parametrize("column", ["value", "n"])
def test_a_table_that_has_lost_its_values_or_all_of_its_fields_is_told(typed_lake: WrittenLake, column: str) -> None:
    rewritten(typed_lake.to / folder_of(TYPES[2 if column == "value" else 0]), lambda _: None, [column])
    done = run(typed_lake.store, typed_lake.to)
    assert done.exit_code == 1
    assert "has lost its column value" in done.output
