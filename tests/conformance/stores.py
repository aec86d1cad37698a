"""Fixtures that give a store of each kind, empty or with its tables made; a conftest imports them all."""

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from penstock.log.contract import Log
from penstock.log.files.log import FileLog
from penstock.log.store import open_store
from tests.conformance.engines import (
    DATABASES,
    NAMES,
    StoreEngine,
    emptied,
    hasty,
    learn_to_empty,
    memory_url,
    migrated,
    postgres_schema_url,
    sqlite_url,
)
from tests.services.postgres import PostgresServer
from tests.suites.list_log import ListLog

__all__ = [
    "_sqlite_template",
    "engine",
    "file_log",
    "kind",
    "memory_store",
    "migrated_files",
    "migrated_lists",
    "migrated_memory",
    "migrated_postgres",
    "migrated_sqlite",
    "migrated_url",
    "postgres_database",
    "postgres_engine",
    "postgres_store",
    "second_url",
    "sqlite_engine",
    "sqlite_store",
    "url",
]


@pytest.fixture(params=DATABASES)
def kind(request: pytest.FixtureRequest) -> str:
    """Give the name of each database in turn; `on_every_engine` adds the one in memory."""
    name: str = request.param
    return name


@pytest.fixture(name="kind", params=(*DATABASES, "lists", "files"))
def kind_or_lists(request: pytest.FixtureRequest) -> str:
    """Give each database, and stores whose log is not in it but in lists or files; import it to ask all."""
    name: str = request.param
    return name


on_every_engine = pytest.mark.parametrize("kind", [*NAMES, "lists", "files"], indirect=True)


# For a test about the rows of a log in the database: where the log is elsewhere there is nothing to ask.
sql_log_only = pytest.mark.parametrize("kind", DATABASES, indirect=True)


# --- empty stores ------------------------------------------------------------------------------


@cache
def _database(server: PostgresServer) -> str:
    """Return the one database of this process; the run's server, and all in it, is thrown away at the end."""
    address = server.create_database()
    hasty(address)
    return address


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> str:
    """Give a database that many tests share, each in a schema of its own: one each would be slow."""
    return _database(postgres_server)


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


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str:
    """Give the address of an empty store, of each kind in turn."""
    address: str = request.getfixturevalue(f"{kind}_store")
    return address


@pytest.fixture
def second_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give a second empty store of the same kind."""
    if kind == "postgres":
        return postgres_schema_url(request.getfixturevalue("postgres_database"))
    return memory_url() if kind == "memory" else sqlite_url(tmp_path)


# --- stores with their tables made -------------------------------------------------------------


@cache
def _migrated_schema(database_url: str) -> str:
    address = migrated(postgres_schema_url(database_url))
    learn_to_empty(address)
    return address


@pytest.fixture
def migrated_postgres(postgres_database: str) -> str:
    """Give the one place in PostgreSQL that has its tables, emptied of what the test before has left."""
    return emptied(_migrated_schema(postgres_database))


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    return Path(migrated(sqlite_url(folder)).removeprefix("sqlite:///"))


@pytest.fixture
def migrated_sqlite(_sqlite_template: Path, sqlite_store: str) -> str:
    """Give a file that has its tables."""
    shutil.copyfile(_sqlite_template, sqlite_store.removeprefix("sqlite:///"))
    return sqlite_store


@pytest.fixture
def migrated_memory(memory_store: str) -> str:
    """Give a store in memory; its tables are made by whoever holds it first."""
    return memory_store


@pytest.fixture
def migrated_url(kind: str, request: pytest.FixtureRequest) -> str:
    """Give the address of a store with its tables made, of each kind in turn."""
    address: str = request.getfixturevalue(f"migrated_{kind}")
    return address


@pytest.fixture
def migrated_lists(migrated_sqlite: str) -> str:
    """Give the database of a store whose log is not in it."""
    return migrated_sqlite


@pytest.fixture
def migrated_files(migrated_sqlite: str) -> str:
    """Give the database of a store whose log is in files, with tables of its own."""
    return migrated_sqlite


@pytest.fixture
def engine(kind: str, migrated_url: str, request: pytest.FixtureRequest) -> Iterator[StoreEngine]:
    """Give a store with its tables made and an outbox on it."""
    made: dict[str, Callable[[], Log]] = {"lists": ListLog, "files": lambda: request.getfixturevalue("file_log")}
    opened = StoreEngine(migrated_url, made[kind]() if kind in made else None)
    yield opened
    opened.close()


@pytest.fixture
def file_log(tmp_path: Path, _sqlite_template: Path) -> Iterator[FileLog]:
    """Give an empty log in files, with its tables made."""
    (tmp_path / "log").mkdir(mode=0o700)
    shutil.copyfile(_sqlite_template, tmp_path / "log" / "penstock.db")
    store = open_store(f"{tmp_path}/log/")
    assert isinstance(store.log, FileLog)
    yield store.log
    store.close()


@pytest.fixture
def sqlite_engine(migrated_sqlite: str) -> Iterator[StoreEngine]:
    """Give a store in a file."""
    opened = StoreEngine(migrated_sqlite)
    yield opened
    opened.close()


@pytest.fixture
def postgres_engine(migrated_postgres: str) -> Iterator[StoreEngine]:
    """Give a store in PostgreSQL."""
    opened = StoreEngine(migrated_postgres)
    yield opened
    opened.close()
