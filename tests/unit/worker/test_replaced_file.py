"""A SQLite file that is replaced by another of its name while a worker runs, as by a restored backup."""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from penstock import Outbox, Record
from penstock.errors import StoreUnreachable
from penstock.testing.handling_suite import Seen, subscribe
from tests.crash.waiting import wait_until
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the path of the store."""
    return tmp_path / "shop.db"


@pytest.fixture
def outbox(path: Path) -> Iterator[Outbox]:
    """Give an outbox in that file."""
    opened = Outbox(f"sqlite:///{path}")
    opened.migrate()
    yield opened
    opened.close()


def publish(path: Path, outbox: Outbox, *values: int) -> None:
    """Publish on a connection of the caller's own."""
    with closing(sqlite3.connect(path)) as conn, conn:
        for value in values:
            outbox.publish(conn, "t", value, key="k")


def back_up(path: Path) -> Path:
    """Make a copy of the store as it is now."""
    copy = path.with_suffix(".bak")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


@pytest.mark.parametrize("tidy", [False, True], ids=["moved over", "with its companions removed"])
def test_a_worker_goes_on_in_the_file_that_has_replaced_its_own(
    outbox: Outbox, path: Path, caplog: pytest.LogCaptureFixture, tidy: bool
) -> None:
    seen = Seen()
    subscribe(outbox, "g", seen)
    with working(outbox), caplog.at_level(logging.WARNING):
        publish(path, outbox, 1)
        wait_until(lambda: len(seen) == 1, "the first is delivered")
        copy = back_up(path)
        publish(path, outbox, 2)
        wait_until(lambda: len(seen) == 2, "what the backup does not have is delivered")
        if tidy:
            for companion in ("-wal", "-shm"):
                os.remove(f"{path}{companion}")
        os.replace(copy, path)
        wait_until(lambda: "was replaced by another file" in caplog.text, "it is noticed")
        wait_until(lambda: is_published(outbox, 3), "the file can be used again")
        wait_until(lambda: 3 in seen.values(), "what is published there is delivered")
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        logged = conn.execute("SELECT value FROM penstock_log ORDER BY partition, offset").fetchall()
    assert [row[0] for row in logged] == [b"1", b"3"]


def test_what_was_handed_out_of_the_former_file_is_not_settled_in_the_new_one(
    outbox: Outbox, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its cursor would stand beyond the end, and what comes there would be passed over."""
    seen, begun, go_on = Seen(), Event(), Event()

    def handler(record: Record) -> None:
        if record.value == 2:
            begun.set()
            go_on.wait()
        seen(record)

    subscribe(outbox, "g", handler)
    with working(outbox), caplog.at_level(logging.WARNING):
        try:
            publish(path, outbox, 1)
            wait_until(lambda: len(seen) == 1, "the first is delivered")
            copy = back_up(path)
            publish(path, outbox, 2)
            wait_until(begun.is_set, "the second is with its handler")
            os.replace(copy, path)
            wait_until(lambda: "was replaced by another file" in caplog.text, "it is noticed")
        finally:
            go_on.set()
        wait_until(lambda: is_published(outbox, 3), "the file can be used again")
        wait_until(lambda: 3 in seen.values(), "what is published there is delivered")


def is_published(outbox: Outbox, value: int) -> bool:
    """Publish; return whether the file could be opened."""
    try:
        with outbox.transaction() as conn:
            outbox.publish(conn, "t", value, key="k")
    except StoreUnreachable:
        return False
    return True
