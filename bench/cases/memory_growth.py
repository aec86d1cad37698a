"""How much memory the sequencing process comes to hold while it works off a large backlog of large events."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from time import perf_counter, sleep
from typing import NamedTuple

from bench import Case, Extra, NotMeasured, Resident, Run, Size, Target, Value, Variant
from bench.stores import EngineOpener, Load, Store, filled, postgres, sqlite
from bench.stores.mover import count_logged
from bench.stores.service_process import ServiceProcess, service_process

LARGE = Load(value_bytes=1024)
_LONGEST_SECONDS = 900


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


CASE = Case(
    name="memory_growth",
    about="the sequencing process over a backlog of events of 1 KB",
    records=Size(quick=100_000, full=1_000_000),
    rounds=Size(quick=1, full=1),
    variants=[
        Variant("PostgreSQL", work_off, setup=waiting(postgres)),
        Variant("SQLite", work_off, setup=waiting(sqlite)),
    ],
    targets=[
        Target("postgresql", Value("PostgreSQL", "growth_mb"), at_most=100),
        Target("sqlite", Value("SQLite", "growth_mb"), at_most=100),
    ],
)
