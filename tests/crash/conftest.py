"""What the crash tests stand on: a prepared database on each engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock import points
from tests.crash.store import Store
from tests.services.budget import level_from_environment
from tests.services.postgres import PostgresServer

TOPICS = {"wide": 256, "eight": 8, "three": 3}
KEYS = [f"k-{number}" for number in range(48)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave SQLite to the long set where a test is slow by itself: the slow set kills on PostgreSQL."""
    if level_from_environment() == "long":
        return
    here = str(Path(__file__).parent)
    left = {each for each in items if str(each.path).startswith(here) and _repeats(each)}
    config.hook.pytest_deselected(items=list(left))
    items[:] = [each for each in items if each not in left]


def _repeats(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    on_sqlite = callspec is not None and "sqlite" in callspec.params.values()
    return on_sqlite and item.get_closest_marker("slow") is not None


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Iterator[None]:
    yield
    points.disarm()


@pytest.fixture(scope="session")
def postgres_place(postgres_server: PostgresServer) -> Iterator[str]:
    """Give the URL of a prepared database that the tests of this process use one after another."""
    url = postgres_server.create_database()
    _prepare(url)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def postgres_store(postgres_place: str) -> Iterator[Store]:
    """Give a prepared, empty store on PostgreSQL."""
    with closing(Store(postgres_place)) as store:
        store.reset()
        yield store


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """Give a prepared store in a SQLite file."""
    url = f"sqlite:///{tmp_path}/shop.db"
    _prepare(url)
    with closing(Store(url)) as store:
        yield store


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Store:
    """Give a prepared store on each engine in turn."""
    given: Store = request.getfixturevalue(f"{request.param}_store")
    return given


def _prepare(url: str) -> None:
    with closing(Store(url)) as store:
        store.prepare(topics=TOPICS, keys=KEYS)
