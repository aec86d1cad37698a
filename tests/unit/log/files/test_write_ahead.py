"""SQLite's write-ahead log: damage that would lose commits is told from what a good history leaves behind."""

import os
import shutil
import sqlite3
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest

from penstock.log.files import write_ahead
from penstock.log.files.write_ahead import write_ahead_damage

HEADER, FRAME = 32, 24 + 4096


def opened(path: Path) -> sqlite3.Connection:
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA journal_mode=WAL")
    conn.execute("PRAGMA wal_autocheckpoint=0")
    conn.execute("PRAGMA cache_size=10")  # pages: larger transactions write before they commit
    return conn


def write_rows(conn: sqlite3.Connection, count: int) -> None:
    """Write a transaction of about as many pages, but for its end."""
    conn.execute("BEGIN")
    for _ in range(count):
        conn.execute("INSERT INTO t(b) VALUES (?)", (os.urandom(3000),))


def commit_rows(conn: sqlite3.Connection, count: int) -> None:
    write_rows(conn, count)
    conn.execute("COMMIT")


def after_kill(path: Path, work: Callable[[sqlite3.Connection], None]) -> bytes:
    """Return the write-ahead log as it is when the process is killed after some work."""
    with closing(opened(path)) as conn:
        work(conn)
        log, kept = path.with_name(f"{path.name}-wal"), path.with_name("kept")
        content = log.read_bytes()
        shutil.copy(path, kept)
    kept.rename(path)  # closing it has written the log back
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    log.write_bytes(content)
    assert write_ahead_damage(log) is None
    return content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give a table with five commits, all of them in the write-ahead log."""
    path = tmp_path / "some.db"

    def work(conn: sqlite3.Connection) -> None:
        conn.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB)")
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for _ in range(5):
            commit_rows(conn, 3)

    after_kill(path, work)
    return path


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def ends(content: bytes) -> list[int]:
    """Return the numbers of the frames that end a transaction and have the salt of the header."""
    count = (len(content) - HEADER) // FRAME
    heads = [struct.unpack_from(">II8s", content, HEADER + FRAME * number) for number in range(count)]
    return [number for number, (_, size, salt) in enumerate(heads) if size and salt == content[16:24]]


def rows_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as conn:
        (count,) = conn.execute("SELECT count(*) FROM t").fetchone()
        assert isinstance(count, int)
        return count


def test_a_flipped_bit_in_any_field_of_a_frame_is_found_but_in_the_last_transaction(path: Path) -> None:
    log = log_of(path)
    content = log.read_bytes()
    *_, before, last = ends(content)
    for number in range(last + 1):
        for at in (0, 3, 7, 8, 15, 16, 19, 20, 23, 24, 2000, FRAME - 1):
            if at == 7 and number in ends(content):
                continue  # it may say then that the transaction goes on
            damaged = bytearray(content)
            damaged[HEADER + FRAME * number + at] ^= 1
            log.write_bytes(damaged)
            said = write_ahead_damage(log)
            if number <= before:
                assert said == f"frame {number} is damaged, and the commits behind it would be lost", at
            else:
                assert said is None or at == 7, (number, at)


def test_what_was_rolled_back_after_it_was_written_in_part_is_no_damage(path: Path) -> None:
    """Its frames have the salt of today, and stand behind those of the shorter transaction after it."""

    def work(conn: sqlite3.Connection) -> None:
        write_rows(conn, 200)
        conn.execute("ROLLBACK")
        commit_rows(conn, 1)

    content, count = after_kill(path, work), 5 * 3 + 1
    valid, every = ends(content)[-1] + 1, (len(content) - HEADER) // FRAME
    assert every > valid + 100, "nothing was written before the transaction was rolled back"
    assert content[HEADER + FRAME * valid :][8:16] == content[16:24]
    assert rows_of(path) == count


def test_commits_that_power_cuts_have_torn_leave_frames_that_are_no_damage(path: Path) -> None:
    """Each was written but for its first frame; then a shorter one comes over it. Even their ends stand."""
    log = log_of(path)
    first = ends(log.read_bytes())[-1] + 1
    for count in (40, 10):
        content = bytearray(after_kill(path, partial(commit_rows, count=count)))
        content[HEADER + FRAME * first : HEADER + FRAME * (first + 1)] = bytes(FRAME)
        log.write_bytes(content)
        assert write_ahead_damage(log) is None
    content = bytearray(after_kill(path, partial(commit_rows, count=1)))
    valid, of_the_shorter, of_the_longer = [number for number in ends(bytes(content)) if number >= first]
    assert valid + 1 < of_the_shorter < of_the_longer - 2
    assert write_ahead_damage(log) is None
    content[HEADER + 2000] ^= 1  # and damage before all that is found all the same
    log.write_bytes(content)
    assert write_ahead_damage(log) == "frame 0 is damaged, and the commits behind it would be lost"
    content[HEADER + 2000] ^= 1
    log.write_bytes(content)
    assert rows_of(path) == 5 * 3 + 1


def test_a_log_of_any_length_is_read_in_pieces(path: Path) -> None:
    def work(conn: sqlite3.Connection) -> None:
        commit_rows(conn, 2000)
        conn.execute("PRAGMA wal_checkpoint(RESTART)")
        commit_rows(conn, 1)

    assert len(after_kill(path, work)) > 8_000_000
    tracemalloc.start()
    try:
        assert write_ahead_damage(log_of(path)) is None
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_damage_is_believed_when_it_is_found_twice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit may be written while the file is read: half of it is of before, and looks like damage."""
    log, look = log_of(path), write_ahead._damage
    whole = log.read_bytes()
    damaged = bytearray(whole)
    damaged[HEADER + 2000] ^= 1
    found = list[str | None]()
    then = [whole]  # what stands in the file after each look

    def looked(header: bytes, file: BinaryIO) -> str | None:
        found.append(look(header, file))
        log.write_bytes(then.pop(0) if then else damaged)
        return found[-1]

    monkeypatch.setattr(write_ahead, "_damage", looked)
    log.write_bytes(damaged)
    assert write_ahead_damage(log) is None
    assert [each is None for each in found] == [False, True]

    found.clear()
    log.write_bytes(damaged)
    assert write_ahead_damage(log) == "frame 0 is damaged, and the commits behind it would be lost"
    assert len(found) == 2

    found.clear()
    then.append(bytes(damaged[:20] + bytes(12) + damaged[32:]))  # begun anew meanwhile
    assert write_ahead_damage(log) is None
    assert len(found) == 3
