"""Connections that publish refuses, and errors of the driver that it leaves as they are."""

import sqlite3
import sys
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from penstock import Outbox
from penstock.errors import NoTransaction, UnsupportedConnection
from tests.conformance.callers import modern_sqlite, sqlalchemy_engine
from tests.conformance.engines import StoreEngine


@pytest.mark.parametrize("conn", [None, "sqlite:///x.db", object(), 5])
def test_what_is_no_connection_is_refused(conn: Any) -> None:
    outbox = Outbox("memory://")
    with pytest.raises(UnsupportedConnection, match=r"sqlite3\.Connection, psycopg\.Connection, sqlalchemy"):
        outbox.publish(conn, "t", 1)
    outbox.close()


def refused(outbox: Outbox, conn: Any, remedy: str) -> None:
    """Ask that every way to write is refused, with the remedy, and nothing is written."""
    for call in (
        lambda: outbox.publish(conn, "t", 1),
        lambda: outbox.publish(conn, "t", 1, at=timedelta(hours=1)),
        lambda: outbox.publish_many(conn, [{"type": "t", "value": 1}] * 2),
        lambda: outbox.cancel(conn, "x"),
        lambda: outbox.reschedule(conn, "x", timedelta(hours=1)),
    ):
        with pytest.raises(NoTransaction, match=remedy):
            call()
    assert outbox.drain().sequenced == 0


def test_sqlite3_in_autocommit_is_refused(sqlite_engine: StoreEngine) -> None:
    """The event would be a write of its own."""
    path = sqlite_engine.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        refused(sqlite_engine.outbox, conn, "BEGIN IMMEDIATE")
        conn.execute("BEGIN")
        sqlite_engine.outbox.publish(conn, "t", 1)
        conn.execute("COMMIT")
        with pytest.raises(NoTransaction):
            sqlite_engine.outbox.publish(conn, "t", 1)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has this mode from Python 3.12 on")
def test_sqlite3_in_the_newer_autocommit_is_refused(sqlite_engine: StoreEngine) -> None:
    with closing(modern_sqlite(sqlite_engine.url, autocommit=True)) as conn:
        refused(sqlite_engine.outbox, conn, "BEGIN IMMEDIATE")


def test_psycopg_in_autocommit_is_refused(postgres_engine: StoreEngine) -> None:
    with psycopg.connect(postgres_engine.url, autocommit=True) as conn:
        refused(postgres_engine.outbox, conn, r"conn\.transaction\(\)")
        with conn.transaction():
            postgres_engine.outbox.publish(conn, "t", 1)


@pytest.mark.parametrize("engine_name", ["sqlite_engine", "postgres_engine"])
@pytest.mark.parametrize("kind", [sqlalchemy.Connection, Session], ids=lambda kind: kind.__name__)
def test_sqlalchemy_in_autocommit_is_refused(engine_name: str, kind: type, request: pytest.FixtureRequest) -> None:
    store: StoreEngine = request.getfixturevalue(engine_name)
    with (
        sqlalchemy_engine(store.url, isolation_level="AUTOCOMMIT") as engine,
        engine.connect() if kind is sqlalchemy.Connection else Session(engine) as conn,
    ):
        refused(store.outbox, conn, "AUTOCOMMIT")
        if kind is sqlalchemy.Connection:
            assert not conn.in_transaction(), "the refusal has left a transaction open"


def test_a_closed_sqlite3_connection_raises_its_own_error(sqlite_engine: StoreEngine) -> None:
    conn = sqlite3.connect(sqlite_engine.url.removeprefix("sqlite:///"))
    conn.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        sqlite_engine.outbox.publish(conn, "t", 1)


def test_a_locked_sqlite_file_raises_the_drivers_own_error(sqlite_engine: StoreEngine) -> None:
    path = sqlite_engine.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as first, closing(sqlite3.connect(path, timeout=0)) as second:
        sqlite_engine.outbox.publish(first, "t", 1)
        with pytest.raises(sqlite3.OperationalError, match="database is locked") as caught:
            sqlite_engine.outbox.publish(second, "t", 1)
        assert caught.value.__cause__ is None


def test_a_closed_psycopg_connection_raises_its_own_error(postgres_engine: StoreEngine) -> None:
    conn = psycopg.connect(postgres_engine.url)
    conn.close()
    with pytest.raises(psycopg.OperationalError, match="connection is closed"):
        postgres_engine.outbox.publish(conn, "t", 1)


def ended_by_the_server(conn: Any, url: str) -> None:
    """End a connection from the server's side."""
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (conn.info.backend_pid,))


def test_a_psycopg_connection_that_the_server_ended_raises_its_own_error(postgres_engine: StoreEngine) -> None:
    with closing(psycopg.connect(postgres_engine.url)) as conn:
        postgres_engine.outbox.publish(conn, "t", 1)
        ended_by_the_server(conn, postgres_engine.url)
        with pytest.raises(psycopg.OperationalError) as caught:
            postgres_engine.outbox.publish(conn, "t", 1)
        assert type(caught.value).__module__.startswith("psycopg")
    assert postgres_engine.outbox.drain().sequenced == 0


def test_sqlalchemys_error_comes_with_the_drivers_as_its_cause(postgres_engine: StoreEngine) -> None:
    with sqlalchemy_engine(postgres_engine.url) as engine, engine.connect() as conn:
        postgres_engine.outbox.publish(conn, "t", 1)
        ended_by_the_server(conn.connection.dbapi_connection, postgres_engine.url)
        with pytest.raises(sqlalchemy.exc.OperationalError) as caught:
            postgres_engine.outbox.publish(conn, "t", 1)
        assert isinstance(caught.value.__cause__, psycopg.OperationalError)


def test_an_error_inside_a_broken_transaction_is_the_drivers_own(postgres_engine: StoreEngine) -> None:
    with psycopg.connect(postgres_engine.url) as conn:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            conn.execute("SELECT no_such_column")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            postgres_engine.outbox.publish(conn, "t", 1)
