"""Publishing one event and committing it, on each kind of connection that `publish` takes.

Each opener gives a call that does both and returns the moment the commit has returned.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import sqlalchemy
from django.apps import apps
from django.conf import settings
from django.db import connections, transaction
from django.db.utils import ConnectionHandler
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from bench.stores import Store
from penstock import Outbox

Event = Mapping[str, Any]
Publish = Callable[[Event], int]
Opener = Callable[[Outbox, Store], AbstractContextManager[Publish]]

Committed = Callable[[Any, Callable[[], Awaitable[Any]]], Awaitable[None]]  # a connection, and how to stage

_ALIAS = "bench"


@contextmanager
def driver(outbox: Outbox, store: Store) -> Iterator[Publish]:
    """The store's own driver: sqlite3 or psycopg."""
    with closing(store.connect()) as conn:

        def publish(event: Event) -> int:
            outbox.publish_many(conn, [event])
            conn.commit()
            return time.monotonic_ns()

        yield publish


@contextmanager
def alchemy(outbox: Outbox, store: Store) -> Iterator[Publish]:
    """SQLAlchemy's Connection."""
    engine = sqlalchemy.create_engine(_alchemy_url(store.url, "psycopg"))
    with engine.connect() as conn:

        def publish(event: Event) -> int:
            with conn.begin():
                outbox.publish_many(conn, [event])
            return time.monotonic_ns()

        yield publish
    engine.dispose()


@contextmanager
def django(outbox: Outbox, store: Store) -> Iterator[Publish]:
    """Django's connection, in `atomic`."""
    if not settings.configured:
        settings.configure(USE_TZ=True)
        apps.populate(())  # without it Django warns of queries
    conn = ConnectionHandler({"default": _django(store.url), _ALIAS: _django(store.url)})[_ALIAS]
    connections[_ALIAS] = conn

    def publish(event: Event) -> int:
        with transaction.atomic(using=_ALIAS):
            outbox.publish_many(conn, [event])
        return time.monotonic_ns()

    try:
        yield publish
    finally:
        conn.close()
        del connections[_ALIAS]


def in_loop(opened: Callable[[str], Any], commit: Callable[[Any, Callable[[], Awaitable[Any]]], Any]) -> Opener:
    """Return the opener for an async kind: how it is opened, and how a transaction goes around a call."""

    @contextmanager
    def made(outbox: Outbox, store: Store) -> Iterator[Publish]:
        with asyncio.Runner() as runner:
            conn = runner.run(_awaited(opened(store.url)))

            async def published(event: Event) -> int:
                await commit(conn, lambda: outbox.apublish_many(conn, [event]))
                return time.monotonic_ns()

            try:
                yield lambda event: runner.run(published(event))
            finally:
                runner.run(_closed(conn))

    return made


async def _then_commit(conn: Any, stage: Callable[[], Awaitable[Any]]) -> None:
    await stage()
    await conn.commit()


async def _in_block(conn: Any, stage: Callable[[], Awaitable[Any]]) -> None:
    async with conn.transaction():
        await stage()


async def _begun(conn: Any, stage: Callable[[], Awaitable[Any]]) -> None:
    async with conn.begin():
        await stage()


async def _closed(conn: Any) -> None:
    await conn.close()
    if isinstance(conn, AsyncConnection):
        await conn.engine.dispose()


async def _awaited(what: Awaitable[Any]) -> Any:
    return await what


def _alchemy_url(url: str, postgres_driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{postgres_driver}://")


def _alchemy_async(url: str) -> Any:
    address = _alchemy_url(url, "psycopg").replace("sqlite://", "sqlite+aiosqlite://")
    return create_async_engine(address).connect().start()


def _django(url: str) -> dict[str, Any]:
    if url.startswith("sqlite:"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
    parts = conninfo_to_dict(url)
    given = {name: parts.pop(name, "") for name in ("dbname", "user", "password", "host", "port")}
    address = {name.upper(): value for name, value in given.items() if name != "dbname"}
    return {"ENGINE": "django.db.backends.postgresql", "NAME": given["dbname"], **address, "OPTIONS": parts}


ON_POSTGRES: dict[str, Opener] = {
    "psycopg async": in_loop(psycopg.AsyncConnection.connect, _then_commit),
    "asyncpg": in_loop(asyncpg.connect, _in_block),
    "SQLAlchemy": alchemy,
    "SQLAlchemy async": in_loop(_alchemy_async, _begun),
    "Django": django,
}
ON_SQLITE: dict[str, Opener] = {
    "aiosqlite": in_loop(lambda url: aiosqlite.connect(url.removeprefix("sqlite:///"), timeout=30), _then_commit),
    "SQLAlchemy": alchemy,
    "SQLAlchemy async": in_loop(_alchemy_async, _begun),
    "Django": django,
}
