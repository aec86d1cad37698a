"""How long a fast group waits beside a group whose sync handlers hold every thread of the process for 15 s.

From the commit of an event to the start of its handler, one event at a time, in a worker of eight threads:
once with the other group at rest, once with more of its events waiting than there are threads.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from statistics import quantiles
from typing import Any

from bench import Case, Extra, Ratio, Run, Size, Target, Variant
from bench.stores import EVEN, EngineOpener, postgres, sqlite
from bench.workers import Team, team
from bench.workers.jobs import HELD
from bench.workers.publishers import Publish, driver
from bench.workers.teams import wait_for

THREADS = 8
_LONGEST_SECONDS = 60.0
_REST_SECONDS = (0.02, 0.08)  # between two events, by chance, so that no poll falls into step


def at_rest(engine: EngineOpener) -> Callable[[Run], AbstractContextManager[Team]]:
    """Return the setup: a worker that serves both groups, of which the slow one has nothing to do."""

    @contextmanager
    def made(run: Run) -> Iterator[Team]:
        at = run.once(team(engine, "stamp_beside_held"))
        wait_for(lambda: at.workers[0].held() == 0, "no call holds a thread")
        yield at

    return made


def held_up(engine: EngineOpener) -> Callable[[Run], AbstractContextManager[Team]]:
    """Return the setup: the same worker, with every thread in a call of the slow group, and more waiting."""

    @contextmanager
    def made(run: Run) -> Iterator[Team]:
        at = run.once(team(engine, "stamp_beside_held"))
        with closing(at.store.connect()) as conn:
            events: list[dict[str, Any]] = [
                {"type": HELD, "key": f"{HELD}-{number}", "value": number} for number in range(2 * THREADS)
            ]
            at.store.outbox.publish_many(conn, events)
            conn.commit()
        at.ring()
        wait_for(lambda: at.workers[0].held() >= THREADS, "all threads are held")
        yield at

    return made


def one_at_a_time(run: Run, at: Team) -> Extra:
    """Publish one event after the other, with rests; return how long they waited for their handler."""
    with driver(at.store.outbox, at.store) as publish:
        times = [_latency_us(at, publish, number) for number in range(run.records)]
    cuts = quantiles(times, n=100, method="inclusive")
    return {"latency_p50_us": cuts[49], "latency_p99_us": cuts[98]}


def _latency_us(at: Team, publish: Publish, number: int) -> float:
    time.sleep(random.uniform(*_REST_SECONDS))
    [worker] = at.workers
    before = worker.handled()
    [event] = EVEN.events(1, number)
    begun_ns = publish(event)
    worker.wait(before + 1, _LONGEST_SECONDS)
    return (worker.stamps()[-1] - begun_ns) / 1000


CASE = Case(
    name="fairness",
    about="a fast group beside one whose handlers hold every thread for 15 s, and alone",
    records=Size(quick=100, full=200),
    rounds=Size(quick=1, full=3),
    variants=[
        Variant("PostgreSQL, alone", one_at_a_time, setup=at_rest(postgres)),
        Variant("PostgreSQL, beside", one_at_a_time, setup=held_up(postgres)),
        Variant("SQLite, alone", one_at_a_time, setup=at_rest(sqlite)),
        Variant("SQLite, beside", one_at_a_time, setup=held_up(sqlite)),
    ],
    targets=[
        Target("postgresql", Ratio("PostgreSQL, beside", "PostgreSQL, alone", "latency_p99_us"), at_most=3.0),
        Target("sqlite", Ratio("SQLite, beside", "SQLite, alone", "latency_p99_us"), at_most=3.0),
    ],
)
