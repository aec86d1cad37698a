"""From the commit of an event to the start of its handler, one event at a time, the worker at rest between.

PostgreSQL: publisher and worker are processes of their own; beside it, how long a bare NOTIFY takes from its
sending by one process until another has it. SQLite: both in one process; beside it, a thread that is woken
and makes one query. The clock starts when the commit has returned: nothing can know of the event before.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from bench import Case, Extra, NotMeasured, Ratio, Run, Size, Target, Variant
from bench.stores import EVEN, Store, empty, postgres, sqlite
from bench.workers import Team, team
from bench.workers.bells import CHANNEL, Listener, Sleeper, listener, sleeper
from bench.workers.jobs import JOBS
from bench.workers.tally import Tally
from penstock import Outbox

_LONGEST_SECONDS = 60.0
_REST_SECONDS = (0.02, 0.08)  # between two events, by chance, so that no poll falls into step


@dataclass
class Bell:
    """Makes something happen once; returns how long it took."""

    ring: Callable[[int], int]  # takes the number of the event, returns nanoseconds


def one_at_a_time(run: Run, bell: Bell) -> Extra:
    """Ring again and again, with rests."""
    times = []
    for number in range(run.records):
        time.sleep(random.uniform(*_REST_SECONDS))
        times.append(bell.ring(number) / 1000)
    cuts = quantiles(times, n=20, method="inclusive")
    return {"latency_p50_us": cuts[9], "latency_p95_us": cuts[18]}


@contextmanager
def worker_of_postgres(run: Run) -> Iterator[Bell]:
    """A worker in a process of its own."""
    made: Team = run.once(team(postgres, "stamp"))
    [worker] = made.workers
    with closing(made.store.connect()) as conn:

        def ring(number: int) -> int:
            before = worker.handled()
            begun_ns = _publish(made.store.outbox, conn, number)
            worker.wait(before + 1, _LONGEST_SECONDS)
            return worker.stamps()[-1] - begun_ns

        yield Bell(ring)


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


@contextmanager
def worker_of_sqlite(run: Run) -> Iterator[Bell]:
    """A worker in this process, on the outbox that publishes."""
    here: _Here = run.once(_worker_here)
    with closing(here.store.connect()) as conn:

        def ring(number: int) -> int:
            before = here.tally.count()
            begun_ns = _publish(here.outbox, conn, number)
            if here.tally.wait(before + 1, _LONGEST_SECONDS) is None:
                raise NotMeasured("the event was not handled")
            return here.tally.stamps[-1] - begun_ns

        yield Bell(ring)


@contextmanager
def wake_up(run: Run) -> Iterator[Bell]:
    """A bare thread and one query, after an equal commit."""
    store = run.once(_bare_sqlite)
    thread: Sleeper = run.once(_sleeping)
    outbox = Outbox(store.url)
    with closing(store.connect()) as conn:
        yield Bell(lambda number: -(_publish(outbox, conn, number) - thread.wake()))


def _publish(outbox: Outbox, conn: Any, number: int) -> int:
    """Publish one event and commit; return when that was done."""
    [event] = EVEN.events(1, number)
    outbox.publish_many(conn, [event])
    conn.commit()
    return time.monotonic_ns()


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


def _once(
    setup: Callable[[Run], AbstractContextManager[Store]],
) -> Callable[[Run], AbstractContextManager[Store]]:
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


CASE = Case(
    name="latency",
    about="commit of an event to the start of its handler, beside a bare wake-up",
    records=Size(quick=40, full=400),
    rounds=Size(quick=3, full=5),
    variants=[
        Variant("Penstock, PostgreSQL", one_at_a_time, setup=worker_of_postgres),
        Variant("bare NOTIFY", one_at_a_time, setup=notification),
        Variant("Penstock, SQLite in process", one_at_a_time, setup=worker_of_sqlite),
        Variant("bare wake-up and query", one_at_a_time, setup=wake_up),
    ],
    targets=[
        Target("postgresql", Ratio("Penstock, PostgreSQL", "bare NOTIFY", "latency_p50_us"), at_most=1.5),
        Target(
            "sqlite",
            Ratio("Penstock, SQLite in process", "bare wake-up and query", "latency_p50_us"),
            at_most=1.5,
        ),
    ],
)
