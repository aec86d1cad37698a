"""Workers that run while the tables change under them, and those that find the tables only later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from penstock import Outbox, Record
from penstock.database import bell_listener
from penstock.errors import SchemaMissing, SchemaTooNew, SchemaUnreleased
from tests.conformance.engines import connect
from tests.conformance.next_release import KNOWN
from tests.crash.waiting import wait_until

LOOPS = {f"penstock-{name}" for name in ("membership", "delivery", "sequencer", "retention")}


def change(url: str, statement: str) -> None:
    """Run one statement of the test's own."""
    with closing(connect(url)) as conn:
        conn.execute(statement)
        conn.commit()


def state(url: str, version: int, usable_from: int) -> None:
    """Let the tables say that they are of a version, and for which code, in one transaction."""
    change(
        url,
        "UPDATE penstock_meta SET value = "
        f"CASE name WHEN 'schema_version' THEN '{version}' ELSE '{usable_from}' END "
        "WHERE name IN ('schema_version', 'usable_from')",
    )


def facts(url: str) -> list[Any]:
    """Return who is there, who owns what, and how far the groups are; leases apart."""
    with closing(connect(url)) as conn:
        return [
            sorted(conn.execute(query).fetchall())
            for query in (
                "SELECT id FROM penstock_member",
                "SELECT slot, owner, epoch FROM penstock_slot",
                'SELECT partition, owner, epoch, version, "offset" FROM penstock_cursor',
                "SELECT count(*) FROM penstock_staged",
            )
        ]


@pytest.fixture
def outbox(url: str, brisk: None) -> Iterator[Outbox]:
    """Give an outbox on tables of this version."""
    with closing(Outbox(url)) as made:
        made.migrate()
        yield made


@pytest.fixture
def seen(outbox: Outbox) -> list[Record]:
    """Give what the one handler is given."""
    found: list[Record] = []
    outbox.handler(group="g", id="note")(lambda record: found.append(record))
    return found


def publish(outbox: Outbox) -> None:
    with outbox.transaction() as conn:
        outbox.publish(conn, "t", 1, key="k")


@contextmanager
def in_a_thread(run: Callable[[], None]) -> Iterator[Future[None]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(run)


@pytest.mark.parametrize("is_async", [False, True], ids=["run", "arun"])
def test_a_worker_goes_on_as_long_as_it_can_use_the_tables_and_then_ends_with_a_word(
    outbox: Outbox, url: str, seen: list[Record], is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock")
    until = Event()
    run = (lambda: asyncio.run(outbox.arun())) if is_async else (lambda: outbox.run(until=until))
    with in_a_thread(run) as ended:
        try:
            publish(outbox)
            wait_until(lambda: len(seen) == 1, "it is at work")
            state(url, KNOWN + 1, KNOWN)
            words = "can still use it; update when you can"
            wait_until(lambda: words in caplog.text, "it tells of the newer tables")
            publish(outbox)
            wait_until(lambda: len(seen) == 2, "it goes on")
            wait_until(lambda: facts(url)[-1] == [(0,)], "all is moved")
            state(url, KNOWN + 2, KNOWN + 1)
            with pytest.raises(SchemaTooNew, match=f"can be used from version {KNOWN + 1} on"):
                ended.result(60)
        finally:
            until.set()
    assert caplog.text.count(words) == 1
    assert "this worker ends: the database has schema version" in caplog.text


def test_a_worker_that_is_refused_writes_nothing_more(
    outbox: Outbox, url: str, seen: list[Record], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither what it has handled nor that it leaves: it cannot know any more what such a row means."""

    async def main() -> None:
        async with outbox.running():
            publish(outbox)
            await asyncio.to_thread(wait_until, lambda: len(seen) == 1, "it is at work")
            state(url, KNOWN + 2, KNOWN + 1)
            ended = lambda: not LOOPS & names_of_threads()  # noqa: E731
            await asyncio.to_thread(wait_until, ended, "its loops have ended, and the block goes on")
            publish(outbox)
            before.extend(facts(url))
            assert "can be used from version" in outbox.health().refusal
            assert not outbox.health().is_well

    before: list[Any] = []

    asyncio.run(main())
    assert facts(url) == before
    assert len(seen) == 1
    assert "this worker ends: the database has schema version" in caplog.text
    assert before[0] != []  # that it leaves is not written either


def names_of_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


WRONG = {
    "none": ([], SchemaMissing),
    "unreleased": (["UPDATE penstock_meta SET value = '2' WHERE name = 'schema_version'"], SchemaUnreleased),
    "newer": (["UPDATE penstock_meta SET value = '99' WHERE name IN ('schema_version', 'usable_from')"], SchemaTooNew),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.usefixtures("brisk")
def test_tables_that_are_found_late_are_checked_then(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker waits for a database that is away; that it comes back does not make it the right one."""
    statements, error = WRONG[case]
    made, wanted = tmp_path / "made", tmp_path / "not yet"
    made.mkdir()
    with closing(Outbox(f"sqlite:///{made}/shop.db")) as maker:
        if case != "none":
            maker.migrate()
        for statement in statements:
            change(maker.url, statement)
    until = Event()
    with (
        closing(Outbox(f"sqlite:///{wanted}/shop.db")) as outbox,
        in_a_thread(lambda: outbox.run(until=until)) as ended,
    ):
        try:
            wait_until(lambda: "waits and retries" in caplog.text, "it waits for its database")
            assert not ended.done()
            made.rename(wanted)
            with pytest.raises(error):
                ended.result(60)
        finally:
            until.set()


def test_a_worker_that_is_refused_while_it_starts_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal comes from a thread of its own, perhaps before the last part of the worker has begun."""
    with closing(Outbox(f"sqlite:///{tmp_path}/shop.db")) as outbox, ThreadPoolExecutor(1) as other:
        outbox.migrate()
        worker, refused = outbox._worker(None, dedicated=False), list[Future[None]]()

        class LateThread(Thread):
            def start(self) -> None:
                refused.append(other.submit(worker._end_refused, SchemaTooNew(99, KNOWN)))
                wait(refused, 0.3)  # it waits for this one, if it is right
                super().start()

        monkeypatch.setattr(bell_listener, "Thread", LateThread)
        worker.start()
        refused[0].result(60)
        worker.stop()
