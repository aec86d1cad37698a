"""The PostgreSQL of the tests is real, private and one database per test."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.services.postgres import PostgresServer
from tests.services.postgres_binaries import Account, PostgresUnavailable, find_programs


@pytest.fixture
def other_url(postgres_server: PostgresServer) -> Iterator[str]:
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


def ask(url: str, question: str) -> object:
    with psycopg.connect(url) as conn:
        row = conn.execute(question.encode()).fetchone()
        return row and row[0]


def test_two_databases_are_separate(postgres_url: str, other_url: str) -> None:
    with psycopg.connect(postgres_url) as conn:
        conn.execute("CREATE TABLE orders (id int)")
    assert ask(postgres_url, "SELECT to_regclass('orders')") == "orders"
    assert ask(other_url, "SELECT to_regclass('orders')") is None


def test_the_server_syncs_unless_the_run_says_otherwise(postgres_server: PostgresServer, postgres_url: str) -> None:
    assert ask(postgres_url, "SHOW fsync") == ("on" if postgres_server.fsync else "off")


def test_a_dropped_database_is_gone_though_a_connection_is_open(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database()
    with psycopg.connect(url, autocommit=True) as forgotten:
        postgres_server.drop_database(url)
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_only_its_own_account_reaches_the_server(postgres_url: str) -> None:
    assert ask(postgres_url, "SHOW listen_addresses") == ""
    folder = Path(str(ask(postgres_url, "SHOW unix_socket_directories")))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_starting_twice_is_starting_once(postgres_server: PostgresServer, postgres_url: str) -> None:
    begun = ask(postgres_url, "SELECT pg_postmaster_start_time()")
    postgres_server.start()
    assert ask(postgres_url, "SELECT pg_postmaster_start_time()") == begun


def test_no_programs_at_all_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.services.postgres_binaries._candidates", lambda: iter(()))
    with pytest.raises(PostgresUnavailable, match=r"neither the wheel .* nor initdb"):
        find_programs(Account.choose(), tmp_path)


def test_programs_that_do_not_run_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.services.postgres_binaries._candidates", lambda: iter([tmp_path]))
    with pytest.raises(PostgresUnavailable, match=str(tmp_path)):
        find_programs(Account.choose(), tmp_path)
