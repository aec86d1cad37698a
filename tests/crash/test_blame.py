"""Who is blamed for the death of a process, and what comes again marked: whole worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from textwrap import dedent

import pytest

from penstock import Outbox
from tests.crash.children import SOURCE
from tests.crash.store import Store
from tests.crash.waiting import wait_until
from tests.unit.cli.program import penstock

pytestmark = pytest.mark.slow

_HEAD = """
import os, signal, time
from pathlib import Path
from penstock import Fixed, Outbox, Record

HERE = Path(__file__).parent
outbox = Outbox({url!r})

def tell(record: Record) -> None:
    with open(HERE / "diary", "a") as diary:
        diary.write(f"{{record.key}} {{record.value}} {{record.redelivered}}\\n")

def once(name: str) -> bool:
    try:
        (HERE / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
"""


class App:
    """A program with handlers, in a file of its own, run by `penstock worker`."""

    def __init__(self, url: str, folder: Path, handlers: str) -> None:
        self.url, self.folder = url, folder
        (folder / "app.py").write_text(_HEAD.format(url=url) + dedent(handlers))
        self.running: list[subprocess.Popen[bytes]] = []
        with closing(Outbox(url)) as outbox:
            outbox.migrate()

    def publish(self, *events: tuple[str, str, int]) -> None:
        """Publish events of a type, a key and a value, in one transaction."""
        with closing(Outbox(self.url)) as outbox, outbox.transaction() as conn:
            outbox.publish_many(conn, [{"type": type, "key": key, "value": value} for type, key, value in events])

    def start(self) -> subprocess.Popen[bytes]:
        """Start a worker."""
        env = os.environ | {
            "PYTHONPATH": f"{self.folder}{os.pathsep}{SOURCE}",
            "PENSTOCK_CLUSTER_GATHER_JOINS": "0",
            "PENSTOCK_CLUSTER_REBALANCE_INTERVAL": "1",
        }
        with open(self.folder / "worker.log", "ab") as log:
            process = subprocess.Popen(
                penstock("worker", "app:outbox"), cwd=self.folder, env=env, stdout=log, stderr=log
            )
        self.running.append(process)
        return process

    def diary(self) -> list[tuple[str, int, bool]]:
        """Return what handlers were called with, as they began: key, value, redelivered."""
        path = self.folder / "diary"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(key, int(value), marked == "True") for key, value, marked in map(str.split, lines)]

    def until(self, is_so: Callable[[list[tuple[str, int, bool]]], bool], what: str) -> None:
        """Wait until the diary is so."""
        wait_until(lambda: is_so(self.diary()), what)


Make = Callable[[str], App]


@pytest.fixture
def make(store: Store, tmp_path: Path) -> Iterator[Make]:
    """Give a way to make a program with these handlers."""
    made: list[App] = []

    def app(handlers: str) -> App:
        made.append(App(store.url, tmp_path, handlers))
        return made[-1]

    yield app
    for process in [each for one in made for each in one.running if each.poll() is None]:
        process.kill()
        process.wait()


def test_a_record_of_one_group_that_kills_does_no_harm_to_a_slow_one_of_another(make: Make, store: Store) -> None:
    """D1: the slow one was in work each time, in the same process."""
    app = make(
        """
        @outbox.handler("bad", group="bad")
        def bad(record: Record) -> None:
            time.sleep(0.3)
            os._exit(9)

        @outbox.handler("good", group="slow")
        def slow(record: Record) -> None:
            tell(record)
            time.sleep(1)
            with open(HERE / "done", "a") as done:
                done.write(f"{record.value} ")
        """
    )
    app.publish(("good", "innocent", 1), ("good", "innocent", 2), ("bad", "poison", 0))
    done = app.folder / "done"

    def is_done() -> bool:
        return done.exists() and done.read_text() == "1 2 "

    while not is_done():
        assert len(app.running) < 8
        process = app.start()
        wait_until(lambda process=process: process.poll() is not None or is_done(), "it ends or all is done")  # type: ignore[misc]
    assert store.rows("SELECT count(*) FROM penstock_dead") == [(0,)]
    assert store.rows("SELECT lane, reason FROM penstock_lane WHERE due_ms > 0") in (
        [],
        [("poison", "killed its worker 3 times")],
    )


def test_kills_from_outside_blame_nobody(make: Make, store: Store) -> None:
    """D1b: two slow records are in work in each of eight processes that are killed."""
    app = make(
        """
        @outbox.handler(None, group="g")
        def slow(record: Record) -> None:
            tell(record)
            time.sleep(0.01 if (HERE / "fast").exists() else 600)
        """
    )
    app.publish(("e", "a", 1), ("e", "b", 2))
    for _ in range(8):
        before = len(app.diary())
        process = app.start()
        app.until(lambda diary, before=before: len(diary) > before, "something is in work")  # type: ignore[misc]
        process.kill()
        process.wait()
    assert store.rows("SELECT count(*) FROM penstock_dead") == [(0,)]


def test_what_was_in_work_behind_a_parked_record_comes_again_marked(make: Make, store: Store) -> None:
    """D3: the first fails once; on its retry the second goes out in the same run, and the process dies."""
    app = make(
        """
        @outbox.handler(None, group="g", retry=Fixed(delay=0.5, max_retries=5))
        def handle(record: Record) -> None:
            tell(record)
            if record.value == 0 and record.attempt == 1 and once("parked"):
                raise RuntimeError("parked")
            if record.value == 1 and once("killed"):
                os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    app.publish(*(("e", "k", value) for value in range(3)))
    assert app.start().wait() == -signal.SIGKILL
    app.start()
    app.until(lambda diary: ("k", 2) in [each[:2] for each in diary], "all are handled")
    assert [marked for _, value, marked in app.diary() if value == 1] == [False, True]


def test_what_a_failed_unit_had_in_work_comes_again_marked_after_an_orderly_stop(make: Make, store: Store) -> None:
    """D3: the second of three in one transaction fails while the worker is told to stop."""
    app = make(
        """
        @outbox.handler(None, group="g", transaction=True)
        def handle(record: Record) -> None:
            tell(record)
            if record.value == 2 and once("failed"):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.5)
                raise RuntimeError("the first time fails")
        """
    )
    app.publish(*(("e", "k", value) for value in (1, 2, 3)))
    assert app.start().wait() == 0
    app.start()
    app.until(lambda diary: ("k", 3) in [each[:2] for each in diary], "all are handled")
    marks = [marked for _, value, marked in app.diary() if value == 2]
    assert marks[0] is False
    assert all(marks[1:])


def test_what_an_undone_unit_has_called_comes_again_marked_after_a_kill(make: Make, store: Store) -> None:
    """A late record undoes a large unit; the next ones have time for a few records each, and one dies."""
    app = make(
        """
        again = []  # what is called after the failure

        @outbox.handler(None, group="g", transaction=True)
        def handle(record: Record) -> None:
            tell(record)
            if record.value == 290 and once("failed"):
                raise RuntimeError("the first time fails")
            if (HERE / "failed").exists() and not (HERE / "killed").exists():
                again.append(record.value)
                time.sleep(0.03)
                if len(again) == 5 and once("killed"):
                    os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    app.publish(*(("e", "k", value) for value in range(300)))
    assert app.start().wait() == -signal.SIGKILL
    before = app.diary()
    called = {value for _, value, _ in before}
    assert 290 - before[-1][1] > 40, "much of the unit was called and is still to come"
    app.start()
    app.until(lambda diary: ("k", 299) in [each[:2] for each in diary[len(before) :]], "all are handled")
    assert [each for each in app.diary()[len(before) :] if each[1] in called and not each[2]] == []


def test_what_a_stop_leaves_behind_in_a_unit_comes_again_marked(
    make: Make, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handler is still in the call when the grace period is over: nobody waits for it any more."""
    if store.url.startswith("sqlite"):
        pytest.skip("the call holds the only writer: the stop has to wait for it")
    monkeypatch.setenv("PENSTOCK_PROCESSING_SHUTDOWN_TIMEOUT", "0.2")
    app = make(
        """
        @outbox.handler(None, group="g", transaction=True)
        def handle(record: Record) -> None:
            tell(record)
            if record.value == 2 and once("left"):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(5)
        """
    )
    app.publish(*(("e", "k", value) for value in (1, 2, 3)))
    assert app.start().wait() == 0
    assert (app.folder / "worker.log").read_text().count("still runs on") == 1
    app.start()
    app.until(lambda diary: ("k", 3) in [each[:2] for each in diary], "all are handled")
    assert [marked for _, value, marked in app.diary() if value == 2] == [False, True]
    first = [marked for _, value, marked in app.diary() if value == 1]
    assert first in ([False], [False, True])  # it may have been a unit of its own, and written down
