"""The bell listener: hears what others have done through the database, and knows when it cannot."""

import logging
from collections.abc import Iterator, Sequence
from threading import Event, Thread
from typing import Any

import psycopg
import pytest

from penstock import Outbox, Record
from penstock.backoff import PollingSettings
from penstock.database import bell_listener as bell_module
from penstock.database.bell_listener import (
    LOGGED,
    BellConnection,
    flood_seconds,
    flood_word,
    is_test,
    listen,
    notify_others,
    staged_slots,
    staged_word,
)
from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.errors import BellUnheard, InvalidUrl
from penstock.worker.worker import Worker
from tests.conformance.engines import StoreEngine
from tests.crash.waiting import wait_until
from tests.services.pooler import TransactionPooler
from tests.suites.refusal import refusal

pytestmark = pytest.mark.usefixtures("brisk")
QUICK = PollingSettings(shortest_seconds=0.001, longest_seconds=0.02)
on_postgres = pytest.mark.parametrize("kind", ["postgres"], indirect=True)


class Heard(list[str]):
    """The words that a listener has handed on, but those of tests."""

    def __call__(self, words: Sequence[str]) -> None:
        self.extend(word for word in words if not is_test(word))


class Listening:
    """A thread that waits for the bell and hands on what arrives."""

    def __init__(self, database: Database, heard: Heard) -> None:
        self.bell, self._heard, self._stopping = BellConnection(database, QUICK), heard, Event()
        self._thread = Thread(target=self._run)
        self.bell.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self.bell.stop()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._heard(self.bell.wait(60))
        self.bell.close()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def database(engine: StoreEngine) -> Iterator[Database]:
    opened = open_database(engine.url, Names())
    yield opened
    opened.close()


@pytest.fixture
def bell(database: Database, heard: Heard) -> Iterator[Listening]:
    """Give a listener that listens."""
    made = Listening(database, heard)
    wait_until(lambda: heard, "it listens")  # its first word is for what came before
    heard.clear()
    yield made
    made.stop()


@pytest.fixture
def pooler(engine: StoreEngine) -> Iterator[TransactionPooler]:
    with TransactionPooler(engine.url) as made:
        yield made


@pytest.fixture
def pooled(pooler: TransactionPooler) -> Iterator[Database]:
    """Give the database as it is reached through a pooler."""
    opened = open_database(pooler.url, Names())
    yield opened
    opened.close()


# --- words -------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [{7}, {0, 255}, {1, 2, 3}], ids=str)
def test_slots_cross_in_a_word(slots: set[int]) -> None:
    assert staged_slots(staged_word(sorted(slots))) == frozenset(slots)


@pytest.mark.parametrize(
    "word", [staged_word(None), "", LOGGED, "staged x", "staged -1", "staged 1;2", "of a later version 1"]
)
def test_a_word_that_names_no_slots_means_all(word: str) -> None:
    assert staged_slots(word) is None


def test_how_long_a_flood_lasts_crosses_in_a_word() -> None:
    assert flood_seconds(flood_word(0.3)) == 0.3
    assert staged_slots(flood_word(0.3)) is None  # so a version that does not know it looks everywhere


@pytest.mark.parametrize("word", [staged_word(None), staged_word([7]), "", LOGGED, "staged flood x"])
def test_other_words_tell_of_no_flood(word: str) -> None:
    assert flood_seconds(word) == 0.0


def test_a_flood_is_believed_for_a_second_at_most() -> None:
    assert flood_seconds("staged flood 86400000") == 1.0


# --- hearing -----------------------------------------------------------------------------------


@on_postgres
def test_a_notification_is_handed_on_with_its_word(bell: Listening, database: Database, heard: Heard) -> None:
    notify_others(database, staged_word([7]))
    wait_until(lambda: "staged 7" in heard, "it hears")


@pytest.mark.parametrize("kind", ["memory", "sqlite"], indirect=True)
def test_a_write_to_a_file_is_heard(bell: Listening, engine: StoreEngine, heard: Heard) -> None:
    bell.bell.expect_write()
    with engine.connect() as conn:
        engine.outbox.publish(conn, "t", 1)
        conn.commit()
    wait_until(lambda: "" in heard, "it hears")


@on_postgres
def test_a_session_that_was_ended_is_replaced_and_hears(
    bell: Listening, database: Database, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(database.dialect.url, autocommit=True) as conn:  # type: ignore[attr-defined]
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database() AND query LIKE 'LISTEN%'"
        )
    wait_until(lambda: "" in heard, "it listens again, and says so: something may have been missed")
    notify_others(database, LOGGED)
    wait_until(lambda: LOGGED in heard, "it hears")
    assert not [each for each in caplog.messages if "bell waits" in each]  # one lost session is no trouble


@on_postgres
def test_a_process_that_was_held_up_looks_once_more_before_it_hears_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Held:
        def wait(self, seconds: float) -> list[str]:
            return ["test 1"]

    monkeypatch.setattr(bell_module, "_TEST_SECONDS", -1.0)
    monkeypatch.setattr(bell_module, "token_hex", lambda count: "1")
    listener: Any = Held()
    assert bell_module._is_heard(database, listener)


# --- behind a pooler ---------------------------------------------------------------------------


@on_postgres
def test_behind_a_transaction_pooler_it_says_so_once_with_the_remedy(
    pooled: Database, heard: Heard, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell_module, "_TEST_SECONDS", 0.2)
    monkeypatch.setattr(bell_module, "_TEST_AGAIN_SECONDS", 0.01)
    tests = list[int]()

    def nonce(count: int) -> str:
        tests.append(count)
        return str(len(tests))

    monkeypatch.setattr(bell_module, "token_hex", nonce)
    bell = Listening(pooled, heard)
    wait_until(lambda: len(tests) > 2, "it tries again and again")
    bell.stop()
    [said] = caplog.messages
    assert "a pooler is in between" in said
    assert "PENSTOCK_BELL_LISTEN_URL" in said
    assert caplog.records[0].levelno == logging.WARNING
    assert heard == []


@on_postgres
def test_the_error_of_an_unheard_bell_hides_the_password(pooled: Database) -> None:
    address = pooled.dialect.url.replace("postgres@", "postgres:secret@")  # type: ignore[attr-defined]
    database = open_database(address, Names())
    error = refusal(BellUnheard, listen, database)
    database.close()
    assert error.pooled
    assert "secret" not in str(error)
    assert "127.0.0.1" in str(error)


@on_postgres
def test_with_a_listen_url_it_hears_behind_a_pooler(
    engine: StoreEngine, pooler: TransactionPooler, heard: Heard
) -> None:
    database = open_database(pooler.url, Names(), listen_url=engine.url)
    bell = Listening(database, heard)
    wait_until(lambda: "" in heard, "it listens")
    notify_others(database, LOGGED)
    wait_until(lambda: LOGGED in heard, "it hears")
    bell.stop()
    database.close()


@pytest.mark.parametrize("address", ["redis://h/0", "sqlite:///x.db", "nonsense"])
@on_postgres
def test_a_listen_url_of_another_kind_is_refused(engine: StoreEngine, address: str) -> None:
    assert address in str(refusal(InvalidUrl, Outbox, engine.url, listen_url=address))


@on_postgres
@pytest.mark.parametrize("given", ["code", "environment"])
def test_a_worker_behind_a_pooler_is_woken_by_a_commit(
    engine: StoreEngine, pooler: TransactionPooler, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look again only after a minute: what is delivered was heard."""
    monkeypatch.setenv("PENSTOCK_POLLING_SHORTEST_SECONDS", "60")
    monkeypatch.setenv("PENSTOCK_POLLING_LONGEST_SECONDS", "60")
    if given == "environment":
        monkeypatch.setenv("PENSTOCK_BELL_LISTEN_URL", engine.url)
    outbox = Outbox(pooler.url, listen_url=engine.url if given == "code" else None)
    assert handled(outbox, engine, monkeypatch, after=1)


@on_postgres
def test_a_worker_behind_a_pooler_without_it_still_delivers(
    engine: StoreEngine, pooler: TransactionPooler, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert handled(Outbox(pooler.url), engine, monkeypatch, after=0)


def handled(outbox: Outbox, engine: StoreEngine, monkeypatch: pytest.MonkeyPatch, *, after: int) -> bool:
    """Run a worker, let it hear so many times, publish elsewhere, and return whether that was handled."""
    got, ears = Event(), list[Sequence[str]]()

    @outbox.handler(group="g")
    def handle(record: Record) -> None:
        got.set()

    with outbox._working(None) as worker:
        assert isinstance(worker, Worker)
        mover = worker._mover
        hear = mover._hear

        def noted(words: Sequence[str]) -> None:
            hear(words)
            if words:
                ears.append(words)

        monkeypatch.setattr(mover, "_hear", noted)
        worker.start()
        try:
            wait_until(lambda: len(ears) >= after, "it listens")
            wait_until(lambda: owned(engine) == 256, "the slots are taken")
            publisher = engine.another()
            with engine.connect() as conn:
                publisher.publish(conn, "t", 1, key="k")
                conn.commit()
            return got.wait(60)
        finally:
            worker.stop()
            outbox.close()


def owned(engine: StoreEngine) -> int:
    with engine.connect() as conn:
        return int(conn.execute("SELECT count(*) FROM penstock_slot WHERE owner IS NOT NULL").fetchone()[0])
