"""Fetching: batches are bounded in bytes, too, a locked file is waited for, and locks of others are kept."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from threading import Thread
from typing import Any

import pytest

from penstock.database.naming import Names
from penstock.errors import StoreLocked, StoreUnsupported
from penstock.pipeline.offsets import Piece
from penstock.pipeline.source import fetch
from penstock.pipeline.source.fetch import open_fetcher, sqlite
from penstock.pipeline.source.fetch.contract import Request
from penstock.pipeline.source.fetch.sqlite import ArrowDriver, PlainDriver, is_open_here
from tests.pipeline.hurting import HOLDER
from tests.pipeline.stores import PARTITIONS, LogStore

COME_AND_GO = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1])
print(conn.execute("SELECT count(*) FROM penstock_log").fetchone()[0])
conn.close()
"""
DRIVERS = pytest.mark.parametrize("driver", [ArrowDriver, PlainDriver])
OTHERS: list[dict[str, Any]] = [{}, {"data": None, "key": None}, {"data": b""}]


def path_of(store: LogStore) -> str:
    return store.url.removeprefix("sqlite:///")


def fetched(store: LogStore, columns: tuple[str, ...] = ("key", "value")) -> list[Any]:
    """Fetch all records of a store that this process has closed or has open."""
    pieces = [Piece(p, 0, 10_000) for p in range(PARTITIONS)]
    with closing(open_fetcher(store.url, Names())) as fetcher:
        return list(fetcher.batches(Request(1, pieces, columns)))


def count_elsewhere(store: LogStore) -> int:
    """Count the records in a process that comes and goes."""
    words = [sys.executable, "-c", COME_AND_GO, path_of(store)]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


@DRIVERS
def test_large_records_come_in_batches_that_are_bounded_in_bytes(
    sqlite_store: LogStore, monkeypatch: pytest.MonkeyPatch, driver: Any
) -> None:
    monkeypatch.setattr(sqlite, "_BATCH_BYTES", 1 << 20)
    monkeypatch.setattr(sqlite, "open_driver", driver)
    large = 16 << 10
    sent = sqlite_store.fill(300, data=b"x" * large, key="k")
    found = fetched(sqlite_store)
    assert sum(batch.num_rows for batch in found) == len(sent)
    assert max(batch.nbytes for batch in found) < (1 << 20) + 128 * (large + 200)


def test_small_records_come_in_large_batches(sqlite_store: LogStore) -> None:
    sqlite_store.fill(1_000)
    assert [batch.num_rows for batch in fetched(sqlite_store)] == [1_000]


@pytest.mark.parametrize("columns", [("key", "value", "headers"), ("value",), ()])
@pytest.mark.parametrize("others", OTHERS)
def test_both_libraries_of_sqlite_say_the_same(
    sqlite_store: LogStore, monkeypatch: pytest.MonkeyPatch, columns: tuple[str, ...], others: dict[str, Any]
) -> None:
    sqlite_store.fill(300, **others)
    by_own = fetched(sqlite_store, columns)
    sqlite_store.close()
    monkeypatch.setattr(sqlite, "PlainDriver", None)  # it is not asked for: the file is not open here
    assert fetched(sqlite_store, columns) == by_own
    assert by_own


def test_what_this_process_writes_after_a_fetch_is_not_lost(sqlite_store: LogStore) -> None:
    """Without the locks of its connection another process would remove the log that it goes on writing."""
    sqlite_store.fill(10)
    assert is_open_here(path_of(sqlite_store))
    assert sum(batch.num_rows for batch in fetched(sqlite_store)) == 10
    assert count_elsewhere(sqlite_store) == 10
    sqlite_store.fill(5)
    assert count_elsewhere(sqlite_store) == 15


@DRIVERS
def test_a_file_that_is_locked_for_a_moment_is_waited_for(
    sqlite_store: LogStore, monkeypatch: pytest.MonkeyPatch, driver: Any
) -> None:
    sqlite_store.fill(10)
    sqlite_store.close()
    monkeypatch.setattr(sqlite, "open_driver", driver)
    path = path_of(sqlite_store)
    found: list[int] = []
    pieces = [Piece(p, 0, 10) for p in range(PARTITIONS)]

    def fetch() -> None:
        with closing(open_fetcher(sqlite_store.url, Names())) as fetcher:
            found.extend(each.num_rows for each in fetcher.batches(Request(1, pieces, ("key",))))

    command = [sys.executable, "-c", HOLDER, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with monkeypatch.context() as patch:
            patch.setattr(sqlite, "BUSY_SECONDS", 0.01)
            with pytest.raises(StoreLocked, match="locked"):
                fetch()
        waiting = Thread(target=fetch)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive(), "it gave up"
        holder.communicate("let go\n")
    waiting.join()
    assert sum(found) == 10


def test_a_database_without_a_fetcher_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "dialect_name", lambda url: "mysql")
    with pytest.raises(StoreUnsupported):
        open_fetcher("mysql://host/shop", Names())
