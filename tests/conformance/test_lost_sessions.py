"""A handler with `transaction=True` that loses its session: an attempt like any other, never a loop."""

import sqlite3
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from penstock import Fixed, Record
from penstock.clock import SYSTEM
from penstock.database.postgres.dialect import PostgresDialect
from penstock.errors import StoreUnreachable
from penstock.operate.doctor import PartState
from penstock.operate.store_doctor import examine_time_limits
from penstock.operate.why import why
from tests.conformance.engines import StoreEngine, driver_of
from tests.conformance.test_transactional import Books, dead
from tests.crash.waiting import wait_until
from tests.suites.outbox_suite import in_one_partition
from tests.working import working

pytestmark = pytest.mark.usefixtures("brisk")
IDLE = "idle_in_transaction_session_timeout"
Body = Callable[[Record], Any]


def limited(engine: StoreEngine, setting: str) -> StoreEngine:
    """Return the same store, reached by sessions with a setting of their own."""
    return StoreEngine(f"{engine.url}%20-c{setting.replace('=', '%3D')}")


@pytest.fixture
def hurried(postgres_engine: StoreEngine) -> Iterator[Books]:
    """Give books in one partition, on a server that ends a session which is idle in its transaction."""
    in_one_partition(postgres_engine)
    engine = limited(postgres_engine, f"{IDLE}=200")
    yield Books(engine)
    engine.close()


def wait_for_the_end(record: Record, engine: StoreEngine) -> None:
    """Wait, as for an answer from elsewhere, until the server has ended the session of a handler."""
    pid = driver_of(record).info.backend_pid
    with engine.connect() as other:
        other.autocommit = True  # it is not given to the next borrower then
        query = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
        wait_until(lambda: not other.execute(query, (pid,)).fetchone(), "the server has ended the session")


def terminate(record: Record, engine: StoreEngine) -> None:
    """End the session of a handler, as an administrator does, and notice it."""
    with engine.connect() as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (driver_of(record).info.backend_pid,))
        other.commit()


def on_one(engine: StoreEngine, harm: Callable[[Record, StoreEngine], object], times: int = 99) -> Body:
    """Return what does harm when it handles 1, so many times, and nothing otherwise."""
    left = [times]

    def body(record: Record) -> None:
        if record.value == 1 and left[0]:
            left[0] -= 1
            harm(record, engine)

    return body


def test_a_session_that_the_server_ended_is_an_attempt_and_names_its_setting(hurried: Books) -> None:
    engine = hurried.engine
    calls = hurried.handle(on_one(engine, wait_for_the_end))
    hurried.publish(1, 2, key="slow")
    hurried.publish(5, 6, key="other")
    counts = engine.outbox.drain()
    assert (counts.delivered, counts.retried, hurried.read()) == (2, 1, [5, 6])
    hurried.later()
    assert hurried.later().dead == 1
    attempts = [(call.attempt, call.redelivered) for call in calls if call.value == 1]
    assert attempts in (
        [(1, False), (1, True), (2, True), (3, True)],  # with others, then alone
        [(1, False), (2, True), (3, True)],
    )
    assert hurried.read() == [5, 6]
    (reason,) = dead(hurried)
    assert f"the server ended the session while the handler waited: {IDLE} is 0.2 s; raise it" in reason
    assert "transaction=False" in reason
    (told,) = why(engine.outbox, "slow", clock=engine.clock)
    assert f"{IDLE} is 0.2 s; raise it for this role, or do the waiting outside record.tx" in told.sentence


def test_in_a_worker_the_rest_of_the_partition_flows(hurried: Books) -> None:
    outbox = hurried.engine.another(clock=SYSTEM)
    calls: list[int] = []

    @outbox.handler(group="books", transaction=True, retry=Fixed(timedelta(milliseconds=10), max_retries=2))
    def keep(record: Record) -> None:
        calls.append(record.value)
        hurried.keep(record)
        if record.value == 1:
            wait_for_the_end(record, hurried.engine)

    hurried.publish(1, 2, key="slow")
    hurried.publish(5, key="other")
    with working(outbox):
        wait_until(lambda: hurried.read() == [5], "the other key is handled")
        wait_until(lambda: dead(hurried), "the slow one is given up")
        hurried.publish(6, key="other")
        wait_until(lambda: hurried.read() == [5, 6], "and the partition goes on")
    assert calls.count(1) <= 4
    assert 2 not in calls


@pytest.mark.parametrize("times", [1, 2])
def test_a_session_that_is_ended_now_and_then_delays_its_record(postgres_engine: StoreEngine, times: int) -> None:
    books = Books(postgres_engine)
    calls = books.handle(on_one(postgres_engine, terminate, times))
    books.publish(1, 2)
    postgres_engine.outbox.drain()
    books.later()
    assert books.read() == [1, 2]
    assert all(call.redelivered for call in calls if call.value == 1 and call is not calls[0])


def test_who_ended_it_is_said(postgres_engine: StoreEngine) -> None:
    books = Books(postgres_engine)

    def end_and_go_on(record: Record, engine: StoreEngine) -> None:
        terminate(record, engine)
        books.keep(record)

    books.handle(on_one(postgres_engine, end_and_go_on), retry=Fixed(max_retries=0))
    books.publish(1)
    books.publish(5, key="other")
    assert postgres_engine.outbox.drain().dead == 1
    assert "ended the session (pg_terminate_backend)" in dead(books)[0]
    assert books.read() == [5]


def test_a_statement_that_takes_too_long_names_its_setting(postgres_engine: StoreEngine) -> None:
    engine = limited(postgres_engine, "statement_timeout=200")
    books = Books(engine)

    def dawdle(record: Record, engine: StoreEngine) -> None:
        record.tx.execute("SELECT pg_sleep(60)")

    books.handle(on_one(engine, dawdle), retry=Fixed(max_retries=0))
    books.publish(1)
    books.publish(5, key="other")
    assert engine.outbox.drain().dead == 1
    assert "statement_timeout is 0.2 s; raise it for this role, or make the statement quicker" in dead(books)[0]
    assert books.read() == [5]
    engine.close()


def close_behind_our_back(record: Record, engine: StoreEngine) -> None:
    (psycopg.Connection if engine.is_postgres else sqlite3.Connection).close(driver_of(record))


def test_a_handler_that_closes_its_connection_is_found_and_not_repeated(engine: StoreEngine) -> None:
    books = Books(engine)
    calls = books.handle(on_one(engine, close_behind_our_back))
    books.publish(1)
    books.publish(5, key="other")
    counts = engine.outbox.drain()
    assert (counts.dead, counts.retried) == (1, 0)
    assert len([call for call in calls if call.value == 1]) <= 2  # with others, then alone
    assert "ended the transaction" in dead(books)[0]
    assert books.read() == [5]


def test_a_handler_that_cuts_its_connection_has_failed(postgres_engine: StoreEngine) -> None:
    books = Books(postgres_engine)
    books.handle(on_one(postgres_engine, lambda record, _: driver_of(record).pgconn.finish()))
    books.publish(1)
    books.publish(5, key="other")
    counts = postgres_engine.outbox.drain()
    assert (counts.retried, books.read()) == (1, [5])


def test_a_rule_that_is_checked_at_the_commit_makes_an_attempt(postgres_engine: StoreEngine) -> None:
    books = Books(postgres_engine)
    with postgres_engine.connect() as conn:
        conn.execute("CREATE TABLE title (n integer PRIMARY KEY)")
        conn.execute("CREATE TABLE bound (n integer REFERENCES title DEFERRABLE INITIALLY DEFERRED)")
        conn.commit()

    def dangle(record: Record, engine: StoreEngine) -> None:
        record.tx.execute("INSERT INTO bound VALUES (1)")

    calls = books.handle(on_one(postgres_engine, dangle), retry=Fixed(max_retries=0))
    books.publish(1)
    books.publish(5, key="other")
    counts = postgres_engine.outbox.drain()
    assert (counts.dead, books.read()) == (1, [5])
    assert len([call for call in calls if call.value == 1]) <= 2
    assert "ForeignKeyViolation" in dead(books)[0]


@pytest.mark.parametrize("local", ["", "LOCAL "], ids=["session", "transaction"])
def test_a_handler_may_stand_in_another_schema_or_role(postgres_engine: StoreEngine, local: str) -> None:
    """As programs with a schema for each tenant do: our own statements find our tables all the same."""
    books = Books(postgres_engine)

    def move(record: Record, engine: StoreEngine) -> None:
        record.tx.execute(f"SET {local}search_path TO pg_catalog")
        record.tx.execute(f"SET {local}ROLE pg_monitor")

    books.handle(on_one(postgres_engine, move))
    books.publish(1)
    assert postgres_engine.outbox.drain().delivered == 1
    books.publish(2)
    assert postgres_engine.outbox.drain().delivered == 1
    assert books.read() == [1, 2]


def test_a_store_that_is_away_counts_no_attempt(postgres_engine: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    books = Books(postgres_engine)
    calls = books.handle(on_one(postgres_engine, terminate, 1), retry=Fixed(max_retries=0))
    books.publish(1)
    with monkeypatch.context() as patch:
        patch.setattr(PostgresDialect, "still_answers", lambda *_: False)
        with pytest.raises(StoreUnreachable):
            postgres_engine.outbox.drain()
    assert postgres_engine.outbox.drain().delivered == 1
    assert [(call.attempt, call.redelivered) for call in calls] == [(1, False), (1, True)]


def test_a_server_that_was_started_since_counts_no_attempt(postgres_engine: StoreEngine) -> None:
    books = Books(postgres_engine)

    def restart(record: Record, engine: StoreEngine) -> None:
        driver_of(record).server_started -= timedelta(seconds=1)  # as if the server of now were another
        terminate(record, engine)

    books.handle(on_one(postgres_engine, restart, 1), retry=Fixed(max_retries=0))
    books.publish(1)
    with pytest.raises(StoreUnreachable):
        postgres_engine.outbox.drain()
    assert postgres_engine.outbox.drain().delivered == 1


def test_a_fallback_that_always_loses_its_session_has_failed(postgres_engine: StoreEngine) -> None:
    books, asked = Books(postgres_engine), list[int]()

    def fail(record: Record, engine: StoreEngine) -> None:
        raise ValueError("no")

    def lose(record: Record) -> None:
        asked.append(record.value)
        terminate(record, postgres_engine)

    books.handle(on_one(postgres_engine, fail), fallback=lose, retry=Fixed(max_retries=0))
    books.publish(1)
    assert postgres_engine.outbox.drain().dead == 1
    assert dead(books) == ["ValueError: no"]
    assert len(asked) > 1


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        (f"{IDLE}=1s", [f"{IDLE} is 1 s"]),
        ("statement_timeout=59999", ["statement_timeout is 59.999 s"]),
        ("statement_timeout=60000", []),
        (f"{IDLE}=0", []),
    ],
)
def test_the_doctor_names_limits_that_are_short(postgres_engine: StoreEngine, setting: str, found: list[str]) -> None:
    engine = limited(postgres_engine, setting)
    findings = examine_time_limits(engine.outbox)
    assert [each.found for each in findings] == found
    assert all(each.state is PartState.LOW and "ALTER ROLE" in each.remedy for each in findings)
    engine.close()


def test_a_file_has_no_such_limits(sqlite_engine: StoreEngine) -> None:
    assert examine_time_limits(sqlite_engine.outbox) == []
