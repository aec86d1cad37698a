"""From the commit of an event to the start of its handler, one event at a time, the worker at rest between.

PostgreSQL: publisher and worker are processes of their own; beside it, how long a bare NOTIFY takes from its
sending by one process until another has it. SQLite: both in one process; beside it, a thread that is woken
and makes one query. The clock starts when the commit has returned: nothing can know of the event before.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from bench import Case, Extra, NotMeasured, Ratio, Run, Size, Target, Variant
from bench.stores import EVEN, Store, empty, postgres, sqlite
from bench.workers import Team, team
from bench.workers.bells import CHANNEL, Listener, Sleeper, listener, sleeper
from bench.workers.jobs import JOBS
from bench.workers.publishers import ON_POSTGRES, ON_SQLITE, Opener, driver
from bench.workers.tally import Tally
from penstock import Outbox

_LONGEST_SECONDS = 60.0
_REST_SECONDS = (0.02, 0.08)  # between two events, by chance, so that no poll falls into step


@dataclass
class Bell:
    """Makes something happen once; returns how long it took."""

    ring: Callable[[int], int]  # takes the number of the event, returns nanoseconds


Setup = Callable[[Run], AbstractContextManager[Bell]]


def one_at_a_time(run: Run, bell: Bell) -> Extra:
    """Ring again and again, with rests."""
    times = []
    for number in range(run.records):
        time.sleep(random.uniform(*_REST_SECONDS))
        times.append(bell.ring(number) / 1000)
    cuts = quantiles(times, n=20, method="inclusive")
    return {"latency_p50_us": cuts[9], "latency_p95_us": cuts[18]}


def worker_of_postgres(opened: Opener) -> Setup:
    """Return the setup: a worker in a process of its own, and a kind of connection to publish on."""

    @contextmanager
    def made(run: Run) -> Iterator[Bell]:
        at: Team = run.once(team(postgres, "stamp"))
        [worker] = at.workers
        with opened(at.store.outbox, at.store) as publish:

            def ring(number: int) -> int:
                before = worker.handled()
                begun_ns = publish(_event(number))
                worker.wait(before + 1, _LONGEST_SECONDS)
                return worker.stamps()[-1] - begun_ns

            yield Bell(ring)

    return made


@contextmanager
def notification(run: Run) -> Iterator[Bell]:
    """LISTEN and NOTIFY, each on a connection of a process of its own."""
    store = run.once(_bare_postgres)
    heard: Listener = run.once(_listening)
    with closing(store.connect(autocommit=True)) as conn:

        def ring(number: int) -> int:
            begun_ns = time.monotonic_ns()
            conn.execute(f"NOTIFY {CHANNEL}")
            return heard.heard_ns() - begun_ns

        yield Bell(ring)


def worker_of_sqlite(opened: Opener) -> Setup:
    """Return the setup: a worker in this process, on the outbox that publishes."""

    @contextmanager
    def made(run: Run) -> Iterator[Bell]:
        here: _Here = run.once(_worker_here)
        with opened(here.outbox, here.store) as publish:

            def ring(number: int) -> int:
                before = here.tally.count()
                begun_ns = publish(_event(number))
                if here.tally.wait(before + 1, _LONGEST_SECONDS) is None:
                    raise NotMeasured("the event was not handled")
                return here.tally.stamps[-1] - begun_ns

            yield Bell(ring)

    return made


@contextmanager
def wake_up(run: Run) -> Iterator[Bell]:
    """A bare thread and one query, after an equal commit."""
    store = run.once(_bare_sqlite)
    thread: Sleeper = run.once(_sleeping)
    outbox = Outbox(store.url)
    with driver(outbox, store) as publish:
        yield Bell(lambda number: -(publish(_event(number)) - thread.wake()))


def _event(number: int) -> Mapping[str, Any]:
    [event] = EVEN.events(1, number)
    return event


@dataclass
class _Here:
    store: Store
    outbox: Outbox
    tally: Tally


@contextmanager
def _worker_here(run: Run) -> Iterator[_Here]:
    with empty(sqlite)(run) as store:
        outbox, tally = Outbox(store.url), Tally()
        JOBS["stamp"](outbox, tally)
        with outbox._working(None) as worker:  # what `outbox.run` runs; that would stay until it is told
            worker.start()
            try:
                Team(run.once(sqlite), store, []).wait_until_shared(1)
                yield _Here(store, outbox, tally)
            finally:
                worker.stop()
        outbox.close()


def _once(setup: Callable[[Run], AbstractContextManager[Store]]) -> Callable[[Run], AbstractContextManager[Store]]:
    @contextmanager
    def made(run: Run) -> Iterator[Store]:
        with setup(run) as store:
            yield store

    return made


_bare_postgres, _bare_sqlite = _once(empty(postgres)), _once(empty(sqlite))


@contextmanager
def _listening(run: Run) -> Iterator[Listener]:
    with listener(run.once(_bare_postgres).url) as made:
        yield made


@contextmanager
def _sleeping(run: Run) -> Iterator[Sleeper]:
    with sleeper(run.once(_bare_sqlite)) as made:
        yield made


_NOTIFY, _WAKE_UP = "bare NOTIFY", "bare wake-up and query"
_POSTGRES, _SQLITE = "Penstock, PostgreSQL", "Penstock, SQLite in process"  # on the driver itself
_FEW = Size(quick=20, full=200)
_IN_POSTGRES = {f"{kind}, PostgreSQL": opener for kind, opener in ON_POSTGRES.items()}
_IN_SQLITE = {f"{kind}, SQLite": opener for kind, opener in ON_SQLITE.items()}


def _word(variant: str) -> str:
    return variant.replace(",", "").replace(" ", "_").lower()


def _target(name: str, variant: str, bare: str) -> Target:
    return Target(name, Ratio(variant, bare, "latency_p50_us"), at_most=1.5)


CASE = Case(
    name="latency",
    about="commit of an event to the start of its handler, on each kind of connection, beside a bare wake-up",
    records=Size(quick=40, full=400),
    rounds=Size(quick=3, full=5),
    variants=[
        Variant(_POSTGRES, one_at_a_time, setup=worker_of_postgres(driver)),
        *(
            Variant(name, one_at_a_time, setup=worker_of_postgres(opener), records=_FEW)
            for name, opener in _IN_POSTGRES.items()
        ),
        Variant(_NOTIFY, one_at_a_time, setup=notification),
        Variant(_SQLITE, one_at_a_time, setup=worker_of_sqlite(driver)),
        *(
            Variant(name, one_at_a_time, setup=worker_of_sqlite(opener), records=_FEW)
            for name, opener in _IN_SQLITE.items()
        ),
        Variant(_WAKE_UP, one_at_a_time, setup=wake_up),
    ],
    targets=[
        _target("postgresql", _POSTGRES, _NOTIFY),
        _target("sqlite", _SQLITE, _WAKE_UP),
        *(_target(_word(name), name, _NOTIFY) for name in _IN_POSTGRES),
        *(_target(_word(name), name, _WAKE_UP) for name in _IN_SQLITE),
    ],
)
