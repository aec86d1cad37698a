"""Damage to the SQLite file beside the segments: named when a writer starts, and by `penstock log verify`."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.database.drift import differences
from penstock.database.migrations import migrate
from penstock.database.naming import Names
from penstock.errors import StoreDamaged
from penstock.log.contract import OffsetRange
from penstock.log.files import disk, tables
from penstock.log.files.log import FileLog
from penstock.log.files.verify import check_tables
from penstock.log.files.write_ahead import write_ahead_damage
from penstock.log.store import open_store
from tests.suites.records import a_record


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
    """A value in a table has changed, and an index still has the right one."""
    path = folder / tables.NAME
    content = bytearray(path.read_bytes())
    at = content.index(b"topic-33")
    content[at + 6] ^= 1
    path.write_bytes(content)
    assert [each.file for each in check_tables(folder)] == [tables.NAME]


def test_nothing_is_said_of_a_directory_without_the_file(tmp_path: Path) -> None:
    assert list(check_tables(tmp_path)) == []
    assert tables.start_damage(tmp_path, Names()) is None


# -- values: every row has a second copy, an index over all columns

_FIRST_NUMBER = 0x5A17_0000_0000_0000  # stored in eight bytes, and nowhere else


def marked_rows(conn: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
    """Put a row into every table whose values are found in the file; yield each column, and its bytes.

    But for columns that are SQLite's own number of the row: it stands in other places and forms, too.
    """
    named = conn.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name GLOB 'penstock_*'")
    number = 0
    for table, sql in named.fetchall():
        values: list[int | str | bytes] = []
        columns = conn.execute(f"SELECT name, type, pk FROM pragma_table_info('{table}')").fetchall()
        keys = sum(key > 0 for *_, key in columns)
        for column, kind, key in columns:
            number += 1
            text = f"mark {number:05} of a value"
            last = _FIRST_NUMBER + number if kind == "INTEGER" else text if kind == "TEXT" else text.encode()
            values.append(last)
            if not (key and keys == 1 and kind == "INTEGER" and "WITHOUT ROWID" not in sql):
                yield f"{table}.{column}", last.to_bytes(8) if isinstance(last, int) else text.encode()
        conn.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)


@pytest.fixture
def marked(folder: Path) -> tuple[Path, dict[str, bytes]]:
    """Give a directory with a row in every table, and the bytes of each value."""
    with closing(sqlite3.connect(folder / tables.NAME)) as conn:
        marks = dict(marked_rows(conn))
        conn.commit()
    return folder / tables.NAME, marks


def flipped(content: bytes, at: int, bit: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def places(content: bytes, mark: bytes) -> list[int]:
    found, at = [], content.find(mark)
    while at >= 0:
        found.append(at)
        at = content.find(mark, at + 1)
    return found


def test_a_value_that_has_become_another_one_is_found_in_every_column_of_every_table(
    marked: tuple[Path, dict[str, bytes]],
) -> None:
    path, marks = marked
    content, draw = path.read_bytes(), random.Random(2)
    assert tables.start_damage(path.parent, Names()) is None
    assert len(marks) > 200
    for column, mark in marks.items():
        there = places(content, mark)
        assert len(there) >= 2, f"{column} has no second copy"
        at = draw.choice(there) + draw.randrange(len(mark))
        path.write_bytes(flipped(content, at, draw.randrange(8)))
        assert tables.start_damage(path.parent, Names()) is not None, column


def test_a_start_that_has_become_a_later_one_removes_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start of a partition stands in the tables alone, and a writer removes the segments before it."""
    monkeypatch.setenv("PENSTOCK_FILES_SEGMENT_BYTES", "4096")
    folder = tmp_path / "log"
    with closing(open_store(f"{folder}/")) as store:
        migrate(store.database)
        topic = store.log.create_topic("t", partitions=1)
        for _ in range(200):
            store.log.append("t", [a_record(key="k" * 100)])
        store.log.trim(topic, [OffsetRange(0, 0, 33)])
    segments = sorted(folder.rglob("*.log"))
    content = (folder / tables.NAME).read_bytes()
    for at in places(content, bytes([33])):
        (folder / tables.NAME).write_bytes(flipped(content, at, 6))
        if start_of(folder) == 97:
            break
    with pytest.raises(StoreDamaged):
        start(folder)
    assert (start_of(folder), sorted(folder.rglob("*.log"))) == (97, segments)


def start_of(folder: Path) -> int | None:
    with closing(sqlite3.connect(f"{(folder / tables.NAME).as_uri()}?mode=ro", uri=True)) as conn:
        try:
            ((start,),) = conn.execute("SELECT start_offset FROM penstock_head NOT INDEXED").fetchall()
        except sqlite3.Error:
            return None
        return int(start)


def test_a_flipped_bit_anywhere_in_the_file_is_found_or_makes_no_difference(
    marked: tuple[Path, dict[str, bytes]],
) -> None:
    path, _ = marked
    content, whole, draw = path.read_bytes(), dumped(path), random.Random(3)
    written = [at for at, byte in enumerate(content) if byte]
    found = 0
    for at in (*range(100), *draw.sample(written, 250)):  # all of SQLite's header
        path.write_bytes(flipped(content, at, draw.randrange(8)))
        if tables.start_damage(path.parent, Names()) is not None:
            found += 1
            continue
        assert dumped(path) == whole, at
    assert found > 200


def dumped(path: Path) -> list[tuple[Any, ...]]:
    """Return what our tables and views are and hold; neither indexes nor SQLite's counters of numbers."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as conn:
        named = conn.execute(
            "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view') AND name GLOB 'penstock_*'"
        ).fetchall()
        return named + [row for name, _ in named for row in conn.execute(f"SELECT * FROM {name}")]


def test_a_large_file_is_looked_at_where_it_decides_what_is_served(
    marked: tuple[Path, dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_WHOLE_BYTES", 1000)
    path, marks = marked
    content = path.read_bytes()
    for column, is_found in (("penstock_cursor.offset", True), ("penstock_dead.value", False)):
        path.write_bytes(flipped(content, places(content, marks[column])[0] + 6, 0))
        assert (tables.start_damage(path.parent, Names()) is not None) is is_found
        assert tables.damage(path.parent) is not None


@pytest.mark.parametrize(("table", "word"), [("topic", "retention_bytes"), ("head", "DEFAULT 0")])
def test_the_definition_of_a_table_that_has_become_another_one_is_found(folder: Path, table: str, word: str) -> None:
    path = folder / tables.NAME
    with closing(sqlite3.connect(path)) as conn:
        query = "SELECT sql FROM sqlite_master WHERE name = ?"
        ((text,),) = conn.execute(query, (f"penstock_{table}",)).fetchall()
    content = path.read_bytes()
    at = content.index(text.encode()) + text.index(word) + len(word) - 1
    path.write_bytes(flipped(content, at, 0))
    with pytest.raises(StoreDamaged, match="definition"):
        start(folder)


def test_a_table_of_facts_under_another_name_is_found(folder: Path) -> None:
    """The checksum of the definitions stands in `meta`; without that table nothing could be compared."""
    path = folder / tables.NAME
    content = path.read_bytes()
    at = content.index(b"tablepenstock_metapenstock_meta") + len("tablepenstock_")
    path.write_bytes(flipped(content, at, 5))  # penstock_Meta: the same table to SQLite
    assert tables.start_damage(folder, Names()) == "the definition of a table has changed"


def test_copies_follow_the_columns_and_are_no_drift(folder: Path) -> None:
    """As after a migration that adds a column: what stands in it is copied from the next start on."""
    path = folder / tables.NAME
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("ALTER TABLE penstock_topic ADD COLUMN later TEXT")
        conn.execute("UPDATE penstock_topic SET later = 'mark of a topic' WHERE name = 'topic-3'")
        conn.execute("UPDATE penstock_meta SET value = value + 1 WHERE name = 'schema_version'")
        conn.commit()
        conn.execute("VACUUM")
    assert len(places(path.read_bytes(), b"mark of a topic")) == 1
    start(folder)
    assert len(places(path.read_bytes(), b"mark of a topic")) == 2
    store = open_store(f"{folder}/")
    assert differences(store.database) == ["penstock_topic has unexpected later TEXT not null: 0 default:  key: 0"]
    store.close()


# -- the write-ahead log, where commits stand after a kill


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[tuple[Path, list[list[tuple[Any, ...]]]]]:
    """Give a directory as a kill leaves it, and what stood in its tables at the end and one commit before."""
    store = open_store(f"{tmp_path}/log/")
    migrate(store.database)
    with closing(sqlite3.connect(tmp_path / "log" / tables.NAME)) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    dumps = []
    for number in range(8):
        store.log.create_topic(f"topic-{number}", partitions=4)
        if number >= 6:
            dumps.append(dumped(tmp_path / "log" / tables.NAME))
    shutil.copytree(tmp_path / "log", tmp_path / "killed")
    yield tmp_path / "killed" / tables.NAME, dumps
    store.close()


def names_in(folder: Path) -> list[str]:
    store = open_store(f"{folder}/")
    try:
        return [each.name for each in store.log.topics()]
    finally:
        store.close()


def test_a_flipped_bit_in_the_write_ahead_log_is_found_unless_it_is_in_the_last_commit(
    killed: tuple[Path, list[list[tuple[Any, ...]]]], tmp_path: Path
) -> None:
    path, (before, whole) = killed
    log = path.with_name(f"{path.name}{tables.WRITE_AHEAD}")
    database, content, draw = path.read_bytes(), log.read_bytes(), random.Random(4)
    assert write_ahead_damage(log) is None
    found = 0
    for at in (*range(0, 56, 4), *draw.sample(range(len(content)), 60)):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        (copy / tables.NAME).write_bytes(database)
        (copy / log.name).write_bytes(flipped(content, at, draw.randrange(8)))
        if write_ahead_damage(copy / log.name) is not None:
            found += 1
            assert [each.file for each in check_tables(copy)] == [tables.NAME]
            with pytest.raises(StoreDamaged, match="would be lost"):
                names_in(copy)
            assert (copy / log.name).stat().st_size == len(content)  # nothing of it is removed
            continue
        assert dumped(copy / tables.NAME) in (before, whole), at
    assert found > 50


def test_a_write_ahead_log_that_was_cut_or_begun_anew_is_not_damaged(
    killed: tuple[Path, list[list[tuple[Any, ...]]]], tmp_path: Path
) -> None:
    path, _ = killed
    log = path.with_name(f"{path.name}{tables.WRITE_AHEAD}")
    content, draw = log.read_bytes(), random.Random(5)
    for cut in (0, 10, 32, 40, 32 + 4120, *draw.sample(range(len(content)), 40)):
        log.write_bytes(content[:cut])
        assert write_ahead_damage(log) is None, cut
        log.write_bytes(content[:cut] + bytes(len(content) - cut))
        assert write_ahead_damage(log) is None or cut < 32, cut
    log.write_bytes(content)
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA wal_checkpoint(RESTART)")
        conn.execute("UPDATE penstock_topic SET created_ms = 1")  # over the first frames
        conn.commit()
        anew = log.read_bytes()
        assert len(anew) == len(content)
        assert anew[:32] != content[:32]
        assert write_ahead_damage(log) is None
    assert names_in(path.parent)


@pytest.mark.parametrize("is_living", [False, True], ids=["of nobody", "of another program"])
def test_a_number_that_a_killed_writer_left_keeps_nobody_from_looking(
    killed: tuple[Path, list[list[tuple[Any, ...]]]], is_living: bool
) -> None:
    """The number in the file of the lock may be any program's by now; the lock itself is nobody's."""
    path, _ = killed
    log = path.with_name(f"{path.name}{tables.WRITE_AHEAD}")
    log.write_bytes(flipped(log.read_bytes(), 2000, 0))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (path.parent / disk.LOCK_NAME).write_text(f"{os.getppid() if is_living else ended.pid}\n")
    with pytest.raises(StoreDamaged, match="would be lost"):
        names_in(path.parent)
    assert [each.file for each in check_tables(path.parent)] == [tables.NAME]
