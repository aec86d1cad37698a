"""The kinds of async connection in the shape of the sync ones: each call runs its loop to the end."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine

from penstock import Outbox
from tests.conformance.callers import Autocommitter, Block, Caller

AsyncBlock = AbstractAsyncContextManager[Any]


@dataclass
class Held:
    """An async connection, and the loop it belongs to."""

    conn: Any
    runner: asyncio.Runner


class AsyncFace:
    """The async methods of an outbox under the names of the sync ones."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def publish(self, held: Held, *event: Any, **options: Any) -> str:
        """Publish one."""
        return held.runner.run(self._outbox.apublish(held.conn, *event, **options))

    def publish_many(self, held: Held, *events: Any, **options: Any) -> list[str]:
        """Publish many."""
        return held.runner.run(self._outbox.apublish_many(held.conn, *events, **options))

    def cancel(self, held: Held, *id: Any, **options: Any) -> int:
        """Cancel."""
        return held.runner.run(self._outbox.acancel(held.conn, *id, **options))

    def reschedule(self, held: Held, *what: Any, **options: Any) -> Any:
        """Reschedule."""
        return held.runner.run(self._outbox.areschedule(held.conn, *what, **options))

    def published(self, held: Held | None, token: Any) -> str | None:
        """Look up a token."""
        if held is None:
            return asyncio.run(self._outbox.apublished(None, token))
        return held.runner.run(self._outbox.apublished(held.conn, token))


@contextmanager
def _inside(runner: asyncio.Runner, block: AsyncBlock) -> Iterator[Any]:
    """Enter and leave an async block from sync code."""

    async def leave(*error: Any) -> bool | None:
        return await block.__aexit__(*error)

    async def enter() -> Any:
        return await block.__aenter__()

    given = runner.run(enter())
    try:
        yield given
    except BaseException as exc:
        if not runner.run(leave(type(exc), exc, exc.__traceback__)):
            raise
    else:
        runner.run(leave(None, None, None))


def _sync(opened: Callable[[str], AsyncBlock]) -> Callable[[str], Block]:
    @contextmanager
    def transaction(url: str) -> Iterator[Held]:
        with asyncio.Runner() as runner, _inside(runner, opened(url)) as conn:
            yield Held(conn, runner)

    return transaction


def _sync_savepoint(opened: Callable[[Any], AsyncBlock]) -> Callable[[Held], Block]:
    @contextmanager
    def savepoint(held: Held) -> Iterator[None]:
        with _inside(held.runner, opened(held.conn)):
            yield

    return savepoint


def _execute(held: Held, sql: str) -> None:
    alchemy = isinstance(held.conn, AsyncConnection | AsyncSession)

    async def execute() -> None:
        await held.conn.execute(sqlalchemy.text(sql) if alchemy else sql)

    held.runner.run(execute())


# --- transactions ------------------------------------------------------------------------------


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")


@asynccontextmanager
async def _aiosqlite_default(url: str) -> AsyncIterator[aiosqlite.Connection]:
    async with aiosqlite.connect(_path(url), timeout=30) as conn:
        yield conn
        await conn.commit()


@asynccontextmanager
async def _aiosqlite_begin(url: str) -> AsyncIterator[aiosqlite.Connection]:
    async with aiosqlite.connect(_path(url), timeout=30, isolation_level=None) as conn:
        await conn.execute("BEGIN IMMEDIATE")
        try:
            yield conn
            await conn.execute("COMMIT")
        except BaseException:
            await conn.execute("ROLLBACK")
            raise


@asynccontextmanager
async def _aiosqlite_savepoint(conn: aiosqlite.Connection) -> AsyncIterator[None]:
    await conn.execute("SAVEPOINT inner_part")
    try:
        yield
    except BaseException:
        await conn.execute("ROLLBACK TO SAVEPOINT inner_part")
        raise
    finally:
        await conn.execute("RELEASE SAVEPOINT inner_part")


class OwnAsync(psycopg.AsyncConnection[Any]):
    """A connection class of the program's own."""


@asynccontextmanager
async def _psycopg_default(url: str) -> AsyncIterator["psycopg.AsyncConnection[Any]"]:
    async with await psycopg.AsyncConnection.connect(url) as conn:
        yield conn


@asynccontextmanager
async def _psycopg_block(url: str) -> AsyncIterator["psycopg.AsyncConnection[Any]"]:
    async with await OwnAsync.connect(url, autocommit=True) as conn, conn.transaction():
        yield conn


@asynccontextmanager
async def _psycopg_pipeline(url: str) -> AsyncIterator["psycopg.AsyncConnection[Any]"]:
    async with await psycopg.AsyncConnection.connect(url) as conn, conn.pipeline():
        yield conn


@asynccontextmanager
async def _asyncpg_connection(url: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(url)
    try:
        async with conn.transaction():
            yield conn
    finally:
        await conn.close()


@asynccontextmanager
async def _asyncpg_pool(url: str) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as conn, conn.transaction():
        yield conn


def _block(conn: Any) -> AsyncBlock:
    block: AsyncBlock = conn.transaction()
    return block


def _nested(conn: Any) -> AsyncBlock:
    block: AsyncBlock = conn.begin_nested()
    return block


@asynccontextmanager
async def alchemy_engine(driver: str, url: str, **options: Any) -> AsyncIterator[AsyncEngine]:
    """Give SQLAlchemy's async engine for a store."""
    if driver == "aiosqlite":
        engine = create_async_engine(url.replace("sqlite://", "sqlite+aiosqlite://"), **options)
    elif driver == "psycopg":
        engine = create_async_engine(url.replace("postgresql://", "postgresql+psycopg://"), **options)
    else:  # it does not know all that an address can say
        engine = create_async_engine("postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(url), **options)
    try:
        yield engine
    finally:
        await engine.dispose()


def _alchemy_connection(driver: str) -> Callable[[str], AsyncBlock]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[AsyncConnection]:
        async with alchemy_engine(driver, url) as engine, engine.begin() as conn:
            yield conn

    return opened


def _alchemy_as_you_go(driver: str) -> Callable[[str], AsyncBlock]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[AsyncConnection]:
        async with alchemy_engine(driver, url) as engine, engine.connect() as conn:
            yield conn
            await conn.commit()

    return opened


def _alchemy_session(driver: str) -> Callable[[str], AsyncBlock]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[AsyncSession]:
        async with alchemy_engine(driver, url) as engine, AsyncSession(engine) as session:
            yield session
            await session.commit()

    return opened


ENGINES = {"aiosqlite": "sqlite", "psycopg": "postgres", "asyncpg": "postgres"}


def _caller(
    name: str, engine: str, opened: Callable[[str], AsyncBlock], savepoint: Callable[[Any], AsyncBlock]
) -> Caller:
    return Caller(name, engine, _sync(opened), _sync_savepoint(savepoint), AsyncFace, _execute)


ASYNC_CALLERS = [
    _caller("aiosqlite", "sqlite", _aiosqlite_default, _aiosqlite_savepoint),
    _caller("aiosqlite with BEGIN", "sqlite", _aiosqlite_begin, _aiosqlite_savepoint),
    _caller("psycopg async", "postgres", _psycopg_default, _block),
    _caller("psycopg async of a subclass in a block", "postgres", _psycopg_block, _block),
    _caller("psycopg async in a pipeline", "postgres", _psycopg_pipeline, _block),
    _caller("asyncpg", "postgres", _asyncpg_connection, _block),
    _caller("asyncpg from a pool", "postgres", _asyncpg_pool, _block),
    *[
        _caller(f"SQLAlchemy async {name} on {driver}", engine, opened(driver), _nested)
        for driver, engine in ENGINES.items()
        for name, opened in {
            "connection": _alchemy_connection,
            "as you go": _alchemy_as_you_go,
            "session": _alchemy_session,
        }.items()
    ],
]


# --- autocommit --------------------------------------------------------------------------------


@asynccontextmanager
async def _aiosqlite_autocommit(url: str) -> AsyncIterator[aiosqlite.Connection]:
    async with aiosqlite.connect(_path(url), isolation_level=None) as conn:
        yield conn


@asynccontextmanager
async def _psycopg_autocommit(url: str) -> AsyncIterator["psycopg.AsyncConnection[Any]"]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        yield conn


@asynccontextmanager
async def _asyncpg_autocommit(url: str) -> AsyncIterator[Any]:
    conn = await asyncpg.connect(url)
    try:
        yield conn
    finally:
        await conn.close()


@asynccontextmanager
async def _asyncpg_pool_autocommit(url: str) -> AsyncIterator[Any]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as conn:
        yield conn


def _alchemy_autocommit(driver: str) -> Callable[[str], AsyncBlock]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[AsyncConnection]:
        opened_engine = alchemy_engine(driver, url, isolation_level="AUTOCOMMIT")
        async with opened_engine as engine, engine.connect() as conn:
            yield conn

    return opened


def _alchemy_session_autocommit(driver: str) -> Callable[[str], AsyncBlock]:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[AsyncSession]:
        opened_engine = alchemy_engine(driver, url, isolation_level="AUTOCOMMIT")
        async with opened_engine as engine, AsyncSession(engine) as session:
            yield session

    return opened


def _autocommitter(name: str, engine: str, opened: Callable[[str], AsyncBlock], remedy: str) -> Autocommitter:
    return Autocommitter(name, engine, _sync(opened), remedy, AsyncFace, _execute)


_IN_A_BLOCK = r"async with conn\.transaction\(\)"
ASYNC_AUTOCOMMITTERS = [
    _autocommitter("aiosqlite", "sqlite", _aiosqlite_autocommit, 'await conn.execute."BEGIN'),
    _autocommitter("psycopg async", "postgres", _psycopg_autocommit, _IN_A_BLOCK),
    _autocommitter("asyncpg", "postgres", _asyncpg_autocommit, _IN_A_BLOCK),
    _autocommitter("asyncpg from a pool", "postgres", _asyncpg_pool_autocommit, _IN_A_BLOCK),
    *[
        _autocommitter(f"SQLAlchemy async {name} on {driver}", engine, opened(driver), "AUTOCOMMIT")
        for driver, engine in ENGINES.items()
        for name, opened in {"connection": _alchemy_autocommit, "session": _alchemy_session_autocommit}.items()
    ],
]
