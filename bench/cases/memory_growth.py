"""How much memory a process comes to hold over a large backlog of large events.

The sequencing process works it off. A worker whose handlers are slow only begins to: it reads ahead, and must
stop in time, whether the bytes are in the values or in the headers.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from time import perf_counter, sleep
from typing import NamedTuple

from bench import Case, Extra, NotMeasured, Resident, Run, Size, Target, Value, Variant
from bench.stores import EngineOpener, Load, Store, filled, postgres, sqlite
from bench.stores.mover import count_logged
from bench.stores.service_process import ServiceProcess, service_process
from bench.workers import WorkerProcess, events, worker_process

LARGE = Load(value_bytes=1024)
IN_VALUES, IN_HEADERS = Load(value_bytes=60_000), Load(value_bytes=60, header_bytes=60_000)
_LONGEST_SECONDS = 900
_READING_SECONDS = 15.0  # after its first call a worker has read ahead as far as it does


class Waiting(NamedTuple):
    """A filled store and a process that has not begun to work it off."""

    store: Store
    service: ServiceProcess


def waiting(engine: EngineOpener) -> Callable[[Run], AbstractContextManager[Waiting]]:
    """Return the setup: the staged events, and a process that is ready."""
    staged = filled(engine, LARGE)

    @contextmanager
    def made(run: Run) -> Iterator[Waiting]:
        with staged(run) as store, service_process(store.url) as service:
            run.watch("sequencer", service.pid)
            yield Waiting(store, service)

    return made


def work_off(run: Run, at: Waiting) -> Extra:
    """Let the process begin, and wait until everything is in the log."""
    end = perf_counter() + _LONGEST_SECONDS
    with Resident(at.service.pid) as memory, closing(at.store.connect()) as conn:
        wanted = count_logged(conn) + run.records
        at.service.begin()
        while count_logged(conn) < wanted:
            if perf_counter() > end:
                raise NotMeasured(f"{wanted - count_logged(conn)} records did not arrive")
            sleep(0.1)
        return {"growth_mb": memory.growth_mb(), "peak_mb": memory.peak_mb()}


def unread(engine: EngineOpener, load: Load) -> Callable[[Run], AbstractContextManager[WorkerProcess]]:
    """Return the setup: the staged events, and a worker that has not begun."""

    @contextmanager
    def made(run: Run) -> Iterator[WorkerProcess]:
        opened = run.once(engine)
        store = opened.create()
        try:
            with closing(store.connect()) as conn:
                for chunk in events(load, run.records):
                    store.outbox.publish_many(conn, chunk)
                    conn.commit()
            with worker_process(store.url, "linger") as worker:
                run.watch("worker", worker.pid)
                yield worker
        finally:
            opened.drop(store)

    return made


def read_ahead(run: Run, worker: WorkerProcess) -> Extra:
    """Let the worker begin, and look how much it holds while its handlers take their time."""
    with Resident(worker.pid) as memory:
        worker.begin()
        worker.wait(1, _LONGEST_SECONDS)
        sleep(_READING_SECONDS)
        return {"growth_mb": memory.growth_mb(), "peak_mb": memory.peak_mb()}


_VALUES, _HEADERS = "worker, values of 60 KB", "worker, headers of 60 KB"
_READ = Size(quick=4_000, full=8_000)

CASE = Case(
    name="memory_growth",
    about="the sequencing process over a backlog of events of 1 KB, and a slow worker over one of 60 KB each",
    records=Size(quick=100_000, full=1_000_000),
    rounds=Size(quick=1, full=1),
    variants=[
        Variant("PostgreSQL", work_off, setup=waiting(postgres)),
        Variant("SQLite", work_off, setup=waiting(sqlite)),
        Variant(_VALUES, read_ahead, setup=unread(sqlite, IN_VALUES), records=_READ),
        Variant(_HEADERS, read_ahead, setup=unread(sqlite, IN_HEADERS), records=_READ),
    ],
    targets=[
        Target("postgresql", Value("PostgreSQL", "growth_mb"), at_most=100),
        Target("sqlite", Value("SQLite", "growth_mb"), at_most=100),
        Target("worker_values", Value(_VALUES, "growth_mb"), at_most=200),
        Target("worker_headers", Value(_HEADERS, "growth_mb"), at_most=200),
    ],
)
