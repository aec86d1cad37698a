"""Damage to the SQLite file beside the segments: named when a writer starts, and by `penstock log verify`."""

import os
import random
from pathlib import Path

import pytest

from penstock.errors import StoreDamaged
from penstock.log.files import tables
from penstock.log.files.log import FileLog
from penstock.log.files.verify import check_tables
from penstock.log.sql.migrations import migrate
from penstock.log.store import open_store
from penstock.testing.records import a_record


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = open_store(f"{tmp_path}/log/")
    migrate(store.database)
    for number in range(60):
        store.log.create_topic(f"topic-{number}", partitions=2)
    store.log.append("topic-1", [a_record(key=f"k{each}") for each in range(5)])
    store.close()
    assert list(check_tables(tmp_path / "log")) == []
    return tmp_path / "log"


def start(folder: Path) -> None:
    store = open_store(f"{folder}/")
    try:
        assert isinstance(store.log, FileLog)
        store.log.claim()
    finally:
        store.close()


def page_bytes(content: bytes) -> int:
    return int.from_bytes(content[16:18], "big")


def test_a_page_whose_structure_is_damaged_is_named_before_anything_is_written(folder: Path) -> None:
    """Each page but the first is zeroed or gets another kind: no cursor is read from it."""
    path = folder / tables.NAME
    content = path.read_bytes()
    size = page_bytes(content)
    pages = [at for at in range(size, len(content), size) if content[at] in (2, 5, 10, 13)]
    named = 0
    for at in random.Random(1).sample(pages, 12):
        for damaged in (content[:at] + bytes(size) + content[at + size :], _with_another_kind(content, at)):
            path.write_bytes(damaged)
            (found,) = check_tables(folder)
            assert (found.file, found.kind) == (tables.NAME, "damage")
            with pytest.raises(StoreDamaged, match=r"penstock\.db"):
                start(folder)
            named += 1
    assert named == 24
    path.write_bytes(content)
    start(folder)


def _with_another_kind(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :]


def test_a_cut_file_and_one_that_is_no_database_are_named(folder: Path) -> None:
    path = folder / tables.NAME
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], os.urandom(len(content))):
        path.write_bytes(damaged)
        assert [each.file for each in check_tables(folder)] == [tables.NAME]
        with pytest.raises(StoreDamaged):
            start(folder)


def test_an_index_that_differs_from_its_table_is_named_by_verify(folder: Path) -> None:
    """A value in a table has become another one, and an index still has the right one."""
    path = folder / tables.NAME
    content = bytearray(path.read_bytes())
    at = content.index(b"topic-33")
    content[at + 6] ^= 1
    path.write_bytes(content)
    assert [each.file for each in check_tables(folder)] == [tables.NAME]


def test_nothing_is_said_of_a_directory_without_the_file(tmp_path: Path) -> None:
    assert list(check_tables(tmp_path)) == []
    assert tables.quick_damage(tmp_path) is None
