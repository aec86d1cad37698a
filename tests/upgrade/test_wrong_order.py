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
from penstock.errors import SchemaBehind, SchemaError, SchemaTooNew
from penstock.operate.drop import drop
from tests.unit.cli.program import penstock
from tests.upgrade.kept import VERSION, KeptStore, chain

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


def newest() -> int:
    """Return the newest version of the tables that this program knows."""
    return int(chain()[-1].split()[0])


@pytest.fixture
def behind(kept: KeptStore) -> KeptStore:
    """Give a store that is to be migrated; while there is nothing newer, only its number says so."""
    if newest() == VERSION:
        kept.version(lambda found: found - 1)
    return kept


@pytest.fixture
def too_new(kept: KeptStore) -> KeptStore:
    """Give a store that the next version has migrated, and that only it can use."""
    kept.outbox.migrate()
    kept.version(lambda found: found + 1)
    kept.contract()
    return kept


@pytest.fixture
def newer(kept: KeptStore) -> KeptStore:
    """Give a store that the next version has migrated, and that this one can still use."""
    kept.outbox.migrate()
    kept.version(lambda found: found + 1)
    return kept


def says_only(
    store: KeptStore, error: type[SchemaError], words: str, *starts: Callable[[Outbox], object]
) -> None:
    """See that each start is refused in one sentence, before anything is written or handled."""
    store.subscribe("mail")
    before = store.contents()
    for start in starts:
        with pytest.raises(error) as caught:
            start(store.outbox)
        assert str(caught.value) == words
    assert store.contents() == before
    assert store.seen == []


def behind_words(store: KeptStore) -> str:
    found = store.version()
    remedy = "run outbox.migrate() or `penstock migrate --url …`"
    return f"the database has schema version {found}, but this Penstock needs {newest()}; {remedy}"


def too_new_words() -> str:
    known = newest()
    found = f"the database has schema version {known + 1} and can be used from version {known + 1} on"
    return f"{found}, but this Penstock knows {known}; update Penstock here"


def test_a_new_worker_on_old_tables_names_the_remedy(behind: KeptStore) -> None:
    says_only(behind, SchemaBehind, behind_words(behind), *STARTS)


def test_a_new_drain_on_old_tables_names_the_remedy(behind: KeptStore) -> None:
    says_only(behind, SchemaBehind, behind_words(behind), Outbox.drain)


def test_an_old_worker_beside_new_tables_says_so(too_new: KeptStore) -> None:
    says_only(too_new, SchemaTooNew, too_new_words(), *STARTS)


def test_an_old_drain_beside_new_tables_says_so(too_new: KeptStore) -> None:
    says_only(too_new, SchemaTooNew, too_new_words(), Outbox.drain)


def test_an_old_program_goes_on_beside_newer_tables_that_it_can_use(newer: KeptStore) -> None:
    assert newer.outbox.migrate() == []
    newer.outbox.run(until=_stopped())
    newer.subscribe("mail")
    assert newer.drained()["mail"]["n-1"] == ["unread/0", "unread/1", "unread/2"]
    assert newer.version() == newest() + 1


def test_an_old_program_does_not_drop_newer_tables(newer: KeptStore) -> None:
    """It would leave those behind that it does not know."""
    before = newer.contents()
    with pytest.raises(SchemaTooNew, match=f"this Penstock knows {newest()}; update Penstock here"):
        drop(newer.outbox, force=True)
    assert newer.contents() == before


def test_an_old_program_does_not_migrate_new_tables(too_new: KeptStore) -> None:
    says_only(too_new, SchemaTooNew, too_new_words(), Outbox.migrate)


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_the_command_worker_on_old_tables_prints_one_sentence(behind: KeptStore) -> None:
    code, said = worker_says(behind)
    found = behind_words(behind).partition(";")[0]
    assert (code, said.startswith(f"error: {found}; run `penstock migrate --url "), said.count("\n")) == (
        1,
        True,
        1,
    )


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_the_command_worker_beside_new_tables_prints_one_sentence(too_new: KeptStore) -> None:
    assert worker_says(too_new) == (1, f"error: {too_new_words()}\n")


def worker_says(store: KeptStore) -> tuple[int, str]:
    """Return how the command ends and what it prints, having seen that it leaves the store alone."""
    Path("shop.py").write_text(PROGRAM.format(url=store.url))
    before = store.contents()
    ended = subprocess.run(penstock("worker", "shop:outbox"), capture_output=True, text=True, timeout=60)
    assert store.contents() == before
    assert not Path("handled").exists()
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def test_what_is_refused_goes_on_once_it_is_migrated(behind: KeptStore) -> None:
    with pytest.raises(SchemaBehind):
        behind.outbox.run(until=_stopped())
    if newest() == VERSION:
        behind.version(lambda found: found + 1)
    behind.outbox.migrate()
    behind.subscribe("mail")
    assert behind.drained()["mail"]["n-1"] == ["unread/0", "unread/1", "unread/2"]
