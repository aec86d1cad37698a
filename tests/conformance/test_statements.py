"""How many statements a thing costs: what is done for each event must not grow with their number."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy

from penstock.database.contract import Params, Result, Row
from penstock.database.postgres.dialect import PostgresDialect
from penstock.database.sqlite.dialect import SqliteDialect
from tests.conformance.callers import sqlalchemy_engine
from tests.conformance.engines import StoreEngine
from tests.suites.records import a_record, some_records

Statements = list[str]


class NotingCursor(psycopg.Cursor[Any]):
    """A cursor of the caller's that notes what is run on it."""

    noted: Statements

    def execute(self, query: Any, *args: Any, **options: Any) -> Any:
        self.noted.append(str(query))
        return super().execute(query, *args, **options)


@contextmanager
def noting(url: str, noted: Statements) -> Iterator[Any]:
    """Give a connection of the caller's own that notes every statement but those of transactions."""
    if url.startswith("postgresql"):
        factory = type("Noting", (NotingCursor,), {"noted": noted})
        with psycopg.connect(url, cursor_factory=factory) as theirs:
            yield theirs
        return
    conn = sqlite3.connect(url.removeprefix("sqlite:///"))
    conn.execute("BEGIN")  # the driver would say it before our first statement
    conn.set_trace_callback(noted.append)
    yield conn
    conn.set_trace_callback(None)
    conn.commit()
    conn.close()


def but_the_question(noted: Statements) -> Statements:
    """Return what was run but for what a new connection is asked once: how it commits."""
    return [each for each in noted if "synchronous" not in each]


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Statements]:
    """Give a way to note the statements that Penstock's own connections run during a call."""

    def during(call: Callable[[], Any]) -> Statements:
        noted: Statements = []
        with monkeypatch.context() as patch:
            for cls in (SqliteDialect, PostgresDialect):
                _note(patch, cls, noted)
            call()
        return noted

    return during


def _note(patch: pytest.MonkeyPatch, cls: Any, noted: Statements) -> None:
    execute, bulk = cls.execute, cls.bulk

    def noted_execute(self: Any, conn: Any, sql: str, params: Params) -> Result:
        noted.append(sql)
        result: Result = execute(self, conn, sql, params)
        return result

    def noted_bulk(self: Any, conn: Any, sql: str, rows: list[Row]) -> None:
        noted.append(sql)
        bulk(self, conn, sql, rows)

    if cls is PostgresDialect:  # the other runs them one by one
        together = cls.execute_all

        def noted_together(self: Any, conn: Any, calls: list[tuple[str, Params]]) -> list[Result]:
            noted.extend(sql for sql, _ in calls)
            results: list[Result] = together(self, conn, calls)
            return results

        patch.setattr(cls, "execute_all", noted_together)
    patch.setattr(cls, "execute", noted_execute)
    patch.setattr(cls, "bulk", noted_bulk)


@pytest.fixture
def store(engine: StoreEngine) -> StoreEngine:
    """Give a store whose topics are there already."""
    for topic, partitions in {"events": 256, "few": 100}.items():
        engine.outbox.log.create_topic(topic, partitions=partitions)
    return engine


def events(many: int) -> list[dict[str, Any]]:
    """Return so many events, of many keys and two topics."""
    topics = ("events", "few")
    return [{"type": "t", "value": n, "key": f"k-{n % 300}", "topic": topics[n % 2]} for n in range(many)]


def stage(store: StoreEngine, many: int) -> None:
    """Stage so many events."""
    with store.connect() as conn:
        store.outbox.publish_many(conn, events(many))
        conn.commit()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_publishing_one_is_one_statement(store: StoreEngine) -> None:
    noted: Statements = []
    with noting(store.url, noted) as conn:
        store.outbox.publish(conn, "t", {"n": 1}, key="k", headers={"h": "v"}, owner="me")
    (insert,) = but_the_question(noted)
    assert insert.startswith("INSERT INTO penstock_staged")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_a_token_costs_one_statement_and_a_known_one_saves_the_event(store: StoreEngine) -> None:
    noted: Statements = []
    with noting(store.url, noted) as conn:
        for _ in range(2):
            store.outbox.publish(conn, "t", 1, token="t")
    rows = 1 if store.url.startswith("postgres") else 2  # SQLite runs it for each: the version before has its own
    take, find = ["INSERT INTO penstock_token"] * rows, ["SELECT token, id"] * rows
    starts = [*take, "INSERT INTO penstock_staged", *take, *find]
    found = but_the_question(noted)
    assert [each[: len(start)] for each, start in zip(found, starts, strict=True)] == starts


@pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
def test_a_listener_costs_a_statement_only_for_what_it_wants(store: StoreEngine) -> None:
    store.outbox.listener("wanted")(lambda record: None)
    for type, many in {"other": 1, "wanted": 2}.items():
        noted: Statements = []
        with noting(store.url, noted) as conn:
            store.outbox.publish(conn, type, 1)
        assert len(but_the_question(noted)) == many


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
@pytest.mark.parametrize("many", [2, 1_000])
def test_publishing_many_is_one_statement_on_postgresql(store: StoreEngine, many: int) -> None:
    """Two statements per row was the seed's price."""
    noted: Statements = []
    with noting(store.url, noted) as conn:
        store.outbox.publish_many(conn, events(many))
        assert len(but_the_question(noted)) == 1
        store.outbox.publish_many(conn, [each | {"token": str(each["value"])} for each in events(many)])
    assert len(but_the_question(noted)) == 3


def test_a_connection_is_asked_once_how_it_commits(store: StoreEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs one statement, after the first event; not at all where that is turned off."""
    noted: Statements = []
    for _ in range(2):
        with noting(store.url, noted) as conn:
            for _ in range(3):
                store.outbox.publish(conn, "t", 0)
    assert ["synchronous" in each for each in noted] == [False, True, False, False] * 2

    noted.clear()
    monkeypatch.setenv("PENSTOCK_PUBLISHING_CHECK_DURABILITY", "false")
    with noting(store.url, noted) as conn:
        store.another().publish(conn, "t", 0)
    assert len(noted) == 1


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_a_pool_of_asyncpg_is_asked_once_for_each_of_its_connections(
    store: StoreEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """What the pool gives out is another object each time."""

    async def scene() -> None:
        settings = {"synchronous_commit": "off"}
        async with asyncpg.create_pool(store.url, min_size=1, max_size=1, server_settings=settings) as pool:
            for _ in range(3):
                async with pool.acquire() as conn, conn.transaction():
                    await store.outbox.apublish(conn, "t", 1)

    asyncio.run(scene())
    assert len([each for each in caplog.messages if "synchronous_commit=off" in each]) == 1


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
def test_publishing_many_through_sqlalchemy_is_one_statement(store: StoreEngine) -> None:
    noted: Statements = []
    with sqlalchemy_engine(store.url) as engine:
        sqlalchemy.event.listen(engine, "before_cursor_execute", lambda *args: noted.append(args[2]))
        with engine.begin() as conn:
            noted.clear()
            store.outbox.publish_many(conn, events(1_000))
    assert len(noted) == 1


def test_publishing_asks_for_no_other_connection(
    store: StoreEngine, ours: Callable[[Callable[[], Any]], Statements]
) -> None:
    """No metadata, no version, no counter: nothing of ours is touched."""
    assert ours(lambda: stage(store, 10)) == []


def moved(store: StoreEngine, many: int, ours: Callable[[Callable[[], Any]], Statements]) -> Statements:
    """Stage so many events and return the statements that one drain runs to move them."""
    stage(store, many)
    return ours(store.outbox.drain)


def test_moving_costs_as_many_statements_for_ten_thousand_as_for_a_hundred(
    store: StoreEngine, ours: Callable[[Callable[[], Any]], Statements], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one batch: the number of statements does not grow with the number of events.

    A few may cost less: on PostgreSQL they go in one trip.
    """
    monkeypatch.setenv("PENSTOCK_SEQUENCER_BATCH_RECORDS", "20000")
    hundred, thousand, many = (moved(store, number, ours) for number in (100, 1_000, 10_000))
    assert len(hundred) <= len(thousand) == len(many)
    assert any("INSERT INTO penstock_log" in each for each in many), "nothing was moved"


def test_more_than_a_batch_costs_a_pass_for_each_batch_or_two(
    store: StoreEngine, ours: Callable[[Callable[[], Any]], Statements]
) -> None:
    """Batches hold 2 000 rows unless told otherwise; the shares of the slots need a pass or two to settle."""
    passes = [sum("INTO penstock_log (" in each for each in moved(store, number, ours)) for number in (1_000, 8_000)]
    assert passes[0] == 1
    assert 4 <= passes[1] <= 8


def test_appending_costs_as_many_statements_for_a_thousand_as_for_one(
    store: StoreEngine, ours: Callable[[Callable[[], Any]], Statements]
) -> None:
    one = ours(lambda: store.outbox.log.append("few", [a_record()]))
    thousand = ours(lambda: store.outbox.log.append("few", [a_record(f"k-{n}") for n in range(1_000)]))
    assert len(one) == len(thousand)


def test_reading_a_thousand_records_costs_as_many_statements_as_reading_one(
    store: StoreEngine, ours: Callable[[Callable[[], Any]], Statements]
) -> None:
    store.outbox.log.append("few", some_records(1_000), partition=0)
    one = ours(lambda: store.outbox.log.read("few", 0, limit=1))
    assert len(ours(lambda: store.outbox.log.read("few", 0, limit=1_000))) == len(one) <= 2
