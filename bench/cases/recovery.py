"""How fast a worker goes on after its predecessor was killed with a backlog.

Eight threads, a handler of 20 ms. The rate before: once the first worker is in its stride. The rate after: in
the ten seconds from the first call of the second worker. What was handed out when the first one died may come
again; that must cost little.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass

from bench import Case, Extra, Run, Size, Target, Value, Variant
from bench.stores import EngineOpener, Load, Store, postgres, sqlite
from bench.workers import WorkerProcess, events, worker_process

BACKLOG = Load(keys=1_000)
BEFORE_SECONDS, AFTER_SECONDS = 5.0, 10.0
_STRIDE_SECONDS = 1.0
_LONGEST_SECONDS = 120.0


@dataclass
class Succession:
    """Two processes on one store, of which neither has begun; the first is to be killed."""

    first: WorkerProcess
    second: WorkerProcess


def succession(engine: EngineOpener) -> Callable[[Run], AbstractContextManager[Succession]]:
    """Return the setup: a store with a backlog, and the two."""

    @contextmanager
    def made(run: Run) -> Iterator[Succession]:
        opened = run.once(engine)
        store = opened.create()
        try:
            _publish(store, run.records)
            with ExitStack() as processes:
                workers = [processes.enter_context(worker_process(store.url, "doze")) for _ in range(2)]
                for worker in workers:
                    run.watch("worker", worker.pid)
                opened.watch(run)
                yield Succession(*workers)
        finally:
            opened.drop(store)

    return made


def _publish(store: Store, records: int) -> None:
    with closing(store.connect()) as conn:
        for chunk in events(BACKLOG, records):
            store.outbox.publish_many(conn, chunk)
        conn.commit()


def recover(run: Run, at: Succession) -> Extra:
    """Let the first work, kill it, let the second go on."""
    at.first.begin()
    before = _rate(at.first, BEFORE_SECONDS, after_seconds=_STRIDE_SECONDS)
    os.kill(at.first.pid, signal.SIGKILL)
    killed_ns = time.monotonic_ns()
    at.second.begin()
    taken_over_ns = at.second.wait(1, _LONGEST_SECONDS).moment_ns
    assert taken_over_ns is not None
    after = _rate(at.second, AFTER_SECONDS)
    return {
        "before_per_second": before,
        "after_per_second": after,
        "taken_over_seconds": (taken_over_ns - killed_ns) / 1e9,
        "rate": after / before,
    }


def _rate(worker: WorkerProcess, seconds: float, *, after_seconds: float = 0.0) -> float:
    """Return how many a second it handles for a while, from its first call or some time after it."""
    worker.wait(1, _LONGEST_SECONDS)
    time.sleep(after_seconds + seconds)
    stamps = worker.stamps()
    since = stamps[0] + after_seconds * 1e9
    return sum(since <= each < since + seconds * 1e9 for each in stamps) / seconds


CASE = Case(
    name="recovery",
    about="the rate after a worker was killed with a backlog, beside the rate before",
    records=8_000,
    rounds=Size(quick=1, full=3),
    variants=[
        Variant("PostgreSQL", recover, setup=succession(postgres)),
        Variant("SQLite", recover, setup=succession(sqlite)),
    ],
    targets=[
        Target("rate_postgresql", Value("PostgreSQL", "rate"), at_least=0.7),
        Target("rate_sqlite", Value("SQLite", "rate"), at_least=0.7),
    ],
)
