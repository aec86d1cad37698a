"""Fixtures that give an empty store of each kind; a conftest imports those it wants."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.engines import NAMES, StoreEngine, hasty, memory_url, postgres_schema_url, sqlite_url
from tests.services.postgres import PostgresServer

__all__ = [
    "engine",
    "memory_store",
    "postgres_database",
    "postgres_store",
    "second_memory_store",
    "second_postgresql_store",
    "second_sqlite_store",
    "second_url",
    "sqlite_store",
    "url",
]


@pytest.fixture(scope="session")
def postgres_database(postgres_server: PostgresServer) -> Iterator[str]:
    """Give one PostgreSQL database for many tests, each in a schema of its own: a database each is slow.

    Commits do not wait for the disk: no test here pulls the plug.
    """
    address = postgres_server.create_database()
    hasty(address)
    yield address
    postgres_server.drop_database(address)


@pytest.fixture
def postgres_store(postgres_database: str) -> str:
    """Give the address of an empty place in PostgreSQL that only this test knows."""
    return postgres_schema_url(postgres_database)


@pytest.fixture
def sqlite_store(tmp_path: Path) -> str:
    """Give the address of a file that is not there yet."""
    return sqlite_url(tmp_path)


@pytest.fixture
def memory_store() -> str:
    """Give the address of a store in memory that only this test knows."""
    return memory_url()


@pytest.fixture(params=NAMES)
def url(request: pytest.FixtureRequest) -> str:
    """Give the address of an empty store, of each kind in turn."""
    address: str = request.getfixturevalue(f"{request.param}_store")
    return address


@pytest.fixture
def second_url(url: str, request: pytest.FixtureRequest) -> str:
    """Give a second empty store of the same kind."""
    address: str = request.getfixturevalue(f"second_{url.partition(':')[0]}_store")
    return address


@pytest.fixture
def second_postgresql_store(postgres_database: str) -> str:
    """Give a second empty place in PostgreSQL."""
    return postgres_schema_url(postgres_database)


@pytest.fixture
def second_sqlite_store(tmp_path: Path) -> str:
    """Give a second file."""
    return sqlite_url(tmp_path)


@pytest.fixture
def second_memory_store() -> str:
    """Give a second store in memory."""
    return memory_url()


@pytest.fixture
def engine(url: str) -> Iterator[StoreEngine]:
    """Give a store with its tables made and an outbox on it."""
    opened = StoreEngine(url)
    yield opened
    opened.close()
