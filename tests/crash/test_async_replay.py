"""`arun_in_tx` on every async driver: a conflict is run again, a commit in doubt is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from penstock.errors import CommitOutcomeUnknown
from tests.conformance.async_callers import alchemy_engine
from tests.crash.proxy import Cut, FaultProxy
from tests.crash.store import Store

Begin = Callable[[str], AbstractAsyncContextManager[Any]]
LOCK = "SELECT 1 FROM counter WHERE topic = 'three' AND name = 'k-1' FOR UPDATE"


def _known(url: str) -> str:
    """Return an address without what asyncpg does not know."""
    return url.replace("&gssencmode=disable", "")


@asynccontextmanager
async def _psycopg(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as conn:
        yield conn


@asynccontextmanager
async def _asyncpg(url: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(_known(url))
    try:
        async with conn.transaction():
            yield conn
    finally:
        conn.terminate()


def _alchemy(driver: str) -> Begin:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Any]:
        async with alchemy_engine(driver, _known(url)) as engine, engine.begin() as conn:
            yield conn

    return opened


@asynccontextmanager
async def _session(url: str) -> AsyncIterator[Any]:
    async with alchemy_engine("psycopg", url) as engine, AsyncSession(engine) as session, session.begin():
        yield session


@asynccontextmanager
async def _aiosqlite(url: str) -> AsyncIterator[Any]:
    async with aiosqlite.connect(url.removeprefix("sqlite:///"), timeout=0, isolation_level=None) as conn:
        await conn.execute("BEGIN IMMEDIATE")
        yield conn
        await conn.commit()


SERVERS: dict[str, Begin] = {
    "psycopg": _psycopg,
    "asyncpg": _asyncpg,
    "SQLAlchemy on psycopg": _alchemy("psycopg"),
    "SQLAlchemy on asyncpg": _alchemy("asyncpg"),
    "a session": _session,
}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the pauses, none of which is waited for."""
    noted: list[float] = []

    async def sleep(seconds: float) -> None:
        noted.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return noted


async def execute(conn: Any, sql: str) -> None:
    """Run a statement on whatever connection it is."""
    alchemy = type(conn).__module__.startswith("sqlalchemy")
    await conn.execute(text(sql) if alchemy else sql)


@pytest.mark.parametrize("name", SERVERS)
def test_a_lock_not_had_in_time_is_run_again(postgres_store: Store, name: str, pauses: list[float]) -> None:
    outbox, calls = postgres_store.outbox, list[int]()
    with postgres_store.connection() as other:
        other.execute(LOCK)

        async def work(conn: Any) -> str:
            calls.append(1)
            if len(calls) == 3:
                other.rollback()
            given = await outbox.apublish(conn, "t", 1, key="k-1", topic="three", token="t")
            await execute(conn, "SET LOCAL lock_timeout = '5ms'")
            await execute(conn, LOCK)
            return given

        given = asyncio.run(outbox.arun_in_tx(lambda: SERVERS[name](postgres_store.url), work))
    assert (len(calls), len(pauses)) == (3, 2)
    assert outbox.published(None, "t") == given
    assert postgres_store.waiting() == 1


def test_a_busy_file_is_run_again(sqlite_store: Store, pauses: list[float]) -> None:
    outbox, calls = sqlite_store.outbox, list[int]()
    with sqlite_store.connection() as other:

        @asynccontextmanager
        async def begin() -> AsyncIterator[Any]:
            calls.append(1)
            if len(calls) == 3:
                other.rollback()
            async with _aiosqlite(sqlite_store.url) as conn:
                yield conn

        async def work(conn: Any) -> str:
            return await outbox.apublish(conn, "t", 1, token="t")

        given = asyncio.run(outbox.arun_in_tx(begin, work))
    assert (len(calls), len(pauses)) == (3, 2)
    assert outbox.published(None, "t") == given


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(
    ("cut", "there"), [(Cut.BEFORE_IT_ARRIVES, False), (Cut.WHILE_IT_RUNS, True), (Cut.BEFORE_ITS_ANSWER, True)]
)
def test_a_commit_in_doubt_is_not_run_again_and_its_tokens_tell_the_truth(
    postgres_store: Store, name: str, cut: Cut, there: bool, pauses: list[float]
) -> None:
    calls: list[str] = []
    with FaultProxy(postgres_store.url) as proxy, closing(Store(proxy.url)) as far:

        async def work(conn: Any) -> None:
            calls.append(await far.outbox.apublish(conn, "t", 1, key="k-1", topic="three", token="t-1"))

        proxy.cut_at_commit(cut)
        with pytest.raises(CommitOutcomeUnknown, match="'t-1'") as caught:
            asyncio.run(far.outbox.arun_in_tx(lambda: SERVERS[name](proxy.url), work))
        assert proxy.has_cut.wait(30)
        assert (caught.value.tokens, len(calls), pauses) == (("t-1",), 1, [])
        found = postgres_store.outbox.published(None, "t-1")
        assert found == (calls[0] if there else None)


@pytest.mark.parametrize("name", SERVERS)
def test_a_connection_lost_before_the_commit_is_no_doubt_and_no_conflict(
    postgres_store: Store, name: str, pauses: list[float]
) -> None:
    calls: list[int] = []

    async def work(conn: Any) -> None:
        calls.append(1)
        await postgres_store.outbox.apublish(conn, "t", 1, topic="three", token="t")
        await execute(conn, "SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(Exception, match=r"(?i)terminat|closed|lost") as caught:
        asyncio.run(postgres_store.outbox.arun_in_tx(lambda: SERVERS[name](postgres_store.url), work))
    assert not isinstance(caught.value, CommitOutcomeUnknown)
    assert (calls, pauses) == ([1], [])
    assert postgres_store.outbox.published(None, "t") is None
