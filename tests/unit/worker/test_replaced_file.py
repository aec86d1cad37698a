"""A SQLite file that is replaced by another of its name while a worker runs, as by a restored backup."""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock import Outbox
from penstock.errors import StoreReplaced, StoreUnreachable
from tests.crash.waiting import wait_until
from tests.suites.handling_suite import Seen, subscribe
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


def test_a_worker_whose_file_was_replaced_touches_neither_until_it_is_started_again(
    outbox: Outbox, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    subscribe(outbox, "g", seen)
    with working(outbox), caplog.at_level(logging.WARNING):
        publish(path, outbox, 1)
        wait_until(lambda: len(seen) == 1, "the first is delivered")
        copy = back_up(path)
        os.rename(path, path.with_suffix(".former"))
        os.replace(copy, path)
        wait_until(lambda: "was replaced by another file" in caplog.text, "it is noticed")
        with pytest.raises(StoreReplaced, match=r"remove .*-wal"), outbox.transaction():
            pass
    outbox.close()
    for companion in ("-wal", "-shm"):
        Path(f"{path}{companion}").unlink(missing_ok=True)
    with closing(Outbox(f"sqlite:///{path}")) as again:
        assert [topic.name for topic in again.log.topics()] == ["events"]
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_commit_that_another_program_made_in_the_new_file_stays(outbox: Outbox, path: Path) -> None:
    """Its write-ahead log has the name of the former one."""
    with outbox.transaction() as conn:
        conn.execute("CREATE TABLE orders (id INTEGER)")
    copy = back_up(path)
    for companion in ("-wal", "-shm"):
        Path(f"{path}{companion}").unlink(missing_ok=True)
    os.replace(copy, path)
    with closing(sqlite3.connect(path)) as shop:
        shop.execute("PRAGMA journal_mode=WAL")
        with shop:
            shop.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(StoreReplaced):
            outbox.log.topics()
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT count(*) FROM orders").fetchone() == (1,)


def test_a_file_that_was_moved_away_is_not_written_until_it_is_back(outbox: Outbox, path: Path) -> None:
    with outbox.transaction() as conn:
        conn.execute("CREATE TABLE orders (id INTEGER)")
    away = path.with_suffix(".away")
    os.rename(path, away)
    with pytest.raises(StoreUnreachable, match="moved or removed"), outbox.transaction() as conn:
        conn.execute("INSERT INTO orders VALUES (1)")
    assert not path.exists()
    os.rename(away, path)
    with outbox.transaction() as conn:
        conn.execute("INSERT INTO orders VALUES (2)")
    with closing(sqlite3.connect(path)) as shop:
        assert shop.execute("SELECT id FROM orders").fetchall() == [(2,)]


def test_a_file_that_was_removed_is_not_written_beside_the_one_made_anew(outbox: Outbox, path: Path) -> None:
    with outbox.transaction():
        pass
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        each.unlink(missing_ok=True)
    with closing(Outbox(f"sqlite:///{path}")) as anew:
        anew.migrate()
        assert anew.log.topics() == []
        with pytest.raises(StoreReplaced):
            outbox.log.create_topic("lost")
