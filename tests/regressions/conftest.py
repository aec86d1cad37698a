"""What the regression tests stand on: a shop on PostgreSQL, and the stores of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock import points
from tests.conformance.stores import *  # noqa: F403
from tests.crash.store import Store
from tests.regressions.workers import empty, prepare
from tests.services.postgres import PostgresServer


@pytest.fixture(autouse=True)
def _nothing_stays_armed() -> Iterator[None]:
    yield
    points.disarm()


@pytest.fixture(scope="session")
def shop_place(postgres_server: PostgresServer) -> Iterator[str]:
    """Give the URL of a prepared database that the tests of this process use one after another."""
    url = postgres_server.create_database()
    prepare(url)
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def shop(shop_place: str) -> Iterator[Store]:
    """Give a prepared, empty store on PostgreSQL with a ledger."""
    empty(shop_place)
    with closing(Store(shop_place)) as store:
        yield store
