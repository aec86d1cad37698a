"""The sequencing service: moves what is staged by itself, and outlives a store that is away."""

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock import Outbox
from penstock.backoff import PollingSettings
from penstock.clock import SYSTEM
from penstock.database.contract import Result
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.database.sqlite.dialect import SqliteConnection, SqliteDialect
from penstock.log.store import store_of
from penstock.worker.mover import Mover
from tests.conformance.engines import StoreEngine
from tests.crash.clocks import SleepwalkingClock
from tests.crash.waiting import wait_until

QUICK = PollingSettings(shortest_seconds=0.001, longest_seconds=0.02)
SELDOM = PollingSettings(shortest_seconds=600.0, longest_seconds=600.0)


class Leaving(SqliteDialect):
    """A file that can be taken away: new connections fail, and so do the old ones."""

    away, tries = False, 0

    def connect(self) -> SqliteConnection:
        self.tries += 1
        if self.away:
            sqlite3.connect("/nowhere/at/all/x.db")  # raises, as SQLite does
        return super().connect()

    def begin(self, conn: SqliteConnection, **options: Any) -> list[Result]:
        if self.away:
            self.connect()
        return super().begin(conn, **options)


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    """Give a database of the service's own."""
    opened = open_database(engine.url, Names())
    yield opened
    opened.close()


def staged(engine: StoreEngine) -> int:
    """Return how many events wait."""
    with engine.connect() as conn:
        return int(conn.execute("SELECT count(*) FROM penstock_staged").fetchone()[0])


def publish(engine: StoreEngine, *values: Any) -> None:
    """Publish some values under one key."""
    with engine.connect() as conn:
        for value in values:
            engine.outbox.publish(conn, "t", value, key="order-1")
        conn.commit()


def values(outbox: Outbox) -> list[Any]:
    """Return what is in the log."""
    return [record.value for record in outbox.log.read("events", 33)]


def test_a_running_service_moves_what_is_staged(engine: StoreEngine, database: Database) -> None:
    service = Mover(store_of(database), SYSTEM, polling=QUICK)
    publish(engine, 1)
    service.start()
    wait_until(lambda: staged(engine) == 0, "the first is moved")
    publish(engine, 2, 3)
    wait_until(lambda: staged(engine) == 0, "the others are moved")
    service.stop()
    assert values(engine.outbox) == [1, 2, 3]


def test_it_looks_after_each_wait_also_if_its_clock_stands_still(engine: StoreEngine, database: Database) -> None:
    service = Mover(store_of(database), SleepwalkingClock(), polling=QUICK)
    service.start()
    for value in (1, 2):
        publish(engine, value)
        wait_until(lambda: staged(engine) == 0, "it is moved", seconds=30)
    service.stop()
    assert values(engine.outbox) == [1, 2]


def test_a_ring_makes_it_look_at_once(engine: StoreEngine, database: Database) -> None:
    service = Mover(store_of(database), SYSTEM, polling=SELDOM)
    service.start()
    publish(engine, 1)
    service.ring()
    wait_until(lambda: staged(engine) == 0, "what was staged is moved", seconds=30)
    service.stop()


def test_start_and_stop_may_be_called_twice_and_again(engine: StoreEngine, database: Database) -> None:
    service = Mover(store_of(database), SYSTEM, polling=QUICK)
    service.stop()
    for value in (1, 2):
        service.start()
        service.start()
        publish(engine, value)
        wait_until(lambda: staged(engine) == 0, "it is moved")
        service.stop()
        service.stop()
    assert values(engine.outbox) == [1, 2]


def test_a_service_that_stops_gives_its_slots_back(engine: StoreEngine, database: Database) -> None:
    service = Mover(store_of(database), SYSTEM, polling=QUICK)
    publish(engine, 1)
    service.start()
    wait_until(lambda: staged(engine) == 0, "it owns the slots")
    service.stop()
    publish(engine, 2)
    assert engine.outbox.drain().sequenced == 1


@pytest.fixture
def leaving(tmp_path: Path) -> Iterator[tuple[Leaving, Database]]:
    """Give a store that can be taken away, and its database."""
    dialect = Leaving(str(tmp_path / "shop.db"))
    opened = Database(dialect, Names())
    yield dialect, opened
    opened.close()


def test_a_store_that_goes_away_is_said_once_and_waited_for(
    tmp_path: Path, leaving: tuple[Leaving, Database], caplog: pytest.LogCaptureFixture
) -> None:
    """P9: it resumes by itself, and the log says so once per change of state."""
    dialect, database = leaving
    engine = StoreEngine(f"sqlite:///{tmp_path / 'shop.db'}")
    service = Mover(store_of(database), SYSTEM, polling=QUICK)
    with caplog.at_level(logging.WARNING, "penstock.sequencing"):
        service.start()
        publish(engine, 1)
        wait_until(lambda: staged(engine) == 0, "the first is moved")
        dialect.away, dialect.tries = True, 0
        publish(engine, 2)
        wait_until(lambda: dialect.tries >= 5, "it has tried several times")
        assert staged(engine) == 1
        dialect.away = False
        wait_until(lambda: staged(engine) == 0, "it has gone on")
        service.stop()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "cannot be reached" in said[0]
    assert said[1] == "sequencing has recovered"
    assert values(engine.outbox) == [1, 2]
    engine.close()


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_connections_that_the_server_ends_are_replaced(engine: StoreEngine, database: Database) -> None:
    service = Mover(store_of(database), SYSTEM, polling=QUICK)
    service.start()
    for value in range(5):
        publish(engine, value)
        wait_until(lambda: staged(engine) == 0, "it is moved")
        with psycopg.connect(engine.url, autocommit=True) as conn:
            conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'penstock'"
            )
    publish(engine, 5)
    wait_until(lambda: staged(engine) == 0, "the last is moved")
    service.stop()
    assert values(engine.another()) == [0, 1, 2, 3, 4, 5]


def test_missing_tables_are_waited_for_too(
    tmp_path: Path, leaving: tuple[Leaving, Database], caplog: pytest.LogCaptureFixture
) -> None:
    """A worker may start before the migration; it says what is missing, once."""
    _, database = leaving
    service = Mover(store_of(database), SYSTEM, polling=QUICK)
    with caplog.at_level(logging.WARNING, "penstock.sequencing"):
        service.start()
        wait_until(lambda: caplog.records, "it has said what is missing")
        engine = StoreEngine(f"sqlite:///{tmp_path / 'shop.db'}")
        publish(engine, 1)
        wait_until(lambda: staged(engine) == 0, "it has gone on")
        service.stop()
    assert "outbox.migrate()" in caplog.records[0].getMessage()
    assert caplog.records[-1].getMessage() == "sequencing has recovered"
    engine.close()
