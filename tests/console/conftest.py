"""A store that has something of everything, and a console of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from penstock import Cancel, Outbox, Record
from tests.conformance.stores import *  # noqa: F403
from tests.console.served import ServedConsole


def fill(url: str) -> None:
    """Give a store groups, records, dead letters, a parked key, and an event that is scheduled."""
    with closing(Outbox(url)) as outbox:
        outbox.migrate()

        @outbox.handler("order.*", group="mailer")
        def mail(record: Record) -> Cancel | None:
            if record.key == "parked":
                raise ValueError("not now")
            return Cancel(f"no such customer: {record.key}") if str(record.key).startswith("dead") else None

        @outbox.handler("order.*", group="accounting")
        def book(record: Record) -> None: ...

        with outbox.transaction() as conn:
            for key in ("a-1", "dead-1", "dead-2", "parked", "a-1", "dead-1"):
                outbox.publish(conn, "order.placed", {"of": key}, key=key, headers={"x-who": "ana"})
            outbox.publish(conn, "order.remind", {}, key="later", at=timedelta(hours=1))
        outbox.drain()


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    """Give a console that only shows: the tests of a module share it."""
    url = f"sqlite:///{tmp_path_factory.mktemp('console')}/shop.db"
    fill(url)
    with ServedConsole(url) as served:
        yield served


@pytest.fixture
def acting(sqlite_store: str) -> Iterator[ServedConsole]:
    """Give a console whose visitor has shown the token."""
    fill(sqlite_store)
    with ServedConsole(sqlite_store, allow_actions=True) as served:
        served.unlock()
        yield served
