"""A store of the last version on each engine, loaded anew for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conformance.stores import postgres_database, postgres_store, sqlite_store, url
from tests.upgrade.kept import KeptStore

__all__ = ["kept", "kind", "postgres_database", "postgres_store", "sqlite_store", "upgraded", "url"]


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """Give the name of each engine whose stores outlive a process."""
    name: str = request.param
    return name


@pytest.fixture
def kept(kind: str, url: str) -> Iterator[KeptStore]:
    """Give the store as the old version has left it."""
    with closing(KeptStore(kind, url)) as store:
        yield store


@pytest.fixture
def upgraded(kept: KeptStore) -> KeptStore:
    """Give the store with its tables brought up to date."""
    kept.outbox.migrate()
    return kept
