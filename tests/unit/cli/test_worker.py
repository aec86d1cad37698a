"""`penstock worker`: runs the handlers of a program's outbox until a signal; wrong arguments are named."""

from __future__ import annotations

import logging
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from penstock import Outbox
from penstock.cli import main
from tests.crash.waiting import wait_until
from tests.suites.refusal import refusal
from tests.unit.cli.program import penstock

pytestmark = pytest.mark.usefixtures("brisk")
Run = Callable[..., tuple[object, str]]
PROGRAM = """
import time
from pathlib import Path
from penstock import Outbox, Record

outbox = Outbox("sqlite:///shop.db")
other = "not an outbox"

@outbox.handler(group="g")
def handle(record: Record) -> None:
    with open("seen", "a") as seen:
        print(record.value, file=seen)
    if record.value == "slow":
        time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a program and its database."""
    (tmp_path / "shop.py").write_text(PROGRAM)
    with closing(Outbox(f"sqlite:///{tmp_path}/shop.db")) as outbox:
        outbox.migrate()
    return tmp_path


def publish(folder: Path, value: str) -> None:
    with (
        closing(Outbox(f"sqlite:///{folder}/shop.db")) as outbox,
        closing(sqlite3.connect(folder / "shop.db", timeout=30)) as conn,
        conn,
    ):
        outbox.publish(conn, "t", value, key="k")


def seen(folder: Path) -> list[str]:
    path = folder / "seen"
    return path.read_text().split() if path.exists() else []


@contextmanager
def running(folder: Path, *targets: str) -> Iterator[subprocess.Popen[str]]:
    """Give a worker that is ended at the end, whatever happens."""
    command = penstock("worker", *(targets or ("shop:outbox",)))
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_it_delivers_and_leaves_when_told_to(folder: Path) -> None:
    publish(folder, "one")
    with running(folder) as worker:
        wait_until(lambda: seen(folder) == ["one"], "the event is handled")
        worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "SIGTERM: stopping" in said
    with closing(sqlite3.connect(folder / "shop.db")) as conn:
        assert conn.execute("SELECT count(*) FROM penstock_member").fetchone() == (0,)
        assert conn.execute('SELECT max("offset") FROM penstock_cursor').fetchone() == (1,)


def test_one_process_serves_several_stores(folder: Path) -> None:
    (folder / "other.py").write_text(PROGRAM.replace("shop.db", "other.db").replace('"seen"', '"seen_other"'))
    with closing(Outbox(f"sqlite:///{folder}/other.db")) as outbox:
        outbox.migrate()
        with outbox.transaction() as conn:
            outbox.publish(conn, "t", "two")
    publish(folder, "one")
    with running(folder, "shop:outbox", "other:outbox") as worker:
        wait_until(lambda: seen(folder) == ["one"], "the event of one store is handled")
        wait_until(lambda: (folder / "seen_other").exists(), "that of the other is handled")
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
    assert worker.returncode == 0
    for name in ("shop.db", "other.db"):
        with closing(sqlite3.connect(folder / name)) as conn:
            assert conn.execute("SELECT count(*) FROM penstock_member").fetchone() == (0,)


HANGING = """
import threading
from datetime import timedelta
from penstock import Fixed, Outbox, Record

outbox = Outbox("sqlite:///shop.db")

SOON = Fixed(timedelta(milliseconds=10), max_retries=100_000)

@outbox.handler("hang", group="hangs", timeout=0.05, retry=SOON)
def hang(record: Record) -> None:
    with open("hung", "a") as hung:
        print(record.value, file=hung)
    threading.Event().wait()
"""
GOOD = """
@outbox.handler("t", group="good")
def handle(record: Record) -> None:
    with open("seen", "a") as seen:
        print(record.value, file=seen)
"""


def publish_hanging(folder: Path) -> None:
    """Publish more that hangs than a worker has threads."""
    with closing(Outbox(f"sqlite:///{folder}/shop.db")) as outbox, outbox.transaction() as conn:
        outbox.publish_many(conn, [{"type": "hang", "value": n, "key": f"k-{n}"} for n in range(60)])


@pytest.mark.slow
def test_calls_that_hang_stop_neither_another_group_nor_the_end_of_the_worker(folder: Path) -> None:
    (folder / "shop.py").write_text(HANGING + GOOD)
    publish_hanging(folder)
    with running(folder) as worker:
        wait_until(lambda: len(hung(folder)) >= 8, "as many hang as there are threads")
        for value in range(20):
            publish(folder, str(value))
        wait_until(lambda: len(seen(folder)) == 20, "the other group goes on")
        worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "ERROR   penstock.handlers group hangs (8 calls hang beyond their timeout" in said
    assert len(hung(folder)) <= 3 * 8  # its bound, and what ran when it came to that


@pytest.mark.slow
def test_a_worker_all_of_whose_groups_hang_leaves_with_a_last_word(folder: Path) -> None:
    (folder / "shop.py").write_text(HANGING)
    publish_hanging(folder)
    with running(folder) as worker:
        _, said = worker.communicate(timeout=60)
    assert worker.returncode == 1
    last = said.strip().splitlines()[-1]
    assert "no group is served here any more: group hangs (" in last
    assert "Restart the process" in last
    with closing(sqlite3.connect(folder / "shop.db")) as conn:
        assert conn.execute("SELECT count(*) FROM penstock_member").fetchone() == (0,)


def hung(folder: Path) -> list[str]:
    path = folder / "hung"
    return path.read_text().split() if path.exists() else []


@pytest.fixture
def refused(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run a worker that ends at once, in this process; give its exit code and what it said."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    logger, known = logging.getLogger("penstock"), set(sys.modules)
    handlers, level = [*logger.handlers], logger.level

    def run(*arguments: str) -> tuple[object, str]:
        left = refusal(SystemExit, main, ["worker", *arguments])
        return left.code, capsys.readouterr().err

    yield run
    logger.handlers[:] = handlers
    logger.setLevel(level)
    for name in ("shop", "broken", "bare"):
        if name not in known:
            sys.modules.pop(name, None)


def test_an_outbox_that_is_named_twice_is_refused(refused: Run) -> None:
    for targets in (["shop:outbox", "shop:outbox"], ["shop:outbox", "shop:other"]):
        code, said = refused(*targets)
        assert code == 2
        assert targets[1] in said


def test_a_second_signal_waits_for_no_handler(folder: Path) -> None:
    publish(folder, "slow")
    with running(folder) as worker:
        wait_until(lambda: seen(folder) == ["slow"], "the handler is at work")
        worker.send_signal(signal.SIGTERM)
        assert worker.stderr is not None
        while "SIGTERM: stopping" not in worker.stderr.readline():
            pass
        worker.send_signal(signal.SIGINT)
        _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "SIGINT again: not waiting for handlers" in said
    assert "still runs on t" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shop"], "'shop' must be MODULE:NAME, such as shop:outbox"),
        (["nothing:outbox"], "module 'nothing' is neither here nor installed"),
        (["./shop.py:outbox"], "'./shop.py:outbox' must be MODULE:NAME, such as shop:outbox; name the module"),
        (["shop:nothing"], "shop has no 'nothing'; Outbox there: outbox"),
        (["shop:other"], "shop:other is str, not an Outbox"),
        (["shop:outbox", "--partitions", "5-1"], "'5-1' is not a range such as 0-63"),
        ([], "Missing argument 'MODULE:OUTBOX...'"),
    ],
)
def test_what_is_wrong_with_the_arguments_is_said(refused: Run, arguments: list[str], words: str) -> None:
    code, said = refused(*arguments)
    assert code == 2
    assert words in said
    assert "Traceback" not in said


def test_a_program_that_fails_is_not_taken_for_a_missing_one(folder: Path) -> None:
    (folder / "broken.py").write_text("import a_package_that_is_not_there")
    done = subprocess.run(penstock("worker", "broken:outbox"), cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert "No module named 'a_package_that_is_not_there'" in done.stderr


def test_tables_that_are_missing_are_named_with_the_remedy(folder: Path, refused: Run) -> None:
    (folder / "bare.py").write_text(PROGRAM.replace("shop.db", "bare.db"))
    code, said = refused("bare:outbox")
    assert code == 3
    assert "there is no store at" in said
    assert "run `penstock migrate --url sqlite:///" in said
    assert not (folder / "bare.db").exists()


def test_of_several_stores_no_other_is_named_in_the_remedy(folder: Path, refused: Run) -> None:
    """A command that migrates the wrong store is worse than none."""
    (folder / "bare.py").write_text(PROGRAM.replace("shop.db", "bare.db"))
    code, said = refused("shop:outbox", "bare:outbox")
    assert code == 3
    assert "there is no store at" in said
    assert "bare.db" in said
    assert "shop.db" not in said
