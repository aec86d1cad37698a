"""Compaction beside the stream: the same rows in fewer files, and no batch lost, doubled or held up."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from penstock.errors import RangesDiffer
from penstock.pipeline.lake import upkeep
from penstock.pipeline.lake.delta.table import LakeTable
from penstock.pipeline.lake.tables import vacuum
from penstock.pipeline.lake.upkeep import LakeUpkeep, due, join, optimize
from penstock.pipeline.settings import PipelineSettings
from tests.pipeline.test_lake import lake_rows
from tests.pipeline.test_table import Query, all_places, ends

SETTINGS = PipelineSettings.load(compact_files=10, upkeep_seconds=0.1)


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(to: Path) -> Query:
    return Query(to / "_penstock" / "checkpoint", to, tableBy="type")


def file_count(to: Path) -> int:
    return len(DeltaTable(to).file_uris())


def test_many_small_files_become_few_and_the_table_keeps_its_place(lake: Query, to: Path, tmp_path: Path) -> None:
    for n in range(5):
        lake.run(ends(n), ends(n + 1), ["a"])
    assert [(each.table, each.files, each.into) for each in LakeUpkeep(to, SETTINGS).look()] == [("a", 15, 1)]
    assert file_count(to / "a") == 1
    assert lake_rows(to) == all_places(5)
    lake.commit(4, lake.write(ends(4), ends(5), ["a"]))
    with pytest.raises(RangesDiffer):
        Query(tmp_path / "wrong", to, tableBy="type").run(ends(4), ends(9), ["a"])
    lake.run(ends(5), ends(6), ["a"])
    assert lake_rows(to) == all_places(6)
    assert LakeUpkeep(to, SETTINGS).look() == []


def test_old_files_go_with_vacuum_at_a_safe_age(lake: Query, to: Path) -> None:
    for n in range(5):
        lake.run(ends(n), ends(n + 1), ["a"])
    optimize(to, file_bytes=1 << 20)
    assert len(list((to / "a").glob("*.parquet"))) == 16
    assert [each.files for each in vacuum(to, older_than_hours=1, dry_run=False)] == [()]
    vacuum(to, older_than_hours=0, dry_run=False)
    assert len(list((to / "a").glob("*.parquet"))) == 1
    assert lake_rows(to) == all_places(5)


def test_files_are_joined_in_steps() -> None:
    kilobyte, megabyte = 1 << 10, 1 << 20

    def step(*sizes: int) -> int | None:
        return due(list(sizes), at_least=3, file_bytes=128 * megabyte)

    assert step(kilobyte, kilobyte) is None
    assert step(kilobyte, kilobyte, kilobyte, 100 * megabyte) == megabyte
    assert step(kilobyte, 2 * megabyte, 3 * megabyte) == 16 * megabyte
    assert step(20 * megabyte, 20 * megabyte, kilobyte) == 128 * megabyte
    assert step(200 * megabyte, 200 * megabyte, 300 * megabyte) is None
    assert due([1, 1, 1], at_least=3, file_bytes=5) == 5


def test_a_batch_between_the_look_and_the_commit_of_a_compaction_is_kept(
    lake: Query, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.run(ends(0), ends(5), ["a"])
    table = LakeTable(to / "a")
    lake.run(ends(5), ends(7), ["a"])
    table.compact(1 << 20)
    assert lake_rows(to) == all_places(7)


def test_a_compaction_that_was_overtaken_is_tried_again(lake: Query, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.run(ends(0), ends(5), ["a"])
    compact, failures = LakeTable.compact, iter([True, True])

    def overtaken(self: LakeTable, size: int) -> Any:
        if next(failures, False):
            raise CommitFailedError("overtaken")
        return compact(self, size)

    monkeypatch.setattr(LakeTable, "compact", overtaken)
    assert join(to / "a", 1 << 20).files == 3
    failures = iter([True] * 5)
    with pytest.raises(CommitFailedError):
        join(to / "a", 1 << 20)


@pytest.mark.parametrize("error", [OSError, pa.ArrowInvalid, CommitFailedError, RuntimeError])
def test_what_fails_is_said_and_does_not_end_the_upkeep(
    lake: Query, to: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    for n in range(5):
        lake.run(ends(n), ends(n + 1), ["a", "b"])

    def fails(path: Path, size: int) -> Any:
        raise error("no space left")

    monkeypatch.setattr(upkeep, "join", fails)
    with caplog.at_level(logging.WARNING):
        assert LakeUpkeep(to, PipelineSettings.load(compact_files=2)).look() == []
    assert caplog.messages == [
        f"upkeep of table {name} is put off: no space left; the next look tries again, or do it now: "
        f"penstock pipeline optimize {to / name}"
        for name in "ab"
    ]


def test_the_thread_goes_on_after_a_look_that_failed(to: Path) -> None:
    looks, again = iter([True, False]), threading.Event()
    keeper = LakeUpkeep(to, SETTINGS)

    def look() -> Any:
        if next(looks, False):
            raise pa.ArrowInvalid("a file is cut short")
        again.set()
        return []

    keeper.look = look  # type: ignore[method-assign]
    keeper.start()
    assert again.wait(30)
    keeper.stop()


def test_batches_and_compactions_at_the_same_time_lose_and_double_nothing(lake: Query, to: Path) -> None:
    lake.run(ends(0), ends(1), ["a", "b"])
    beside = LakeUpkeep(to, PipelineSettings.load(compact_files=2, upkeep_seconds=0.1))
    done = threading.Event()
    looks = 0

    def compact() -> None:
        nonlocal looks
        while not done.is_set():
            beside.look()
            looks += 1

    thread = threading.Thread(target=compact)
    thread.start()
    try:
        for n in range(1, 25):
            lake.run(ends(n), ends(n + 1), ["a", "b"])
    finally:
        done.set()
        thread.join()
    assert looks > 1
    assert lake_rows(to) == all_places(25)
    operations = [entry["operation"] for entry in DeltaTable(to / "a").history()]
    assert "OPTIMIZE" in operations


def test_the_thread_starts_and_stops_more_than_once(lake: Query, to: Path) -> None:
    reached = threading.Event()
    keeper = LakeUpkeep(to, SETTINGS)
    keeper.look = lambda: reached.set() or []  # type: ignore[method-assign,func-returns-value]
    keeper.start()
    keeper.start()
    assert reached.wait(30)
    keeper.stop()
    keeper.stop()


def test_a_crash_in_a_compaction_leaves_the_table_as_it_was(
    lake: Query, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before its commit: its new files are orphans."""
    for n in range(3):
        lake.run(ends(n), ends(n + 1), ["a"])
    orphan = to / "a" / "part-00001-orphan.zstd.parquet"
    orphan.write_bytes(next((to / "a").glob("*.parquet")).read_bytes())
    os.utime(orphan, (1_000, 1_000))
    assert lake_rows(to) == all_places(3)
    vacuum(to, older_than_hours=24, dry_run=False)
    assert not orphan.exists()
