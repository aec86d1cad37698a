"""Merging batches into a table of latest rows, without Spark: against a plain dictionary."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable

from penstock.cli import group
from penstock.errors import BatchDiffers, InvalidOption, KeyInTwoPartitions, RangesDiffer, RowWithoutKey
from penstock.pipeline.lake.commit import AppendFiles, TablePart, commit
from penstock.pipeline.lake.data_files import OpenFile
from penstock.pipeline.lake.delta.table import LakeTable
from penstock.pipeline.lake.identity import ByEpoch, ByOffsets
from penstock.pipeline.lake.storage import Location
from penstock.pipeline.lake.storage.local import LocalStorage
from penstock.pipeline.lake.upkeep import forget_deleted
from penstock.pipeline.lake.upsert import BUCKETS, KeyBuckets, Upsert
from penstock.pipeline.offsets import Range
from tests.pipeline.read_back import live_rows

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("text", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("deleted", pa.bool_()),
        ("bucket", pa.int32()),
    ]
)
Row = dict[str, Any]


def a_row(key: str, offset: int, *, partition: int = 0, deleted: bool = False) -> Row:
    return {
        "key": key.encode(),
        "text": None if deleted else f"{key}@{offset}",
        "partition": partition,
        "offset": offset,
        "deleted": deleted,
        "bucket": sum(key.encode()) % BUCKETS,
    }


def a_part(table: Location, rows: list[Row], schema: pa.Schema = SCHEMA) -> TablePart:
    """Return rows as a task leaves them."""
    file = OpenFile(table, schema)
    if rows:
        file.add(pa.RecordBatch.from_pylist(rows, schema=schema))
    return TablePart(table, schema, (file.finish(),))


def a_batch(start: int, end: int, partition: int = 0, count: int = 1) -> ByOffsets:
    starts = {each: start if each == partition else 0 for each in range(count)}
    ends = {each: end if each == partition else 0 for each in range(count)}
    return ByOffsets((Range("log", "orders", 1, starts, ends),))


def held(table: Path) -> dict[str, Row]:
    rows = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    found = {row["key"].decode(): row for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def texts(table: Path) -> dict[str, str]:
    return {key: row["text"] for key, row in held(table).items() if not row["deleted"]}


UPSERT = Upsert(("key",), (1,))


def test_the_table_is_what_a_dictionary_would_be_after_every_batch(tmp_path: Path) -> None:
    rng, table, expected, offset = random.Random(7), tmp_path / "orders", dict[str, Row](), 0
    for _ in range(12):
        rows = []
        start = offset
        for _ in range(rng.randint(1, 80)):
            rows.append(a_row(f"k-{rng.randint(0, 60)}", offset, deleted=rng.random() < 0.2))
            offset += 1
        rng.shuffle(rows)  # tasks write in any order
        assert commit(a_part(table, rows), a_batch(start, offset), UPSERT)
        expected |= {row["key"].decode(): row for row in sorted(rows, key=lambda row: row["offset"])}
        assert held(table) == expected
    files = {Path(uri).name for uri in DeltaTable(str(table)).file_uris()}
    assert len(files) <= BUCKETS
    assert len(DeltaTable(str(table)).history()) == 12 + 1, (
        "each batch is one commit, after the one that made the table"
    )


def test_a_batch_that_is_there_is_not_merged_again_and_another_range_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    assert commit(a_part(table, [a_row("a", 0), a_row("b", 1)]), a_batch(0, 2), UPSERT)
    assert not commit(a_part(table, [a_row("a", 0), a_row("b", 1)]), a_batch(0, 2), UPSERT)
    with pytest.raises(RangesDiffer):
        commit(a_part(table, [a_row("a", 1)]), a_batch(1, 3), UPSERT)
    assert texts(table) == {"a": "a@0", "b": "b@1"}


def test_an_older_row_never_wins_over_a_newer_one_or_over_a_tombstone(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    commit(a_part(table, [a_row("a", 10), a_row("b", 11, deleted=True)]), a_batch(0, 12), UPSERT)
    # As after a replay that nobody should make: another topic with the same keys, older offsets.
    again = ByOffsets((Range("log", "orders again", 2, {0: 0}, {0: 9}),))
    commit(a_part(table, [a_row("a", 5), a_row("b", 6), a_row("c", 7)]), again, UPSERT)
    assert texts(table) == {"a": "a@10", "c": "c@7"}
    assert held(table)["b"]["deleted"]


def test_after_a_growth_the_new_partition_wins_over_the_former_one(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    upsert = Upsert(("key",), (2,))
    commit(a_part(table, [a_row("a", 100, partition=1)]), a_batch(0, 101, 1, 2), upsert)
    commit(a_part(table, [a_row("a", 0, partition=3)]), a_batch(0, 1, 3, 4), upsert)
    assert texts(table) == {"a": "a@0"}


@pytest.mark.parametrize("together", [True, False])
def test_a_key_in_partitions_that_do_not_follow_each_other_is_refused(tmp_path: Path, together: bool) -> None:
    table, upsert = tmp_path / "orders", Upsert(("key",), (4,))
    one, other = a_row("a", 0, partition=1), a_row("a", 0, partition=2)
    if together:
        with pytest.raises(KeyInTwoPartitions, match=r"partition 1 and in partition 2"):
            commit(a_part(table, [one, other]), a_batch(0, 1, 1, 4), upsert)
        return
    commit(a_part(table, [one]), a_batch(0, 1, 1, 4), upsert)
    with pytest.raises(KeyInTwoPartitions):
        commit(a_part(table, [other]), a_batch(0, 1, 2, 4), upsert)
    assert texts(table) == {"a": "a@0"}


def test_a_row_without_a_key_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    with pytest.raises(RowWithoutKey):
        commit(a_part(table, [{**a_row("a", 0), "key": None}]), a_batch(0, 1), UPSERT)
    assert not held(table)


def test_a_batch_larger_than_the_memory_it_may_take_is_merged_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "orders"
    monkeypatch.setattr(KeyBuckets.__init__, "__defaults__", (2_000,))
    rows = [a_row(f"k-{n % 300}", n) for n in range(3_000)]
    commit(a_part(table, rows), a_batch(0, 3_000), UPSERT)
    assert texts(table) == {f"k-{n % 300}": f"k-{n % 300}@{n}" for n in range(3_000)}
    on_disk = {file.name for file in table.glob("*.parquet")}
    assert on_disk == {Path(uri).name for uri in DeltaTable(str(table)).file_uris()}


def test_a_commit_of_another_in_between_is_merged_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "orders"
    commit(a_part(table, [a_row("a", 0)]), a_batch(0, 1), UPSERT)
    replaced, times = LakeTable.replace, list[int]()

    def late(self: LakeTable, *given: Any, **named: Any) -> None:
        if not times:
            times.append(1)
            DeltaTable(str(table)).alter.set_table_properties({"delta.checkpointInterval": "20"})
        replaced(self, *given, **named)

    monkeypatch.setattr(LakeTable, "replace", late)
    commit(a_part(table, [a_row("a", 1), a_row("b", 2)]), a_batch(1, 3), UPSERT)
    assert times
    assert texts(table) == {"a": "a@1", "b": "b@2"}


def test_several_columns_tell_rows_apart_whatever_stands_in_them(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), *list(SCHEMA)[1:]])
    rows = [
        {**a_row("x", n), "a": a, "b": b, "bucket": 0}
        for n, (a, b) in enumerate([("1", 11), ("11", 1), ("1:1", 1), ("1", 11)])
    ]
    upsert = Upsert(("a", "b"), (1,))
    commit(a_part(tmp_path / "t", rows, schema), a_batch(0, 4), upsert)
    found = {
        (row["a"], row["b"]): row["offset"] for row in DeltaTable(str(tmp_path / "t")).to_pyarrow_table().to_pylist()
    }
    assert found == {("11", 1): 1, ("1:1", 1): 2, ("1", 11): 3}


def test_a_new_column_comes_without_a_stop_and_old_rows_have_nothing_there(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    commit(a_part(table, [a_row("a", 0), a_row("b", 1)]), a_batch(0, 2), UPSERT)
    schema = pa.schema([*SCHEMA, ("note", pa.string())])
    commit(a_part(table, [{**a_row("a", 2), "note": "hi"}], schema), a_batch(2, 3), UPSERT)
    assert {key: row["note"] for key, row in held(table).items()} == {"a": "hi", "b": None}


def test_a_table_that_was_made_by_another_key_or_to_append_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    commit(a_part(table, [a_row("a", 0)]), a_batch(0, 1), UPSERT)
    with pytest.raises(InvalidOption, match="upsert by key"):
        commit(a_part(table, [a_row("a", 1)]), a_batch(1, 2), Upsert(("text",), (1,)))


def test_the_whole_result_leaves_nothing_of_the_last_one(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    commit(a_part(table, [a_row("a", 0), a_row("b", 1)]), a_batch(0, 2), UPSERT)
    commit(a_part(table, [a_row("b", 2), a_row("c", 3)]), a_batch(2, 4), Upsert(("key",), (1,), whole=True))
    assert texts(table) == {"b": "b@2", "c": "c@3"}


def test_rows_of_deleted_keys_go_when_they_are_old_and_the_others_stay(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    stamp = pa.field("timestamp", pa.timestamp("us", "UTC"))
    schema = pa.schema([*SCHEMA, stamp])
    old, young = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    rows = [
        {**a_row("a", 0, deleted=True), "timestamp": old},
        {**a_row("b", 1, deleted=True), "timestamp": young},
        {**a_row("c", 2), "timestamp": old},
    ]
    commit(a_part(table, rows, schema), a_batch(0, 3), UPSERT)
    said = CliRunner().invoke(group, ["pipeline", "optimize", str(table), "--forget-deleted", "1", "--dry-run"])
    assert "orders: 1 rows of deleted keys would go" in said.output
    assert sorted(held(table)) == ["a", "b", "c"]
    said = CliRunner().invoke(group, ["pipeline", "optimize", str(table), "--forget-deleted", "1"])
    assert "orders: 1 rows of deleted keys removed" in said.output
    assert sorted(held(table)) == ["b", "c"]
    assert live_rows(table).column("key").to_pylist() == [b"c"]
    assert forget_deleted(table) == 0
    commit(a_part(table, [{**a_row("a", 3), "timestamp": young}], schema), a_batch(3, 4), UPSERT)
    assert texts(table) == {"a": "a@3", "c": "c@2"}


def a_counting_table(table: Path) -> None:
    """Make what a query that keeps state has written in two batches: a came once, then twice more."""
    for epoch, offset in ((0, 1), (1, 3)):
        assert commit(a_part(table, [a_row("a", offset)]), ByEpoch("query", epoch), UPSERT)


def test_a_result_that_comes_late_does_not_win_and_without_the_check_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that was taken for dead commits the batch before: rows without places have no other judge."""
    table = tmp_path / "orders"
    a_counting_table(table)
    with pytest.raises(BatchDiffers):
        commit(a_part(table, [a_row("a", 1)]), ByEpoch("query", 0), UPSERT)
    assert texts(table) == {"a": "a@3"}
    monkeypatch.setattr(ByEpoch, "is_in", lambda self, table: False)
    commit(a_part(table, [a_row("a", 1)]), ByEpoch("query", 0), UPSERT)
    assert texts(table) == {"a": "a@1"}, "the control: the older result has won"


def test_a_batch_that_comes_late_revives_no_key_and_without_the_check_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tombstones judge by place, until they are forgotten; then only the check is left."""
    table, schema = (tmp_path / "orders", pa.schema([*SCHEMA, pa.field("timestamp", pa.timestamp("us", "UTC"))]))
    at = {"timestamp": datetime(2020, 1, 1, tzinfo=UTC)}
    first, second = [{**a_row("a", 0), **at}], [{**a_row("a", 1, deleted=True), **at}]
    commit(a_part(table, first, schema), a_batch(0, 1), UPSERT)
    commit(a_part(table, second, schema), a_batch(1, 2), UPSERT)
    assert forget_deleted(table) == 1
    with pytest.raises(RangesDiffer):
        commit(a_part(table, first, schema), a_batch(0, 1), UPSERT)
    assert not held(table)
    monkeypatch.setattr(ByOffsets, "is_in", lambda self, table: False)
    commit(a_part(table, first, schema), a_batch(0, 1), UPSERT)
    assert texts(table) == {"a": "a@0"}, "the control: a deleted key is there again"


def test_a_whole_result_without_rows_leaves_nothing(tmp_path: Path) -> None:
    table, whole = tmp_path / "orders", Upsert(("key",), (1,), whole=True)
    commit(a_part(table, [a_row("a", 0)]), ByEpoch("query", 0), whole)
    assert commit(TablePart(table, SCHEMA, ()), ByEpoch("query", 1), whole)
    assert not held(table)


def test_a_commit_that_fails_after_it_has_counted_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, put = tmp_path / "orders", LocalStorage.put_new

    def unanswered(storage: LocalStorage, file: Path, content: bytes) -> None:
        put(storage, file, content)
        raise OSError("the answer is lost")

    for offset in range(3):
        part = a_part(table, [a_row("k", offset), a_row(f"k{offset}", offset)])
        with monkeypatch.context() as patch:
            patch.setattr(LocalStorage, "put_new", unanswered)
            assert not commit(part, a_batch(offset, offset + 1), UPSERT), "it has counted"
        again = a_part(table, [a_row("k", offset), a_row(f"k{offset}", offset)])  # as a replay writes it
        assert not commit(again, a_batch(offset, offset + 1), UPSERT)
        others = {f"k{each}": f"k{each}@{each}" for each in range(offset + 1)}
        assert texts(table) == {"k": f"k@{offset}"} | others


def test_files_that_a_table_points_to_are_not_removed_when_it_is_found_to_hold_them(tmp_path: Path) -> None:
    table = tmp_path / "orders"
    part = a_part(table, [a_row("k", 0)])
    assert commit(part, a_batch(0, 1), AppendFiles())
    assert not commit(part, a_batch(0, 1), AppendFiles())  # as after a commit whose answer was lost
    assert texts(table) == {"k": "k@0"}
