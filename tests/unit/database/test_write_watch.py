"""Who listens to a SQLite file hears of every write: by a sign of the system, or by looking."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.database.sqlite import write_watch
from penstock.database.sqlite.dialect import SqliteDialect, SqliteListener
from penstock.database.sqlite.write_watch import Sign, WriteWatch

ENOUGH = 30.0
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="signs are Linux's")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "a file"
    made.write_bytes(b"0")
    return made


@pytest.fixture(params=[pytest.param("signs", marks=on_linux), "looks"])
def watch(request: pytest.FixtureRequest, file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteWatch]:
    if request.param == "looks":
        monkeypatch.setattr(write_watch, "_watch", lambda path: None)
    with closing(WriteWatch(str(file))) as made:
        assert made.sees == (request.param == "signs")
        yield made


def test_a_call_ends_the_wait_once(watch: WriteWatch) -> None:
    assert watch.wait(0) is Sign.NONE
    watch.wake()
    watch.wake()
    assert watch.wait(ENOUGH) is Sign.CALLED
    assert watch.wait(0) is Sign.NONE


def test_a_call_ends_a_rest_and_the_wait_after_it(watch: WriteWatch) -> None:
    watch.wake()
    watch.rest(ENOUGH)
    assert watch.wait(ENOUGH) is Sign.CALLED


def test_a_call_from_another_thread_is_heard(watch: WriteWatch) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(watch.wait, ENOUGH)
        watch.wake()
        assert waiting.result() is Sign.CALLED


def test_many_calls_are_one(watch: WriteWatch) -> None:
    for _ in range(100_000):  # more than a pipe takes
        watch.wake()
    while watch.wait(0) is not Sign.NONE:
        pass
    watch.wake()
    assert watch.wait(ENOUGH) is Sign.CALLED


def test_after_its_end_a_call_touches_no_file(watch: WriteWatch, file: Path) -> None:
    """The number of a file that is closed may be another one's by then."""
    watch.close()
    with open(file, "wb") as one, open(file.with_name("b"), "wb") as two, open(file.with_name("c"), "wb"):
        watch.wake()
        assert os.fstat(one.fileno()).st_size == os.fstat(two.fileno()).st_size == 0
    assert watch.wait(0) is Sign.CALLED


@on_linux
def test_a_write_is_a_sign_and_many_are_one(file: Path) -> None:
    with closing(WriteWatch(str(file))) as watch:
        for _ in range(1000):
            file.write_bytes(b"1")
        watch.rest(0)
        assert watch.wait(ENOUGH) is Sign.WRITTEN
        while watch.wait(0) is not Sign.NONE:
            pass
        file.write_bytes(b"2")
        assert watch.wait(ENOUGH) is Sign.WRITTEN


def test_of_a_file_that_is_not_there_nothing_is_seen(tmp_path: Path) -> None:
    with closing(WriteWatch(str(tmp_path / "none"))) as watch:
        assert not watch.sees


# -- the listener


@pytest.fixture
def dialect(tmp_path: Path) -> SqliteDialect:
    return SqliteDialect(str(tmp_path / "store.db"))


@pytest.fixture
def writer(dialect: SqliteDialect) -> Iterator[sqlite3.Connection]:
    with closing(dialect.connect()) as conn:
        conn.execute("CREATE TABLE t (a)")
        yield conn


class Deaf(WriteWatch):
    """One that is told of nothing, though it should be: the sign of another write was this one's, too."""

    def wait(self, seconds: float) -> Sign:
        super().wait(min(seconds, 0.01))
        return Sign.NONE


@pytest.mark.parametrize("kind", [pytest.param("signs", marks=on_linux), "looks", "deaf"])
def test_every_write_is_heard(
    kind: str, dialect: SqliteDialect, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "looks":
        monkeypatch.setattr(write_watch, "_watch", lambda path: None)
    if kind == "deaf":
        monkeypatch.setattr("penstock.database.sqlite.dialect.WriteWatch", Deaf)
    with closing(SqliteListener(dialect)) as listener, ThreadPoolExecutor(1) as pool:
        assert listener.wait(0.01) == []
        for number in range(5):
            waiting = pool.submit(listener.wait, ENOUGH)
            writer.execute("INSERT INTO t VALUES (?)", (number,))
            assert waiting.result() == [""]
        writer.execute("INSERT INTO t VALUES (9)")  # while nobody listens
        assert listener.wait(ENOUGH) == [""]
        assert listener.wait(0.01) == []


@on_linux
def test_where_there_are_signs_nobody_looks_while_nothing_comes(
    dialect: SqliteDialect, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, read = list[int](), SqliteListener._read

    def counted(listener: SqliteListener) -> int:
        looks.append(1)
        return read(listener)

    monkeypatch.setattr(SqliteListener, "_read", counted)
    with closing(SqliteListener(dialect)) as listener:
        assert listener._writes.sees
        while listener._pause < 0.1:
            listener.wait(0.1)
        looks.clear()
        listener.wait(0.1)
    assert len(looks) <= 2


class Enough(Exception):
    """The listener has looked often enough."""


class Incessant(WriteWatch):
    """One that is told of a write all the time, as by a large transaction, and whose waits take no time."""

    rests: ClassVar[list[float]] = []

    def wait(self, seconds: float) -> Sign:
        return Sign.WRITTEN

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        if len(self.rests) == 100:
            raise Enough


def test_a_write_that_goes_on_is_not_looked_at_all_the_time(
    dialect: SqliteDialect, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.database.sqlite.dialect.WriteWatch", Incessant)
    Incessant.rests.clear()
    with closing(SqliteListener(dialect)) as listener, pytest.raises(Enough):
        listener.wait(ENOUGH)
    assert min(Incessant.rests) >= 0.0002
    assert sum(Incessant.rests) / len(Incessant.rests) > 0.001
