"""What a lake knows of itself: a table that is gone is missed, and a reset that was cut short is finished."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidOption, TableMissing
from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.lake.state import check_tables, finish_reset, known_tables, reset
from penstock.pipeline.lake.storage import Location
from tests.pipeline.test_table import Query, all_places, ends, rows_of


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(to: Path) -> Query:
    """Give a query with a lake of two tables."""
    query = Query(to / "_penstock" / "checkpoint", to, tableBy="type")
    query.run(ends(0), ends(10), ["a", "b"])
    return query


def names(removed: list[Location]) -> list[str]:
    return [path.name for path in removed]


def test_a_deleted_table_stops_the_lake_and_nothing_is_written(lake: Query, to: Path) -> None:
    shutil.rmtree(to / "b")
    held = rows_of(to / "a")
    for types in (["a"], ["a", "b"]):
        number = lake.plan(ends(10), ends(20))
        with pytest.raises(TableMissing, match=r"has lost the table b,.* --rebuild --table b"):
            lake.commit(number, lake.write(ends(10), ends(20), types))
    assert rows_of(to / "a") == held


def test_a_table_that_is_the_whole_pipeline_is_missed_too(tmp_path: Path, to: Path) -> None:
    query = Query(to / "_penstock" / "checkpoint", to)
    query.run(ends(0), ends(10))
    shutil.rmtree(to / "_delta_log")
    number = query.plan(ends(10), ends(20))
    with pytest.raises(TableMissing, match="has lost its table"):
        query.commit(number, query.write(ends(10), ends(20)))
    assert [each.name for _, each in reset(to, rebuild=True).aside] == ["_old"]
    new = Query(to / "_penstock" / "checkpoint", to)
    new.run(ends(0), ends(10))
    assert rows_of(to) == all_places(10)


def test_reset_forgets_the_checkpoint_and_keeps_the_tables_in_mind(lake: Query, to: Path) -> None:
    assert names(reset(to, rebuild=False).removed) == ["checkpoint"]
    assert known_tables(to).tables == ("a", "b")
    check_tables(to)


def test_reset_with_rebuild_sets_all_aside_and_knows_nothing_more(lake: Query, to: Path) -> None:
    assert names(reset(to, rebuild=True).removed) == ["checkpoint", "mark", "tables.json"]
    assert tables_in(to) == []
    check_tables(to)


def test_one_table_stays_until_it_is_made_again(lake: Query, to: Path) -> None:
    assert reset(to, rebuild=True, tables=["b"]) == ([], [])
    assert known_tables(to).again == ("b",)
    assert (to / "_penstock" / "checkpoint").is_dir()
    check_tables(to)
    with pytest.raises(InvalidOption, match="one of a, b"):
        reset(to, rebuild=True, tables=["c"])


def test_all_tables_by_name_stay_until_they_are_made_again(lake: Query, to: Path) -> None:
    reset(to, rebuild=True, tables=["a", "b"])
    assert known_tables(to).again == ("a", "b")
    assert (to / "_penstock" / "checkpoint").exists()
    shutil.rmtree(to / "_penstock" / "mark")
    reset(to, rebuild=True, tables=["a", "b"])
    assert known_tables(to).tables == (), "nothing says where they would begin"


def test_a_reset_that_is_cut_short_is_finished_by_the_next_start(
    lake: Query, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = shutil.rmtree

    def cut(path: Any) -> None:
        remove(path / "_delta_log")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", cut)
        with pytest.raises(KeyboardInterrupt):
            reset(to, rebuild=True)
    finish_reset(to)
    assert not (to / "a").exists()
    assert not (to / "b").exists()
    assert sorted(rows_of(to / "_old.a") + rows_of(to / "_old.b")) == all_places(10)
    assert finish_reset(to) == ([], [])


def test_a_folder_without_tables_has_nothing_to_reset(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="tables of a pipeline"):
        reset(tmp_path, rebuild=False)
