"""Fetching: batches are bounded in bytes, too, and a file that is locked for a moment is waited for."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from threading import Thread
from typing import Any

import pytest

from penstock.errors import StoreLocked
from penstock.log.sql.naming import Names
from penstock.pipeline.fetch import open_fetcher, sqlite
from penstock.pipeline.fetch.contract import Request
from penstock.pipeline.offsets import Piece
from tests.pipeline.stores import PARTITIONS, TOPIC, LogStore

HOLDER = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute("PRAGMA locking_mode = EXCLUSIVE")
conn.execute("BEGIN EXCLUSIVE")
conn.execute("UPDATE penstock_head SET start_offset = start_offset")
conn.execute("COMMIT")
print("held", flush=True)
sys.stdin.readline()
"""


def fetched(store: LogStore) -> list[Any]:
    topic = store.outbox.log.topic(TOPIC)
    pieces = [Piece(p, 0, 10_000) for p in range(PARTITIONS)]
    with closing(open_fetcher(store.url, Names())) as fetcher:
        return list(fetcher.batches(Request(topic.id, pieces, ("key", "value"))))


def test_large_records_come_in_batches_that_are_bounded_in_bytes(
    sqlite_store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_BATCH_BYTES", 1 << 20)
    large = 16 << 10
    sent = sqlite_store.fill(300, data=b"x" * large, key="k")
    found = fetched(sqlite_store)
    assert sum(batch.num_rows for batch in found) == len(sent)
    assert max(batch.nbytes for batch in found) < (1 << 20) + 128 * (large + 200)


def test_small_records_come_in_large_batches(sqlite_store: LogStore) -> None:
    sqlite_store.fill(1_000)
    assert [batch.num_rows for batch in fetched(sqlite_store)] == [1_000]


def test_a_file_that_is_locked_for_a_moment_is_waited_for(
    sqlite_store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite_store.fill(10)
    sqlite_store.close()
    path = sqlite_store.url.removeprefix("sqlite:///")
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
