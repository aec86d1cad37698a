"""After a power cut the tables hold what Spark knows: all that was written is on the disk before it does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.pipeline.lake.state import reader_name, tables_rebuilt
from tests.pipeline.test_table import Query, ends

Node = tuple[int, int]


def node(path: Path) -> Node:
    found = path.stat()
    return found.st_dev, found.st_ino


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """Give the files and folders that were brought to the disk, by what they are and not by name."""
    found, fsync = list[Node](), os.fsync

    def noted(handle: int) -> None:
        at = os.fstat(handle)
        found.append((at.st_dev, at.st_ino))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return found


@pytest.mark.parametrize("batches", [1, 12])  # the table's own checkpoint comes with the tenth commit
def test_all_files_of_a_batch_and_their_folders_are_on_the_disk(
    tmp_path: Path, synced: list[Node], batches: int
) -> None:
    to = tmp_path / "lake"
    query = Query(tmp_path / "checkpoint", to, tableBy="type")
    for n in range(batches):
        query.run(ends(n), ends(n + 1), ["a", "b"])
    there = [path for path in (to, *to.rglob("*")) if not path.is_dir() or any(path.iterdir())]
    assert {path.suffix for path in there} >= {"", ".json", ".parquet"}
    assert [path for path in there if node(path) not in synced] == []


def test_a_file_beside_the_checkpoint_is_on_the_disk_under_its_name(tmp_path: Path, synced: list[Node]) -> None:
    folder = tmp_path / "lake" / "_penstock"
    reader_name(folder.parent)
    assert synced[-2:] == [node(folder), node(folder.parent)]  # the folders last, when the file has its name
    synced.clear()
    tables_rebuilt(folder.parent)
    assert node(folder / "tables.json") in synced
    assert node(folder) in synced
