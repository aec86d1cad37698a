"""What tables really hold is counted by their rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.pipeline.account import account, sources
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
    (source,) = sources(lake)
    found = account(lake, source)
    assert (found.rows, found.distinct) == (60, 60)
    assert found.held == tuple(Piece(partition, 0, 20) for partition in range(3))
    assert found.ends == ends(20)


def test_a_deleted_row_is_missing_by_its_range(lake: Path) -> None:
    DeltaTable(lake / "a").delete("partition = 1 AND offset = 4")
    found = account(lake, sources(lake)[0])
    assert found.distinct == 59
    assert [piece for piece in found.held if piece.partition == 1] == [Piece(1, 0, 4), Piece(1, 5, 20)]


def test_a_doubled_row_is_counted_once(lake: Path) -> None:
    twice = DeltaTable(lake / "b").to_pyarrow_table()
    from deltalake import write_deltalake

    write_deltalake(lake / "b", twice.slice(0, 1), mode="append")
    found = account(lake, sources(lake)[0])
    assert (found.rows, found.distinct) == (61, 60)
