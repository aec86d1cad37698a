"""A lake of several tables: who is committed to, where the mark is, and what a crash at any place leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from penstock import points
from penstock.errors import MarkMissing, RangesDiffer, TableDiffers
from penstock.pipeline.lake.commit import AFTER_COMMIT, BEFORE_COMMIT
from penstock.pipeline.lake.lake import AFTER_MARK, BEFORE_MARK, Lake
from penstock.pipeline.lake.paths import tables_in
from penstock.pipeline.lake.sink import DeltaSink
from penstock.pipeline.lake.state import known_tables, reset
from penstock.pipeline.lake.tables import describe
from tests.pipeline.test_table import SCHEMA, Ends, Query, all_places, ends, rows_of

# Where a batch of three tables is cut short, and at which of its visits to that place.
CUTS = [(BEFORE_COMMIT, 1), (AFTER_COMMIT, 1), (BEFORE_COMMIT, 3), (BEFORE_MARK, 1), (AFTER_MARK, 1)]


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(to: Path) -> Query:
    return Query(to / "_penstock" / "checkpoint", to, tableBy="type")


def lake_rows(to: Path) -> list[tuple[int, int]]:
    return sorted(place for table in tables_in(to) for place in rows_of(table))


def versions(to: Path) -> dict[str, int]:
    return {path.name: DeltaTable(path).version() for path in tables_in(to)}


def mark(to: Path) -> Ends:
    (source,) = Lake(to).sources()
    return Lake(to).ends(source)


def cut_short(query: Query, at: Any, number: int, messages: Any, times: int = 1) -> None:
    """Commit a batch, and end at a point, when it is reached for the nth time."""
    left = times
    reach = points.reach

    def fail(point: Any) -> None:
        nonlocal left
        left -= point == at
        if point == at and not left:
            raise KeyboardInterrupt

    points.reach = fail
    try:
        with pytest.raises(KeyboardInterrupt):
            query.commit(number, messages)
    finally:
        points.reach = reach


def test_only_tables_with_rows_are_committed_to(lake: Query, to: Path) -> None:
    lake.run(ends(0), ends(10), ["a", "b"])
    before = versions(to)
    for n in range(10, 15):
        lake.run(ends(n), ends(n + 1), ["a"])
    assert versions(to) == before | {"a": before["a"] + 5}
    assert mark(to) == ends(15)
    assert {state.name: state.sources[0].ends for state in describe(to)} == dict.fromkeys("ab", ends(15))


def test_a_batch_without_rows_moves_the_mark_alone(lake: Query, to: Path) -> None:
    lake.run(ends(0), ends(10), ["a"])
    before = versions(to)
    lake.commit(lake.plan(ends(10), ends(12)), [])
    assert versions(to) == before
    assert mark(to) == ends(12)
    lake.run(ends(12), ends(13), ["a"])


@pytest.mark.parametrize(("at", "times"), CUTS)
@pytest.mark.parametrize("first", [True, False], ids=["first batch", "later batch"])
def test_a_batch_that_was_cut_short_anywhere_is_made_whole_by_the_same_batch(
    lake: Query, to: Path, at: Any, times: int, first: bool
) -> None:
    start = 0
    if not first:
        lake.run(ends(0), ends(10), ["a", "b"])
        start = 10
    number, types = lake.plan(ends(start), ends(20)), ["a", "b", "c"]
    cut_short(lake, at, number, lake.write(ends(start), ends(20), types), times)
    assert mark(to) == ends(20 if at is AFTER_MARK else start)
    lake.commit(number, lake.write(ends(start), ends(20), types))
    assert lake_rows(to) == all_places(20)
    assert mark(to) == ends(20)
    assert known_tables(to).tables == ("a", "b", "c")
    files = {file.name for file in to.glob("*/*.parquet")}
    held = {Path(uri).name for table in tables_in(to) for uri in DeltaTable(table).file_uris()}
    assert held <= files
    lake.run(ends(20), ends(22), types)
    assert lake_rows(to) == all_places(22)


@pytest.mark.parametrize("cut", ["a", "b", "mark"])
@pytest.mark.parametrize("failed", [DeltaError("(os error 28)"), KeyboardInterrupt()], ids=["full", "killed"])
def test_a_table_whose_making_was_cut_short_is_made_by_the_same_batch(
    lake: Query, to: Path, cut: str, failed: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder has a log without a commit, which is no table: nothing else would ever make it one."""
    create = DeltaTable.create

    def fail(path: str, *arguments: Any, **options: Any) -> Any:
        if Path(path).name != cut:
            return create(path, *arguments, **options)
        (Path(path) / "_delta_log").mkdir(parents=True)
        (Path(path) / "_delta_log" / "_commit_1.json.tmp").write_text("{")
        raise failed

    number = lake.plan(ends(0), ends(10))
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create", fail)
        with pytest.raises(type(failed)):
            lake.commit(number, lake.write(ends(0), ends(10), ["a", "b"]))
    assert to / cut not in tables_in(to)
    describe(to)
    lake.commit(number, lake.write(ends(0), ends(10), ["a", "b"]))
    lake.run(ends(10), ends(12), ["a", "b"])
    assert lake_rows(to) == all_places(12)
    assert mark(to) == ends(12)


def test_without_the_look_at_the_tables_the_same_crash_doubles(
    lake: Query, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above."""
    number, types = lake.plan(ends(0), ends(20)), ["a", "b"]
    cut_short(lake, AFTER_COMMIT, number, lake.write(ends(0), ends(20), types))
    monkeypatch.setattr("penstock.pipeline.lake.identity.ByOffsets.is_in", lambda self, table: False)
    lake.commit(number, lake.write(ends(0), ends(20), types))
    assert len(lake_rows(to)) > len(all_places(20))


def test_if_the_mark_moved_first_the_same_crash_would_lose(
    lake: Query, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the order: tables, then the mark."""
    number, types = lake.plan(ends(0), ends(20)), ["a", "b"]
    commit = Lake.commit

    def mark_first(self: Lake, parts: Any, identity: Any, committing: Any) -> None:
        mark = self._marked(identity)
        if not identity.is_in(mark):
            self._move(mark, identity)
        commit(self, parts, identity, committing)

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "commit", mark_first)
        lake.commit(number, lake.write(ends(0), ends(20), types))
    lake.commit(number, lake.write(ends(0), ends(20), types))
    assert len(lake_rows(to)) < len(all_places(20))


def test_a_checkpoint_of_before_is_refused_with_the_command_that_forgets_it(lake: Query, to: Path) -> None:
    """The command that runs a lake has no option continueFrom: it always goes on where the tables end."""
    lake.run(ends(0), ends(10), ["a"])
    with pytest.raises(RangesDiffer, match=r"replace the checkpoint: penstock pipeline reset\b") as refused:
        lake.run(ends(0), ends(15), ["a"])
    remedy = str(refused.value).partition("penstock pipeline reset")[2]
    assert remedy.startswith(" (for a query of your own: ")


def test_a_batch_that_begins_elsewhere_is_refused_even_if_its_table_is_new(
    lake: Query, to: Path, tmp_path: Path
) -> None:
    lake.run(ends(0), ends(10), ["a"])
    other = Query(tmp_path / "two", to, tableBy="type")
    for start, end in ((0, 15), (12, 15), (9, 15)):
        with pytest.raises(RangesDiffer, match=f"is there up to 10, the batch brings {start} to before 15"):
            other.run(ends(start), ends(end), ["new"])
    assert [path.name for path in tables_in(to)] == ["a"]
    assert lake_rows(to) == all_places(10)


@pytest.mark.parametrize("types", [["a"], ["b"], ["a", "b"], ["new"]])
def test_a_zombie_never_doubles_and_never_hides_rows(lake: Query, to: Path, tmp_path: Path, types: list[str]) -> None:
    """It planned a longer batch; its successor has committed a shorter one."""
    lake.run(ends(0), ends(10), ["a", "b"])
    number, messages = lake.plan(ends(10), ends(18)), lake.write(ends(10), ends(18), types)
    successor = Query(tmp_path / "successor", to, tableBy="type")
    successor.run(ends(10), ends(14), ["a", "b"])
    with pytest.raises(RangesDiffer):
        lake.commit(number, messages)
    successor.run(ends(14), ends(20), ["a", "b"])
    assert lake_rows(to) == all_places(20)


def test_a_zombie_that_has_looked_at_the_mark_is_refused_by_the_tables(lake: Query, to: Path, tmp_path: Path) -> None:
    """Its successor commits the whole batch between its look at the mark and its first commit."""
    lake.run(ends(0), ends(10), ["a", "b"])
    successor = Query(tmp_path / "successor", to, tableBy="type")
    reach = points.reach

    def overtaken(point: Any) -> None:
        points.reach = reach
        successor.run(ends(10), ends(14), ["a", "b"])

    points.reach = overtaken
    with pytest.raises(RangesDiffer):
        lake.run(ends(10), ends(18), ["a", "b"])
    successor.run(ends(14), ends(20), ["a", "b"])
    assert lake_rows(to) == all_places(20)


def test_a_batch_that_fails_in_one_table_leaves_the_files_of_the_others(lake: Query, to: Path) -> None:
    """Spark aborts a batch whose commit failed, also when one of its tables has it already."""
    lake.run(ends(0), ends(10), ["a", "b"])
    write_deltalake(to / "b", pa.table({"note": ["x"]}), mode="overwrite", schema_mode="overwrite")
    before = {file.name for file in (to / "b").glob("*.parquet")}
    number, messages = lake.plan(ends(10), ends(20)), lake.write(ends(10), ends(20), ["a", "b"])
    with pytest.raises(TableDiffers):
        lake.commit(number, messages)
    DeltaSink(lake.options).streamWriter(SCHEMA, False).abort(messages, number)
    assert {file.name for file in (to / "b").glob("*.parquet")} == before
    DeltaTable(to / "b").restore(1)
    lake.commit(number, lake.write(ends(10), ends(20), ["a", "b"]))
    assert lake_rows(to) == all_places(20)


def test_a_lost_mark_stops_the_lake_and_nothing_is_written(lake: Query, to: Path, tmp_path: Path) -> None:
    lake.run(ends(0), ends(10), ["a", "b"])
    (to / "_penstock" / "mark").rename(tmp_path / "away")
    with pytest.raises(MarkMissing, match=r"has lost its mark, .* reset .*lake --rebuild"):
        lake.run(ends(10), ends(20), ["a", "b"])
    assert lake_rows(to) == all_places(10)
    assert not (to / "_penstock" / "mark").exists()
    reset(to, rebuild=True)
    Query(to / "_penstock" / "checkpoint", to, tableBy="type").run(ends(0), ends(20), ["a"])
    assert lake_rows(to) == all_places(20)


def test_the_mark_of_a_lake_stays_small(lake: Query, to: Path) -> None:
    """One entry for each batch, and a checkpoint of its own from time to time."""
    for n in range(25):
        lake.run(ends(n), ends(n + 1), ["a"])
    log = to / "_penstock" / "mark" / "_delta_log"
    assert list(log.glob("*.checkpoint.parquet"))
    assert not list((to / "_penstock" / "mark").glob("*.parquet"))


def test_a_lake_over_a_table_that_was_filled_alone_begins_where_that_ends(to: Path, tmp_path: Path) -> None:
    Query(tmp_path / "alone", to / "a").run(ends(0), ends(6), ["a"])
    with pytest.raises(RangesDiffer):
        Query(tmp_path / "wrong", to, tableBy="type").run(ends(9), ends(12), ["a"])
    Query(tmp_path / "new", to, tableBy="type").run(ends(6), ends(9), ["a", "b"])
    assert lake_rows(to) == all_places(9)
    assert mark(to) == ends(9)


def test_the_mark_is_no_table_of_the_lake(lake: Query, to: Path) -> None:
    lake.run(ends(0), ends(3), ["a"])
    assert [path.name for path in tables_in(to)] == ["a"]
    assert DeltaTable(to / "_penstock" / "mark").to_pyarrow_table() == pa.table({"nothing": pa.array([], pa.string())})
