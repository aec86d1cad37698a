"""What tables really hold is counted by their rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from penstock.pipeline.account import account, missing, sources
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
    assert missing(found.held, ends(0), found.ends) == []


def test_a_deleted_row_is_missing_by_its_range(lake: Path) -> None:
    DeltaTable(lake / "a").delete("partition = 1 AND offset = 4")
    found = account(lake, sources(lake)[0])
    assert found.distinct == 59
    assert missing(found.held, ends(0), found.ends) == [Piece(1, 4, 5)]


def test_a_doubled_row_is_counted_once(lake: Path) -> None:
    twice = DeltaTable(lake / "b").to_pyarrow_table()
    from deltalake import write_deltalake

    write_deltalake(lake / "b", twice.slice(0, 1), mode="append")
    found = account(lake, sources(lake)[0])
    assert (found.rows, found.distinct) == (61, 60)


@given(st.sets(st.integers(0, 30)), st.integers(0, 30), st.integers(0, 30))
def test_what_is_held_and_what_is_missing_make_the_whole(there: set[int], start: int, end: int) -> None:
    held = tuple(Piece(0, n, n + 1) for n in sorted(there))
    lost = missing(held, {0: start}, {0: end})
    named = [n for piece in lost for n in range(piece.start, piece.end)]
    assert named == [n for n in range(start, end) if n not in there]
