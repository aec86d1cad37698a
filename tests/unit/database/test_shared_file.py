"""What the connections of a process know of the SQLite file that they share."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from penstock.database.sqlite import shared_file
from penstock.database.sqlite.dialect import SqliteDialect, SqliteListener
from penstock.database.sqlite.shared_file import FileConnection, SharedFile, Sign, WriterQueue, WriteWatch, make_private
from penstock.errors import StoreUnreachable
from penstock.log.store import open_store
from tests.crash.waiting import wait_until


def test_a_file_that_another_thread_makes_meanwhile_is_not_taken_for_one_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several threads may open a new store at once: what was seen before it was made says nothing."""
    path = tmp_path / "shop.db"
    file, look = SharedFile(str(path)), shared_file._number

    def made_after_the_look(where: str) -> shared_file.FileNumber | None:
        found = look(where)
        if found is None:
            monkeypatch.undo()
            before = file.before_opening()
            path.touch()
            file.opened(FileConnection(":memory:"), before)
        return found

    monkeypatch.setattr(shared_file, "_number", made_after_the_look)
    assert file.before_opening().number is None
    assert not file.is_lost()
    path.unlink()
    with pytest.raises(StoreUnreachable, match="moved or removed"):
        file.before_opening()


class Writers:
    """Threads that each write once, begun one after the other while another connection writes."""

    def __init__(self, dialect: SqliteDialect) -> None:
        self.dialect, self.order = dialect, list[int]()
        self._threads = list[Thread]()

    def begin(self, number: int) -> None:
        queue = self.dialect._file.writers
        thread = Thread(target=self._write, args=(number,))
        waiting = len(queue._waiting)
        thread.start()
        self._threads.append(thread)
        wait_until(lambda: len(queue._waiting) > waiting, "the thread waits for its turn")

    def end(self) -> None:
        for thread in self._threads:
            thread.join()

    def _write(self, number: int) -> None:
        conn = self.dialect.connect()
        self.dialect.begin(conn, bounded=True)
        self.order.append(number)
        self.dialect.commit(conn)
        self.dialect.close(conn)


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[Writers]:
    """Give writers of one file."""
    made = Writers(SqliteDialect(str(tmp_path / "shop.db")))
    yield made
    made.end()


def test_those_that_wait_write_in_the_order_in_which_they_came(writers: Writers) -> None:
    conn = writers.dialect.connect()
    writers.dialect.begin(conn, bounded=True)
    for number in range(5):
        writers.begin(number)
    writers.dialect.commit(conn)
    writers.end()
    assert writers.order == [0, 1, 2, 3, 4]
    writers.dialect.close(conn)


@pytest.mark.parametrize("how", ["rollback", "close", "sever"])
def test_a_transaction_that_ends_otherwise_gives_up_its_turn(writers: Writers, how: str) -> None:
    conn = writers.dialect.connect()
    writers.dialect.begin(conn, bounded=True)
    writers.begin(1)
    getattr(writers.dialect, how)(conn)
    writers.end()
    assert writers.order == [1]
    writers.dialect.close(conn)


def test_a_thread_does_not_wait_for_itself_nor_longer_than_it_is_told() -> None:
    queue, first, second, third = WriterQueue(), object(), object(), object()
    queue.join(first, 30)
    queue.join(second, 30)  # SQLite tells it what is wrong
    late = Thread(target=lambda: queue.join(third, 0.01))
    late.start()
    late.join()
    queue.leave(third)
    queue.leave(second)
    assert queue._holder is not None
    assert queue._holder[0] is first
    queue.leave(first)
    assert queue._holder is None
    assert not queue._waiting


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
        monkeypatch.setattr(shared_file, "_watch", lambda path: None)
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
        monkeypatch.setattr(shared_file, "_watch", lambda path: None)
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


OPENED = """
import json, os, sys
from pathlib import Path
from penstock.database.migrations import migrate
from penstock.database.sqlite.dialect import SqliteDialect
from penstock.log.store import open_store
folder = Path(sys.argv[2])
store = open_store(sys.argv[1])
migrate(store.database)
with store.database.looking():
    found = {str(each.relative_to(folder)): each.stat().st_mode & 0o777 for each in folder.rglob("*")}
print(json.dumps(found))
"""


def rights(url: str, folder: Path, umask: int) -> dict[str, int]:
    """Return the rights of what is in a folder while a store in it is open in a process of its own."""
    command = [sys.executable, "-c", OPENED, url, str(folder)]
    found: dict[str, int] = json.loads(subprocess.check_output(command, umask=umask, text=True))
    return found


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777], ids=oct)
def test_the_file_and_those_beside_it_are_their_owners_whatever_the_umask_is(tmp_path: Path, umask: int) -> None:
    found = rights(f"sqlite:///{tmp_path}/shop.db", tmp_path, umask)
    assert {"shop.db", "shop.db-wal", "shop.db-shm"} == found.keys()
    assert set(found.values()) == {0o600}


def test_a_directory_of_a_log_is_its_owners_with_all_that_is_in_it(tmp_path: Path) -> None:
    found = rights(f"file:///{tmp_path}/log", tmp_path, 0)
    assert {name: mode for name, mode in found.items() if (tmp_path / name).is_dir()} == {"log": 0o700}
    files = {mode for name, mode in found.items() if not (tmp_path / name).is_dir()}
    assert len(found) > 2
    assert files == {0o600}


@pytest.mark.parametrize("mode", [0o644, 0o660], ids=oct)
def test_a_file_that_was_there_keeps_its_rights_and_gives_them_to_those_beside_it(tmp_path: Path, mode: int) -> None:
    sqlite3.connect(tmp_path / "shop.db").close()
    os.chmod(tmp_path / "shop.db", mode)
    found = rights(f"sqlite:///{tmp_path}/shop.db", tmp_path, 0o022)
    assert set(found.values()) == {mode}


def test_the_file_behind_a_link_is_made_for_its_owner_too(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    store = open_store(f"sqlite:///{tmp_path}/link.db")
    with store.database.looking():
        assert stat.S_IMODE((tmp_path / "real.db").stat().st_mode) == 0o600
    store.close()
    assert (tmp_path / "link.db").is_symlink()


def test_a_reader_of_another_user_is_told_whose_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shop.db"
    path.touch()
    refused = sqlite3.OperationalError("unable to open database file")
    refused.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for another user; root may read everything
    said = SqliteDialect(str(path)).translate(refused)
    assert "it belongs to another user" in str(said)
    assert "chmod g+rw" in str(said)


def test_it_is_made_private_where_the_file_system_has_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    before = os.umask(0)
    try:
        make_private(str(tmp_path / "shop.db"))
    finally:
        os.umask(before)
    assert [(each.name, each.stat().st_mode & 0o777) for each in tmp_path.iterdir()] == [("shop.db", 0o600)]
