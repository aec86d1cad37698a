"""Members of one store, on each engine, with time in the test's hand."""

from collections.abc import Callable, Iterator

import pytest

from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.migrations import migrate
from penstock.database.naming import Names
from penstock.membership import member
from penstock.membership.member import ClusterSettings, Member
from penstock.membership.process import Process
from penstock.testing import FakeClock
from tests.conformance.stores import *  # noqa: F403

Joining = Callable[..., Member]


@pytest.fixture
def clock() -> FakeClock:
    """Give the clock of all members."""
    return FakeClock()


@pytest.fixture
def database(migrated_url: str) -> Iterator[Database]:
    """Give a database with its tables made."""
    opened = open_database(migrated_url, Names())
    migrate(opened)
    yield opened
    opened.close()


@pytest.fixture
def a_member(database: Database, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Joining:
    """Give a function that makes a member and lets it join, as this process or as any other."""

    def joined(process: Process | None = None) -> Member:
        new = Member(database, ClusterSettings(), clock)
        with monkeypatch.context() as patch:
            if process is not None:
                patch.setattr(member, "this_process", lambda: process)
            new.join()
        return new

    return joined
