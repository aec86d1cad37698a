"""One address serves the application and Penstock: URLs and engines of SQLAlchemy, options of drivers."""

import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import URL, create_engine, make_url
from sqlalchemy.ext.asyncio import create_async_engine

from penstock import Outbox
from penstock.database.dialects import open_database
from penstock.database.naming import Names
from penstock.database.url import plain_url
from penstock.errors import InvalidUrl
from penstock.log.store import open_store

PLAIN = [
    ("sqlite:///shop.db", "sqlite:///shop.db"),
    ("sqlite+aiosqlite:///shop.db", "sqlite:///shop.db"),
    ("sqlite+pysqlite:////srv/shop.db", "sqlite:////srv/shop.db"),
    ("sqlite+aiosqlite:///./a%20b.db", "sqlite:///./a b.db"),
    ("sqlite:///shop.db?timeout=5", "sqlite:///shop.db?timeout=5"),
    ("sqlite+aiosqlite:///shop.db?timeout=2.5&check_same_thread=false", "sqlite:///shop.db?timeout=2.5"),
    ("sqlite:///shop.db?isolation_level=IMMEDIATE&detect_types=3&cached_statements=9", "sqlite:///shop.db"),
    ("memory://name", "memory://name"),
    ("postgresql://u:p@h:5/db", "postgresql://u:p@h:5/db"),
    ("postgres://u:p%40@h/db?sslmode=require", "postgres://u:p%40@h/db?sslmode=require"),
    ("postgresql://h1:1,h2:2/db?target_session_attrs=any", "postgresql://h1:1,h2:2/db?target_session_attrs=any"),
    ("postgresql://h/db?ssl=require", "postgresql://h/db?sslmode=require"),
    ("postgresql://h/db?ssl=true", "postgresql://h/db?sslmode=require"),
]

# What a URL means to the client library; the driver is no part of it.
MEANINGS: list[tuple[str, dict[str, str]]] = [
    ("postgresql+asyncpg://u:p@h/db", {"user": "u", "password": "p", "host": "h", "dbname": "db"}),
    ("postgresql+psycopg://u@h:5433/db", {"user": "u", "host": "h", "port": "5433", "dbname": "db"}),
    ("postgresql+psycopg2://h/db", {"host": "h", "dbname": "db"}),
    ("postgresql+psycopg_async://h/db", {"host": "h", "dbname": "db"}),
    ("postgres+asyncpg://h/db", {"host": "h", "dbname": "db"}),
    (
        "postgresql+asyncpg://us%20er:p%40ss%2F%3A%25+x@h/a%20b",
        {"user": "us er", "password": "p@ss/:%+x", "host": "h", "dbname": "a b"},
    ),
    ("postgresql+asyncpg://u:p/w:?@h/db", {"user": "u", "password": "p/w:?", "host": "h", "dbname": "db"}),
    ("postgresql+asyncpg://u:@h/db", {"user": "u", "host": "h", "dbname": "db"}),
    ("postgresql+psycopg://u@[::1]:5433/db", {"user": "u", "host": "::1", "port": "5433", "dbname": "db"}),
    ("postgresql+asyncpg:///db?host=/run/pg", {"host": "/run/pg", "dbname": "db"}),
    ("postgresql+asyncpg://u@:6/db?host=/run/pg", {"user": "u", "host": "/run/pg", "port": "6", "dbname": "db"}),
    ("postgresql+psycopg://u@/db?host=h1:1&host=h2:2", {"user": "u", "host": "h1,h2", "port": "1,2", "dbname": "db"}),
    ("postgresql+asyncpg://u@/db?host=h1:1&host=h2", {"user": "u", "host": "h1,h2", "port": "1,", "dbname": "db"}),
    ("postgresql+asyncpg://u@/db?host=h1:7", {"user": "u", "host": "h1", "port": "7", "dbname": "db"}),
    ("postgresql+psycopg://u@/db?host=h1,h2&port=1,2", {"user": "u", "host": "h1,h2", "port": "1,2", "dbname": "db"}),
    ("postgresql+psycopg://u@h1:1,h2:2/db", {"user": "u", "host": "h1,h2", "port": "1,2", "dbname": "db"}),
    (
        "postgresql+psycopg://h/db?sslmode=verify-full&sslrootcert=/a+b",
        {"host": "h", "dbname": "db", "sslmode": "verify-full", "sslrootcert": "/a b"},
    ),
    ("postgresql+asyncpg://h/db?ssl=verify-ca", {"host": "h", "dbname": "db", "sslmode": "verify-ca"}),
    ("postgresql+asyncpg://h/db?ssl=False", {"host": "h", "dbname": "db", "sslmode": "disable"}),
    ("postgresql+asyncpg://h/db?timeout=2.5", {"host": "h", "dbname": "db", "connect_timeout": "3"}),
    ("postgresql+asyncpg://h/db?direct_tls=true", {"host": "h", "dbname": "db", "sslnegotiation": "direct"}),
    ("postgresql+asyncpg://h/db?direct_tls=false", {"host": "h", "dbname": "db"}),
    ("postgresql+asyncpg://h/db?prepared_statement_cache_size=0&command_timeout=5", {"host": "h", "dbname": "db"}),
    (
        "postgresql+psycopg://h/db?options=-csearch_path%3Dx&prepare_threshold=0",
        {"host": "h", "dbname": "db", "options": "-csearch_path=x"},
    ),
]

REFUSED = [
    ("postgresql+pg8000://u:secret@h/db", "'pg8000' is not one of asyncpg"),
    ("mysql+pymysql://u:secret@h/db", "use one of: sqlite:///file.db"),
    ("sqlite+pysqlcipher:///shop.db", "'pysqlcipher' is not one of aiosqlite"),
    ("sqlite+aiosqlite://", "use one of: sqlite:///file.db"),
    ("sqlite+aiosqlite:///:memory:", "memory://"),
    ("sqlite+aiosqlite://shop.db", "use one of: sqlite:///file.db"),
    ("sqlite:///shop.db?mode=ro", "'mode' has no meaning for a store; Penstock writes"),
    ("sqlite:///file:shop.db?uri=true", "'uri' has no meaning for a store; name the file itself"),
    ("sqlite:///shop.db?cache=shared", "'cache' has no meaning for a store; leave it out"),
    ("sqlite:///shop.db?timeout=soon", "timeout='soon' must be a number of seconds"),
    ("sqlite:///shop.db?timeout=nan", "timeout='nan' must be a number of seconds"),
    ("postgresql://u:secret@h/db?schema=shop", "no option 'schema'; name it by --schema"),
    ("postgresql+asyncpg://u:secret@h/db?server_settings=x", "'server_settings'; write options=-cNAME%3DVALUE"),
    ("postgresql://u:secret@h/db?pgbouncer=true", "no option 'pgbouncer'; leave it out"),
    ("postgresql+asyncpg://u:secret@h/db?ssl=maybe", "ssl='maybe' must be one of disable, allow"),
    ("postgresql+asyncpg://u:secret@h/db?direct_tls=maybe", "direct_tls='maybe' must be true or false"),
    ("postgresql+asyncpg://u:secret@h/db?timeout=0", "timeout='0' must be a number of seconds"),
    ("postgresql+asyncpg://u:secret@/db?host=a:1&host=b:2&port=3", "not in both"),
]


@pytest.mark.parametrize(("given", "plain"), PLAIN)
def test_a_url_has_one_plain_form(given: str, plain: str) -> None:
    assert plain_url(given) == plain
    assert plain_url(plain) == plain


@pytest.mark.parametrize(("given", "meaning"), MEANINGS)
def test_a_drivers_url_means_the_same_database(given: str, meaning: dict[str, str]) -> None:
    plain = plain_url(given)
    assert conninfo_to_dict(plain) == meaning
    assert plain_url(plain) == plain


@pytest.mark.parametrize(("given", "meaning"), MEANINGS)
def test_an_object_of_sqlalchemys_means_what_its_text_means(given: str, meaning: dict[str, str]) -> None:
    if "," in given.partition("?")[0] or "p/w" in given:
        return  # SQLAlchemy cannot read it
    assert conninfo_to_dict(plain_url(make_url(given))) == meaning


@pytest.mark.parametrize(("given", "why"), REFUSED)
def test_what_has_no_meaning_is_refused_by_name(given: str, why: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        Outbox(given)
    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


def test_sqlites_timeout_is_how_long_we_wait(tmp_path: Path) -> None:
    database = open_database(f"sqlite+aiosqlite:///{tmp_path}/shop.db?timeout=7", Names())
    with database.looking() as tx:
        assert tx.conn.execute("PRAGMA busy_timeout").fetchone() == (7000,)
    database.close()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_engine_is_taken_for_its_file(asynchronous: bool, tmp_path: Path) -> None:
    path = tmp_path / "a %20?b.db".replace("?", "")
    engine: Any = (
        create_async_engine(URL.create("sqlite+aiosqlite", database=str(path)))
        if asynchronous
        else create_engine(URL.create("sqlite", database=str(path)))
    )
    outbox = Outbox(engine)
    assert outbox.migrate()
    outbox.close()
    assert path.exists()
    assert outbox.url == f"sqlite:///{path}"
    assert Outbox(engine.url).url == outbox.url


@pytest.mark.parametrize("url", ["postgresql+psycopg://", "sqlite://"])
def test_an_engine_that_names_no_database_is_refused(url: str) -> None:
    """It may be connected by a `creator`."""
    with pytest.raises(InvalidUrl, match=r"names no database|it is not a store"):
        Outbox(make_url(url))


def test_an_address_in_ipv6_and_a_socket_in_an_object() -> None:
    six = URL.create("postgresql+asyncpg", "u", "p@", "::1", 5, "db")
    socket = URL.create("postgresql+psycopg", host="/run/pg", database="d/b")
    assert conninfo_to_dict(plain_url(six)) == {
        "user": "u",
        "password": "p@",
        "host": "::1",
        "port": "5",
        "dbname": "db",
    }
    assert conninfo_to_dict(plain_url(socket)) == {"host": "/run/pg", "dbname": "d/b"}


def test_every_form_of_one_address_reaches_one_server(postgres_url: str) -> None:
    """With a real server: the plain form, each driver's, and an engine's."""
    found = set()
    rest = postgres_url.partition("://")[2]
    forms: list[Any] = [f"{scheme}://{rest}" for scheme in ("postgresql", "postgresql+asyncpg", "postgresql+psycopg2")]
    forms.append(create_engine(f"postgresql+psycopg://{rest}"))
    for form in forms:
        store = open_store(form)
        with store.database.looking() as tx:
            found.add(tx.conn.execute("SELECT current_database(), pg_postmaster_start_time()").fetchone())
        store.close()
    assert len(found) == 1


def test_what_the_address_says_of_the_connection_counts(postgres_url: str) -> None:
    store = open_store(f"{postgres_url}{'&' if '?' in postgres_url else '?'}timeout=3&keepalives_idle=77")
    with store.database.looking() as tx:
        assert isinstance(tx.conn, psycopg.Connection)
        said = tx.conn.info.get_parameters()
    store.close()
    assert (said["connect_timeout"], said["keepalives_idle"], said["keepalives_interval"]) == ("3", "77", "5")


def test_a_drivers_url_needs_no_sqlalchemy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)  # an import of it fails
    Outbox("sqlite+aiosqlite:///x.db").close()
    Outbox("postgresql+asyncpg://h/db?ssl=require").close()
