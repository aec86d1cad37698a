"""Async connections: what is theirs alone, and errors of the driver that are left as they are."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from penstock import Outbox
from penstock.errors import InvalidKey, NoTransaction, UnsupportedConnection
from tests.conformance.async_callers import ENGINES, alchemy_engine
from tests.conformance.engines import StoreEngine, connect
from tests.suites.outbox_suite import keys, logged


@dataclass
class OrderPlaced:
    order_id: str


@pytest.mark.parametrize("conn", [None, "sqlite:///x.db", object(), 5])
def test_what_is_no_connection_is_refused(conn: Any) -> None:
    outbox = Outbox("memory://")
    with pytest.raises(UnsupportedConnection, match=r"aiosqlite\.Connection, psycopg\.AsyncConnection, asyn"):
        asyncio.run(outbox.apublish(conn, "t", 1))
    outbox.close()


def test_typed_events_and_no_events(sqlite_engine: StoreEngine) -> None:
    """As sync: a registered class; nothing to publish is no statement and needs no transaction."""

    async def scene() -> None:
        outbox = sqlite_engine.outbox
        outbox.event("order.placed", key="order_id")(OrderPlaced)
        path = sqlite_engine.url.removeprefix("sqlite:///")
        async with aiosqlite.connect(path, isolation_level=None) as conn:
            assert await outbox.apublish_many(conn, []) == []
        async with aiosqlite.connect(path) as conn:
            await outbox.apublish(conn, OrderPlaced("o-1"))
            await outbox.apublish_many(conn, [OrderPlaced("o-2"), {"type": "t", "value": 1, "key": "o-3"}])
            with pytest.raises(InvalidKey):
                await outbox.apublish(conn, "t", 1, key="")
            await conn.commit()

    sqlite_engine.outbox.log.create_topic("events", partitions=1)
    asyncio.run(scene())
    sqlite_engine.outbox.drain()
    assert keys(logged(sqlite_engine)) == ["o-1", "o-2", "o-3"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has this mode from Python 3.12 on")
@pytest.mark.parametrize("autocommit", [True, False])
def test_aiosqlite_in_the_newer_modes(autocommit: bool, sqlite_engine: StoreEngine) -> None:
    """Only the connection's own thread may ask for the mode."""

    async def scene() -> None:
        path = sqlite_engine.url.removeprefix("sqlite:///")
        async with aiosqlite.connect(path, autocommit=autocommit) as conn:
            if autocommit:
                with pytest.raises(NoTransaction, match="BEGIN IMMEDIATE"):
                    await sqlite_engine.outbox.apublish(conn, "t", 1)
                await conn.execute("BEGIN IMMEDIATE")
            await sqlite_engine.outbox.apublish(conn, "t", 1)
            await (conn.execute("COMMIT") if autocommit else conn.commit())

    asyncio.run(scene())
    assert sqlite_engine.outbox.drain().sequenced == 1


def test_asyncpg_after_its_block_is_refused_again(postgres_engine: StoreEngine) -> None:
    async def scene() -> None:
        conn = await asyncpg.connect(postgres_engine.url)
        async with conn.transaction():
            await postgres_engine.outbox.apublish(conn, "t", 1)
        with pytest.raises(NoTransaction):
            await postgres_engine.outbox.apublish(conn, "t", 1)
        await conn.close()

    asyncio.run(scene())
    assert postgres_engine.outbox.drain().sequenced == 1


def test_asyncpg_without_its_cache_of_statements(postgres_engine: StoreEngine) -> None:
    """As behind a transaction pooler."""

    async def scene() -> None:
        conn = await asyncpg.connect(postgres_engine.url, statement_cache_size=0)
        async with conn.transaction():
            await postgres_engine.outbox.apublish_many(conn, [{"type": "t", "value": 1}] * 3)
        await conn.close()

    asyncio.run(scene())
    assert postgres_engine.outbox.drain().sequenced == 3


def test_a_released_connection_of_a_pool_has_ended_for_the_bell(postgres_engine: StoreEngine) -> None:
    """Also when another task has it at once and begins: the bell must not wait for that one."""
    watched: list[tuple[Any, Callable[[Any], bool]]] = []

    class Watching:
        look = None

        def watch(
            self, conn: Any, is_open: Callable[[Any], bool], slots: object = None, *, hooked: bool = False
        ) -> None:
            watched.append((conn, is_open))

        def close(self) -> None:
            """Nothing to close."""

    async def scene() -> None:
        postgres_engine.outbox._bell = Watching()  # type: ignore[assignment]  # notes, does not ring
        async with asyncpg.create_pool(postgres_engine.url, min_size=1, max_size=1) as pool:
            async with pool.acquire() as conn, conn.transaction():
                await postgres_engine.outbox.apublish(conn, "t", 1)
            async with pool.acquire() as other, other.transaction():
                ((seen, is_open),) = watched
                with pytest.raises(asyncpg.InterfaceError, match="released"):
                    is_open(seen)

    asyncio.run(scene())


@pytest.mark.parametrize("driver", ENGINES)
def test_a_refusal_leaves_no_transaction_open(driver: str, request: pytest.FixtureRequest) -> None:
    store: StoreEngine = request.getfixturevalue(f"{ENGINES[driver]}_engine")

    async def scene() -> None:
        async with alchemy_engine(driver, store.url, isolation_level="AUTOCOMMIT") as engine:
            conn: AsyncConnection
            async with engine.connect() as conn:
                with pytest.raises(NoTransaction):
                    await store.outbox.apublish(conn, "t", 1)
                assert not conn.in_transaction()

    asyncio.run(scene())


def _somebody_sleeps(engine: StoreEngine) -> bool:
    """Return whether the server is in a `pg_sleep`."""
    with engine.connect() as conn:
        found = conn.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
        ).fetchall()
    return bool(found)


def test_a_task_cancelled_in_its_block_leaves_nothing(postgres_engine: StoreEngine) -> None:
    """It has published and waits for the server when it is cancelled; its block rolls back."""
    outbox = postgres_engine.outbox
    outbox.log.create_topic("events", partitions=1)

    async def publishing(waits: asyncio.Event) -> None:
        conn = await asyncpg.connect(postgres_engine.url)
        try:
            async with conn.transaction():
                await outbox.apublish(conn, "t", 1, key="never")
                waits.set()
                await conn.execute("SELECT pg_sleep(60)")
        finally:
            await conn.close()

    async def scene() -> None:
        waits = asyncio.Event()
        task = asyncio.create_task(publishing(waits))
        await waits.wait()
        while not await asyncio.to_thread(_somebody_sleeps, postgres_engine):
            pass  # a cancel that comes to the server before the statement is lost
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(scene())
    outbox.drain()
    assert keys(logged(postgres_engine)) == []


def test_a_closed_connection_raises_its_own_error(sqlite_engine: StoreEngine, postgres_engine: StoreEngine) -> None:
    async def scene() -> None:
        lite = await aiosqlite.connect(sqlite_engine.url.removeprefix("sqlite:///"))
        await lite.close()
        with pytest.raises(ValueError, match="no active connection"):
            await sqlite_engine.outbox.apublish(lite, "t", 1)
        pg = await psycopg.AsyncConnection.connect(postgres_engine.url)
        await pg.close()
        with pytest.raises(psycopg.OperationalError, match="connection is closed"):
            await postgres_engine.outbox.apublish(pg, "t", 1)

    asyncio.run(scene())


def test_an_error_inside_a_broken_transaction_is_the_drivers_own(postgres_engine: StoreEngine) -> None:
    async def scene() -> None:
        conn = await asyncpg.connect(postgres_engine.url)
        block = conn.transaction()
        await block.start()
        with pytest.raises(asyncpg.UndefinedColumnError):
            await conn.execute("SELECT no_such_column")
        with pytest.raises(asyncpg.InFailedSQLTransactionError):
            await postgres_engine.outbox.apublish(conn, "t", 1)
        await block.rollback()
        await conn.close()

    asyncio.run(scene())


def test_chosen_names_hold_on_asyncpg_too(postgres_store: str) -> None:
    """Prefix and schema stand in numbered statements as in the others."""
    with connect(postgres_store) as conn:
        schema = conn.execute("SELECT current_schema()").fetchone()[0]
    outbox = Outbox(postgres_store, prefix="shop_", schema=schema)
    outbox.migrate()

    async def scene() -> None:
        conn = await asyncpg.connect(postgres_store)
        await conn.execute("SET search_path = pg_catalog")
        async with conn.transaction():
            await outbox.apublish_many(conn, [{"type": "t", "value": 1}] * 2)
            await outbox.apublish(conn, "t", 1)
        await conn.close()

    asyncio.run(scene())
    assert outbox.drain().sequenced == 3
    outbox.close()
