"""Threads of one process write to a SQLite file in the order in which they came."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from penstock.database.sqlite.dialect import SqliteDialect
from penstock.database.sqlite.writer_queue import WriterQueue
from tests.crash.waiting import wait_until


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
