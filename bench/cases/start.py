"""From the start of a lone worker to the first call of a handler, with one event waiting.

Nobody else is there, so it has no reason to wait for others that join. On tables that no worker has used yet,
and on tables that one has left in good order. For these Python is started and everything imported before the
clock runs; `penstock worker` as a whole is measured beside them, without a bound: most of it is imports.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import Case, Extra, NotMeasured, Run, Size, Target, Value, Variant
from bench.stores import EngineOpener, Store, postgres, sqlite
from bench.workers import WorkerProcess, worker_process

_LONGEST_SECONDS = 60.0
_LOOK_SECONDS = 0.002
_PROGRAM = """
import os, time
from penstock import Outbox, Record

outbox = Outbox({url!r})

@outbox.handler(group="bench")
def handle(record: Record) -> None:
    with open({path!r} + ".new", "w") as file:
        file.write(str(time.monotonic_ns()))
    os.rename({path!r} + ".new", {path!r})
"""


@contextmanager
def store_of(run: Run, engine: EngineOpener, *, used: bool) -> Iterator[Store]:
    """Give a store with one event that waits, as it is before the first worker or after one."""
    opened = run.once(engine)
    store = opened.create()
    try:
        if used:
            _publish(store)
            with worker_process(store.url, "first") as worker:
                worker.begin()
                worker.wait(1, _LONGEST_SECONDS)
        _publish(store)
        opened.watch(run)
        yield store
    finally:
        opened.drop(store)


def _publish(store: Store) -> None:
    with closing(store.connect()) as conn:
        store.outbox.publish(conn, "order.placed", {"order_id": 1}, key="one")
        conn.commit()


def standing(engine: EngineOpener, *, used: bool) -> Callable[[Run], AbstractContextManager[WorkerProcess]]:
    """Return the setup: a process that has imported everything and has not begun."""

    @contextmanager
    def made(run: Run) -> Iterator[WorkerProcess]:
        with store_of(run, engine, used=used) as store, worker_process(store.url, "first") as worker:
            run.watch("worker", worker.pid)
            yield worker

    return made


def first_delivery(run: Run, worker: WorkerProcess) -> Extra:
    """Begin, and wait for the first call."""
    begun_ns = time.monotonic_ns()
    worker.begin()
    worker.wait(1, _LONGEST_SECONDS)
    return {"first_delivery_seconds": (worker.stamps()[0] - begun_ns) / 1e9}


@dataclass
class Folder:
    """A folder with a program in it, and the file that its handler writes."""

    path: Path
    written: Path


def program(engine: EngineOpener) -> Callable[[Run], AbstractContextManager[Folder]]:
    """Return the setup: a program on a store that no worker has used yet."""

    @contextmanager
    def made(run: Run) -> Iterator[Folder]:
        with store_of(run, engine, used=False) as store, TemporaryDirectory(prefix="penstock-bench-") as name:
            folder = Folder(Path(name), Path(name) / "written")
            (folder.path / "shop.py").write_text(_PROGRAM.format(url=store.url, path=str(folder.written)))
            yield folder

    return made


def first_delivery_of_the_command(run: Run, folder: Folder) -> Extra:
    """Start `penstock worker`, and wait for the first call."""
    begun_ns = time.monotonic_ns()
    process = subprocess.Popen(
        [sys.executable, "-c", "from penstock.cli import main; main()", "worker", "shop:outbox"],
        cwd=folder.path,
        env=os.environ,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not folder.written.exists():
            if process.poll() is not None or time.monotonic_ns() - begun_ns > _LONGEST_SECONDS * 1e9:
                raise NotMeasured("the command delivered nothing")
            time.sleep(_LOOK_SECONDS)
    finally:
        process.terminate()
        process.wait()
    return {"first_delivery_seconds": (int(folder.written.read_text()) - begun_ns) / 1e9}


def on(engine: EngineOpener, name: str) -> list[Variant[WorkerProcess] | Variant[Folder]]:
    """Return the variants of one engine."""
    return [
        Variant(f"new tables, {name}", first_delivery, setup=standing(engine, used=False)),
        Variant(f"used tables, {name}", first_delivery, setup=standing(engine, used=True)),
        Variant(f"the command, {name}", first_delivery_of_the_command, setup=program(engine)),
    ]


def targets(name: str) -> list[Target]:
    """Return what is asked of one engine."""
    return [
        Target(
            f"first_delivery{suffix}_{name.lower()}",
            Value(f"{tables}, {name}", "first_delivery_seconds"),
            at_most=0.5,
        )
        for suffix, tables in (("", "new tables"), ("_again", "used tables"))
    ]


CASE = Case(
    name="start",
    about="start of a lone worker to the first call of a handler",
    rounds=Size(quick=3, full=7),
    variants=[*on(postgres, "PostgreSQL"), *on(sqlite, "SQLite")],
    targets=[*targets("PostgreSQL"), *targets("SQLite")],
)
