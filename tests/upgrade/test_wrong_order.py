"""Programs and tables of different versions: whoever meets the other one says so, and touches nothing."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from penstock import Outbox
from penstock.app import run_together
from penstock.errors import SchemaBehind, SchemaError, SchemaTooNew, SchemaUnreleased
from penstock.operate.drop import drop
from tests.conformance.next_release import KNOWN, NEXT, add_next
from tests.unit.cli.program import penstock
from tests.upgrade.store import VALUES, UsedStore

PROGRAM = """
from penstock import Outbox, Record

outbox = Outbox({url!r})

@outbox.handler(group="mail")
def handle(record: Record) -> None:
    open("handled", "a").close()
"""


def _stopped() -> Event:
    """Return what ends a worker at once, should it start after all."""
    until = Event()
    until.set()
    return until


async def _while_running(outbox: Outbox) -> None:
    async with outbox.running():
        pass


STARTS: tuple[Callable[[Outbox], object], ...] = (
    lambda outbox: outbox.run(until=_stopped()),
    lambda outbox: run_together([outbox], until=_stopped()),
    lambda outbox: asyncio.run(outbox.arun()),
    lambda outbox: asyncio.run(_while_running(outbox)),
)


@pytest.fixture
def behind(used: UsedStore, monkeypatch: pytest.MonkeyPatch) -> UsedStore:
    """Give a store that is to be migrated: this process is the next release."""
    add_next(monkeypatch)
    return used


@pytest.fixture
def too_new(used: UsedStore) -> UsedStore:
    """Give a store that the next release has migrated, and that only it can use."""
    used.state(version=NEXT, usable_from=NEXT)
    return used


@pytest.fixture
def newer(used: UsedStore) -> UsedStore:
    """Give a store that the next release has migrated, and that this one can still use."""
    used.state(version=NEXT)
    return used


@pytest.fixture
def unreleased(used: UsedStore) -> UsedStore:
    """Give a store that a version from before the first release has made."""
    used.state(version=16, usable_from=7)
    return used


def says_only(store: UsedStore, error: type[SchemaError], words: str, *starts: Callable[[Outbox], object]) -> None:
    """See that each start is refused in one sentence, before anything is written or handled."""
    store.subscribe()
    before = store.contents()
    for start in starts:
        with pytest.raises(error) as caught:
            start(store.outbox)
        assert str(caught.value) == words
    assert store.contents() == before
    assert store.seen == []


BEHIND = f"the database has schema version {KNOWN}, but this Penstock needs {NEXT}"
MIGRATE = "; run outbox.migrate() or `penstock migrate --url …`"
TOO_NEW = (
    f"the database has schema version {NEXT} and can be used from version {NEXT} on, but this Penstock knows "
    f"{KNOWN}; update Penstock here"
)
UNRELEASED = (
    "the tables have schema version 16, of an unreleased version of Penstock, and cannot be migrated to "
    f"{KNOWN}, the first released one; keep them, drain them with the Penstock that made them, and migrate "
    "another file, database, prefix or schema with this one"
)


def test_a_new_worker_on_old_tables_names_the_remedy(behind: UsedStore) -> None:
    says_only(behind, SchemaBehind, BEHIND + MIGRATE, *STARTS)


def test_a_new_drain_on_old_tables_names_the_remedy(behind: UsedStore) -> None:
    says_only(behind, SchemaBehind, BEHIND + MIGRATE, Outbox.drain)


def test_an_old_worker_beside_new_tables_says_so(too_new: UsedStore) -> None:
    says_only(too_new, SchemaTooNew, TOO_NEW, *STARTS)


def test_an_old_drain_beside_new_tables_says_so(too_new: UsedStore) -> None:
    says_only(too_new, SchemaTooNew, TOO_NEW, Outbox.drain)


def test_a_worker_on_tables_of_an_unreleased_version_names_a_remedy_that_keeps_them(unreleased: UsedStore) -> None:
    says_only(unreleased, SchemaUnreleased, UNRELEASED, *STARTS, Outbox.drain, Outbox.migrate)


def test_an_old_program_goes_on_beside_newer_tables_that_it_can_use(newer: UsedStore) -> None:
    assert newer.outbox.migrate() == []
    newer.outbox.run(until=_stopped())
    newer.subscribe()
    newer.outbox.drain()
    assert newer.seen == VALUES
    assert ("schema_version", str(NEXT)) in newer.contents()["penstock_meta"]


def test_an_old_program_does_not_drop_newer_tables(newer: UsedStore) -> None:
    """It would leave those behind that it does not know."""
    before = newer.contents()
    with pytest.raises(SchemaTooNew, match=f"this Penstock knows {KNOWN}; update Penstock here"):
        drop(newer.outbox, force=True)
    assert newer.contents() == before


def test_an_old_program_does_not_migrate_new_tables(too_new: UsedStore) -> None:
    says_only(too_new, SchemaTooNew, TOO_NEW, Outbox.migrate)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_the_command_worker_beside_new_tables_prints_one_sentence(too_new: UsedStore) -> None:
    assert worker_says(too_new) == (1, f"error: {TOO_NEW}\n")


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_the_command_worker_on_unreleased_tables_prints_one_sentence(unreleased: UsedStore) -> None:
    assert worker_says(unreleased) == (1, f"error: {UNRELEASED}\n")


def worker_says(store: UsedStore) -> tuple[int, str]:
    """Return how the command ends and what it prints, having seen that it leaves the store alone."""
    Path("shop.py").write_text(PROGRAM.format(url=store.url))
    before = store.contents()
    ended = subprocess.run(penstock("worker", "shop:outbox"), capture_output=True, text=True, timeout=60)
    assert store.contents() == before
    assert not Path("handled").exists()
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def test_what_is_refused_goes_on_once_it_is_migrated(behind: UsedStore) -> None:
    with pytest.raises(SchemaBehind):
        behind.outbox.run(until=_stopped())
    behind.outbox.migrate()
    behind.subscribe()
    behind.outbox.drain()
    assert behind.seen == VALUES
