"""`begin_immediate`: a transaction on SQLite that reads first is not refused in the middle."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from penstock.sqlalchemy import begin_immediate
from tests.conformance.callers import sqlalchemy_engine
from tests.conformance.engines import StoreEngine

READ = sqlalchemy.text("SELECT count(*) FROM penstock_topic")


@pytest.fixture
def store(migrated_sqlite: str) -> Iterator[StoreEngine]:
    """Give a store in a file."""
    opened = StoreEngine(migrated_sqlite)
    yield opened
    opened.close()


def another_writes(store: StoreEngine) -> bool:
    """Let another connection write, as a worker does; return whether it got the writer's place."""
    with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"), timeout=0)) as conn, conn:
        try:
            store.outbox.publish(conn, "other", 1)
        except sqlite3.OperationalError:
            return False
        return True


def test_without_it_a_transaction_that_reads_first_can_be_refused(store: StoreEngine) -> None:
    """The control: this is what is prevented."""
    with sqlalchemy_engine(store.url) as engine, engine.connect() as conn:
        conn.exec_driver_sql("BEGIN")  # as a driver does that really begins; the default one begins late
        conn.execute(READ)
        assert another_writes(store)
        with pytest.raises(OperationalError, match="locked"):
            store.outbox.publish(conn, "t", 1)


def test_with_it_the_other_one_waits(store: StoreEngine) -> None:
    with sqlalchemy_engine(store.url) as engine:
        with engine.connect() as conn:
            conn.execute(READ)  # the pool has a connection by now
        begin_immediate(engine)
        begin_immediate(engine)
        with Session(engine) as session:
            session.execute(READ)
            assert not another_writes(store)
            with session.begin_nested():
                store.outbox.publish(session, "t", 1)
            session.commit()
            assert another_writes(store)
    assert store.outbox.drain().sequenced == 2


def test_a_rollback_is_a_rollback(store: StoreEngine) -> None:
    with sqlalchemy_engine(store.url) as engine:
        begin_immediate(engine)
        with engine.connect() as conn:
            store.outbox.publish(conn, "t", 1)
            conn.rollback()
    assert store.outbox.drain().sequenced == 0


def test_autocommit_stays_as_it_is(store: StoreEngine) -> None:
    with sqlalchemy_engine(store.url, isolation_level="AUTOCOMMIT") as engine:
        begin_immediate(engine)
        with engine.connect() as conn:
            conn.execute(READ)
            assert another_writes(store)
            conn.exec_driver_sql("VACUUM")


def test_an_async_engine(store: StoreEngine) -> None:
    async def work() -> None:
        engine = create_async_engine(store.url.replace("sqlite:", "sqlite+aiosqlite:"))
        begin_immediate(engine)
        async with engine.begin() as conn:
            await conn.execute(READ)
            assert not await asyncio.to_thread(another_writes, store)
            await store.outbox.apublish(conn, "t", 1)
        await engine.dispose()

    asyncio.run(work())
    assert store.outbox.drain().sequenced == 1


def test_on_another_database_it_does_nothing() -> None:
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=_refuse)
    begin_immediate(engine)
    assert not list(engine.dispatch.begin)


def _refuse() -> Any:
    raise AssertionError("no connection is needed")
