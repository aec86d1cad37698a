"""A store with some events on each engine whose stores outlive a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conformance.stores import postgres_database, postgres_store, sqlite_store, url
from tests.upgrade.store import UsedStore

__all__ = ["kind", "postgres_database", "postgres_store", "sqlite_store", "url", "used"]


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """Give the name of each engine whose stores outlive a process."""
    name: str = request.param
    return name


@pytest.fixture
def used(kind: str, url: str) -> Iterator[UsedStore]:
    """Give a store of this release with events that wait for a worker."""
    with closing(UsedStore(kind, url)) as store:
        yield store
