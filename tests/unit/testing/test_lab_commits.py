"""The commits of a handler are seen in every driver, before and after; nothing else is taken for one."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import connect as connect_by_name
from typing import Any

import aiosqlite
import asyncpg
import django
import psycopg
import pytest
import sqlalchemy
from django.conf import settings
from django.db.utils import ConnectionHandler

from penstock.testing.lab.commits import watch
from penstock.testing.lab.process import apart

INSERT = "INSERT INTO t VALUES (1)"
Work = Callable[[str], Any]


def seen(work: Work, address: str) -> list[tuple[str, int]]:
    """Work with watched drivers in a process of its own; return what was seen, with the rows there."""

    def watched(tell: Callable[[str, Any], None]) -> None:
        plain, inside = sqlite3.connect, list[bool]()

        @contextmanager
        def around() -> Iterator[None]:
            if inside:  # one step of a commit that is seen as a whole
                yield
                return
            tell("seen", ["before", _rows(address, plain)])
            inside.append(True)
            yield
            inside.clear()
            tell("seen", ["after", _rows(address, plain)])

        watch(around)
        work(address)

    return [(word, rows) for word, rows in apart(watched, silence_seconds=60).messages.get("seen", [])]


def _rows(address: str, connect: Any) -> int:
    opened: Any = psycopg.connect(address) if address.startswith("postgresql:") else connect(address)
    with closing(opened) as conn:
        return int(conn.execute("SELECT count(*) FROM t").fetchone()[0])


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Give a SQLite file with an empty table."""
    with closing(sqlite3.connect(tmp_path / "t.db")) as conn, conn:
        conn.execute("CREATE TABLE t (n INTEGER)")
    return str(tmp_path / "t.db")


def by_block(path: str) -> None:
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(INSERT)


def by_method(path: str) -> None:
    with closing(connect_by_name(path)) as conn:
        conn.execute(INSERT)
        conn.commit()


def by_statement(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("BEGIN")
        conn.cursor().execute(INSERT)
        conn.execute(" commit ;")


def by_itself(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute(INSERT)


def by_script(path: str) -> None:
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(f"BEGIN; {INSERT}; COMMIT")


class Own(sqlite3.Connection):
    """A connection class of a program."""


def by_own_class(path: str) -> None:
    with closing(sqlite3.connect(path, factory=Own)) as conn, conn:
        assert isinstance(conn, Own)
        conn.executemany("INSERT INTO t VALUES (?)", [(1,)])


def by_sqlalchemy(path: str) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.begin() as conn:
        conn.execute(sqlalchemy.text(INSERT))
    engine.dispose()


def by_django(path: str) -> None:
    if not settings.configured:
        settings.configure()
        django.setup()
    handler = ConnectionHandler({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": path}})
    conn = handler["default"]
    conn.set_autocommit(False)
    with conn.cursor() as cursor:
        cursor.execute(INSERT)
    conn.commit()
    conn.close()


def by_aiosqlite(path: str) -> None:
    async def work() -> None:
        async with aiosqlite.connect(path) as conn:
            await conn.execute(INSERT)
            await conn.commit()

    asyncio.run(work())


def rolled_back(path: str) -> None:
    with closing(sqlite3.connect(path)) as conn:
        conn.execute(INSERT)
        conn.rollback()
        conn.commit()
        conn.execute("SELECT * FROM t").fetchall()


def raised(path: str) -> None:
    try:
        with closing(sqlite3.connect(path)) as conn, conn:
            conn.execute(INSERT)
            raise ValueError
    except ValueError:
        pass


ONCE = [("before", 0), ("after", 1)]


@pytest.mark.parametrize(
    "work",
    [by_block, by_method, by_statement, by_itself, by_script, by_own_class, by_sqlalchemy, by_aiosqlite, by_django],
)
def test_a_commit_on_sqlite_is_seen_before_and_after(work: Work, path: str) -> None:
    assert seen(work, path) == ONCE


@pytest.mark.parametrize("work", [rolled_back, raised])
def test_what_is_no_commit_is_not_taken_for_one(work: Work, path: str) -> None:
    assert seen(work, path) == []


def by_psycopg_block(url: str) -> None:
    with psycopg.connect(url) as conn:
        conn.execute(INSERT)


def by_psycopg_transaction(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn, conn.transaction(), conn.transaction():
        conn.execute(INSERT)


def by_psycopg_statement(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("BEGIN")
        conn.execute(INSERT)
        conn.execute("COMMIT")


def by_psycopg_itself(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(INSERT)


def by_async_psycopg(url: str) -> None:
    async def work() -> None:
        async with await psycopg.AsyncConnection.connect(url) as conn:
            await conn.execute(INSERT)

    asyncio.run(work())


def by_asyncpg(url: str) -> None:
    async def work() -> None:
        conn = await asyncpg.connect(url)
        async with conn.transaction(), conn.transaction():
            await conn.execute(INSERT)
        await conn.close()

    asyncio.run(work())


def by_asyncpg_itself(url: str) -> None:
    async def work() -> None:
        conn = await asyncpg.connect(url)
        await conn.execute(INSERT)
        await conn.close()

    asyncio.run(work())


def psycopg_rolled_back(url: str) -> None:
    with psycopg.connect(url) as conn:
        conn.execute(INSERT)
        conn.rollback()


@pytest.fixture
def url(postgres_url: str) -> str:
    """Give a PostgreSQL database with an empty table."""
    with psycopg.connect(postgres_url) as conn:
        conn.execute("CREATE TABLE t (n integer)")
    return postgres_url


@pytest.mark.parametrize(
    "work",
    [
        by_psycopg_block,
        by_psycopg_transaction,
        by_psycopg_statement,
        by_psycopg_itself,
        by_async_psycopg,
        by_asyncpg,
        by_asyncpg_itself,
    ],
)
def test_a_commit_on_postgres_is_seen_before_and_after(work: Work, url: str) -> None:
    assert seen(work, url) == ONCE


def test_a_rollback_on_postgres_is_not_taken_for_one(url: str) -> None:
    assert seen(psycopg_rolled_back, url) == []
