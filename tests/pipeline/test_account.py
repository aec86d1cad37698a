"""What tables really hold is counted by their rows."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.pipeline.lake.delta import table
from penstock.pipeline.lake.delta.table import LakeTable
from penstock.pipeline.lake.lake import Lake
from penstock.pipeline.lake.reconcile.figures import account
from penstock.pipeline.offsets import Piece
from tests.pipeline.test_table import Query, ends


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    to = tmp_path / "lake"
    query = Query(tmp_path / "checkpoint", to, tableBy="type")
    query.run(ends(0), ends(10), ["a", "b"])
    query.run(ends(10), ends(20), ["a", "b", "c"])
    return to


def test_a_whole_lake_has_one_run_for_each_partition(lake: Path) -> None:
    (source,) = Lake(lake).sources()
    found = account(lake, source)
    assert (found.rows, found.distinct) == (60, 60)
    assert found.held == tuple(Piece(partition, 0, 20) for partition in range(3))
    assert found.ends == ends(20)


def test_a_deleted_row_is_missing_by_its_range(lake: Path) -> None:
    DeltaTable(lake / "a").delete("partition = 1 AND offset = 4")
    found = account(lake, Lake(lake).sources()[0])
    assert found.distinct == 59
    assert [piece for piece in found.held if piece.partition == 1] == [Piece(1, 0, 4), Piece(1, 5, 20)]


def test_a_doubled_row_is_counted_once(lake: Path) -> None:
    twice = DeltaTable(lake / "b").to_pyarrow_table()
    write_deltalake(lake / "b", twice.slice(0, 1), mode="append")
    found = account(lake, Lake(lake).sources()[0])
    assert (found.rows, found.distinct) == (61, 60)


def test_large_rows_are_read_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "SCAN_BYTES", 64 << 10)
    rows = pa.table({"offset": range(100), "value": [os.urandom(10 << 10) for _ in range(100)]})
    write_deltalake(tmp_path / "table", rows)
    batches = list(LakeTable(tmp_path / "table").batches(["offset", "value"]))
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == list(range(100))
    assert max(batch.nbytes for batch in batches) < 80 << 10
