"""A store that is full, read-only or away: one clear error, nothing lost, and work goes on afterwards."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from penstock import Outbox
from penstock.database.bell_listener import listen
from penstock.database.database import Database
from penstock.database.migrations import chain, migrate
from penstock.database.naming import Names
from penstock.errors import InvalidUrl, StoreDamaged, StoreFull, StoreReadOnly, StoreUnreachable
from penstock.log.sql.log import SqlLog
from penstock.log.store import store_of
from penstock.testing import FakeClock
from tests.conformance.engines import StoreEngine
from tests.conformance.faults import SmallDisk, opened_elsewhere, read_only
from tests.suites.handling_suite import Seen, publish_values, subscribe
from tests.suites.records import some_records
from tests.suites.refusal import refusal

BIG = {"text": "x" * 50_000}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the path of a store in a folder of its own."""
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder / "shop.db"


@pytest.fixture
def store(path: Path) -> Iterator[StoreEngine]:
    """Give a store in that file."""
    opened = StoreEngine(f"sqlite:///{path}")
    yield opened
    opened.close()


@pytest.fixture
def small(path: Path) -> Iterator[tuple[SmallDisk, Database]]:
    """Give a database of ours whose disk can be full."""
    dialect = SmallDisk(str(path))
    opened = Database(dialect, Names())
    yield dialect, opened
    opened.close()


def test_a_full_disk_refuses_a_migration_and_leaves_none_of_it(small: tuple[SmallDisk, Database]) -> None:
    dialect, database = small
    dialect.pages = 3
    with pytest.raises(StoreFull, match=r"no space left for .*shop\.db; free some"):
        migrate(database)
    dialect.pages = None
    assert migrate(database) == chain(database)


def test_a_disk_without_room_for_the_files_beside_a_database_is_full_and_not_away(
    small: tuple[SmallDisk, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says so of its database file only; of the others it says that there was an error."""
    dialect, _ = small
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    assert isinstance(dialect.translate(error), StoreUnreachable)
    monkeypatch.setattr("penstock.database.sqlite.dialect.disk_usage", lambda _: SimpleNamespace(free=0))
    assert isinstance(dialect.translate(error), StoreFull)


def test_a_full_disk_refuses_an_append_and_the_log_stays_dense(small: tuple[SmallDisk, Database]) -> None:
    dialect, database = small
    migrate(database)
    log = SqlLog(database)
    log.create_topic("t", partitions=1)
    log.append("t", some_records(1))
    dialect.pages = 1
    with pytest.raises(StoreFull):
        log.append("t", some_records(50, data=b"x" * 10_000))
    dialect.pages = None
    assert log.append("t", some_records(1)) == [(0, 1)]


def test_a_full_disk_stops_a_drain_and_the_next_one_does_all(
    store: StoreEngine, small: tuple[SmallDisk, Database]
) -> None:
    """P9: what was committed stays staged until there is room."""
    dialect, database = small
    seen = Seen()
    subscribe(store.outbox, "g", seen)
    with store.outbox.transaction() as conn:
        for _ in range(20):
            store.outbox.publish(conn, "t", BIG, key="k")
    drained, store.outbox._store = store.outbox._store, store_of(database)
    dialect.pages = 1
    with pytest.raises(StoreFull) as caught:
        store.outbox.drain()
    assert caught.value.retryable
    dialect.pages = None
    assert store.outbox.drain().delivered == 20
    store.outbox._store = drained


def test_publishing_to_a_full_disk_raises_the_drivers_own_error(store: StoreEngine, path: Path) -> None:
    """The transaction is the caller's, and so is the error."""
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA max_page_count = 1")
        error = refusal(sqlite3.OperationalError, store.outbox.publish_many, conn, [{"type": "t", "value": BIG}] * 100)
        assert error.sqlite_errorcode == sqlite3.SQLITE_FULL
        conn.rollback()
    assert store.outbox.drain().sequenced == 0


def test_a_read_only_file_is_named_with_the_remedy(store: StoreEngine, path: Path) -> None:
    with store.outbox.transaction() as conn:
        store.outbox.publish(conn, "t", 1)
    store.outbox.close()
    other = Outbox(store.url)
    with read_only(path):
        for call in (other.migrate, other.drain, lambda: other.log.create_topic("t")):
            with pytest.raises((StoreReadOnly, StoreUnreachable), match=r"shop\.db"):
                call()
    assert other.drain().sequenced == 1
    other.close()


def test_a_file_that_can_be_written_again_is_written_although_it_was_opened_read_only(
    store: StoreEngine, path: Path
) -> None:
    """SQLite lets no connection write while one of the process is open that could not; all are closed."""
    assert store.outbox.drain().sequenced == 0  # and Python has imported what nobody may read
    listen(store.outbox._store.database).close()
    with store.outbox.transaction() as conn:
        store.outbox.publish(conn, "t", 1)
    store.outbox.close()
    first, second = Outbox(store.url), Outbox(store.url)
    with opened_elsewhere(path):
        with read_only(path):
            listener = listen(first._store.database)
            for each in (first, second):
                each.log.topics()
                with pytest.raises(StoreReadOnly):
                    each.drain()
                each.log.topics()
        listener.wait(0.01)
        assert second.drain().sequenced == 1
        assert first.drain().sequenced == 0
        assert listener.wait(0.01) == [""]
        listener.close()
    first.close()
    second.close()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    outbox = Outbox(f"sqlite:///{tmp_path}/no/such/shop.db")
    for call in (outbox.migrate, outbox.drain, outbox.log.topics):
        with pytest.raises(StoreUnreachable, match=r"/no/such/shop\.db cannot be reached: there is no folder"):
            call()
    (tmp_path / "no" / "such").mkdir(parents=True)
    outbox.migrate()
    outbox.close()


@pytest.mark.parametrize("content", [b"this is a letter, not a database", b"\x00" * 8_192])
def test_a_file_that_is_no_database_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "letter.txt").write_bytes(content)
    outbox = Outbox(f"sqlite:///{tmp_path}/letter.txt")
    with pytest.raises(StoreDamaged, match=r"letter\.txt is damaged or not a SQLite database \(file is not a"):
        outbox.migrate()
    assert (tmp_path / "letter.txt").read_bytes() == content
    outbox.close()


def test_a_damaged_file_is_told_and_nothing_good_is_deleted(store: StoreEngine, path: Path) -> None:
    """No record is made up for it or passed over: when the page is put back, all is there and delivered."""
    publish_values(store, 1, 2, 3)
    store.another().drain()
    seen = Seen()
    subscribe(store.outbox, "g", seen)
    page, good = log_page(path)
    store.close()
    overwrite(path, page, bytes(len(good)))
    other = Outbox(store.url, clock=store.clock)
    subscribe(other, "g", seen)
    topic = other.log.topic("events")
    number = next(number for number, end in other.log.ends(topic).items() if end)
    for call in (lambda: other.log.read("events", number), other.drain):
        with pytest.raises(StoreDamaged, match=r"shop\.db is damaged .*malformed.*restore a backup"):
            call()
    assert seen == []
    other.close()
    overwrite(path, page, good)
    last = Outbox(store.url, clock=store.clock)
    subscribe(last, "g", seen)
    last.drain()
    assert seen.values() == [1, 2, 3]
    last.close()


def log_page(path: Path) -> tuple[int, bytes]:
    """Return where the first page of the log's table lies in a file, and what it holds."""
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = conn.execute("PRAGMA page_size").fetchone()
        (root,) = conn.execute("SELECT rootpage FROM sqlite_master WHERE name = 'penstock_log'").fetchone()
    at = (root - 1) * size
    return at, path.read_bytes()[at : at + size]


def overwrite(path: Path, at: int, content: bytes) -> None:
    """Write bytes into the middle of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def test_a_server_that_is_away_is_named_without_the_password() -> None:
    outbox = Outbox("postgresql://u:secret@localhost:1/db")
    for call in (outbox.migrate, outbox.drain, outbox.log.topics):
        with pytest.raises(StoreUnreachable, match="//u@localhost:1/db") as caught:
            call()
        assert "secret" not in str(caught.value)
    outbox.close()


@pytest.mark.parametrize("url", ["postgresql://u:secret@h:port/db", "postgresql://u:secret@h/db?no_such=1"])
def test_an_address_that_the_driver_cannot_read_is_refused_without_the_password(url: str) -> None:
    with pytest.raises((InvalidUrl, StoreUnreachable)) as caught, closing(Outbox(url)) as outbox:
        outbox.migrate()
    assert "secret" not in str(caught.value)


def test_a_database_that_is_not_there_is_named(postgres_database: str) -> None:
    outbox = Outbox(postgres_database.replace("/test_", "/no_such_"))
    with pytest.raises(StoreUnreachable, match="does not exist"):
        outbox.migrate()
    outbox.close()


def test_a_server_that_only_reads_is_named(postgres_store: str) -> None:
    """As a standby does; the caller's own publish gets the driver's error."""
    engine = StoreEngine(postgres_store)
    standby = Outbox(f"{postgres_store}%20-cdefault_transaction_read_only%3Don")
    for call in (standby.drain, lambda: standby.log.create_topic("t")):
        with pytest.raises(StoreReadOnly):
            call()
    assert standby.log.topics() == []
    with psycopg.connect(standby.url) as conn, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        standby.publish(conn, "t", 1)
    standby.close()
    engine.close()


def test_connections_that_died_while_idle_are_replaced_without_a_word(postgres_store: str) -> None:
    """After a restart of the server the first call must not pay for the pool."""
    engine = StoreEngine(postgres_store)
    subscribe(engine.outbox, "g", Seen())

    def publish() -> None:
        with engine.outbox.transaction() as conn:
            engine.outbox.publish(conn, "t", 1)

    for call in (engine.outbox.log.topics, lambda: engine.outbox.log.create_topic("t"), publish, engine.outbox.drain):
        engine.outbox.log.topics()
        with psycopg.connect(postgres_store, autocommit=True) as conn:
            conn.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        call()
    engine.close()


def test_an_outbox_can_be_made_while_its_store_is_away() -> None:
    """Nothing is opened before it is needed."""
    for url in ("sqlite:////no/such/folder/x.db", "postgresql://localhost:1/db", "memory://"):
        Outbox(url, clock=FakeClock()).close()
