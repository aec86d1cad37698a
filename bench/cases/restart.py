"""From the start of a worker to its first delivery, when ten thousand lanes wait and when none does.

The worker before it has left in good order; Python is started and everything imported before the clock runs.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass

from bench import Case, Extra, Run, Size, Target, Value, Variant
from bench.stores import Store, postgres
from bench.workers import PARKED, WorkerProcess, team, worker_process

LANES = 10_000
_LONGEST_SECONDS = 120


@contextmanager
def left(run: Run) -> Iterator[Store]:
    """Give a store that a worker has left with nothing waiting."""
    with team(postgres, "park")(run) as made:
        made.end()
        yield made.store


@contextmanager
def left_with_lanes(run: Run) -> Iterator[Store]:
    """Give a store that a worker has left with its lanes waiting."""
    with team(postgres, "park")(run) as made:
        made.handle(LANES, keys=LANES, prefix=PARKED)
        made.end()
        yield made.store


@dataclass
class Standing:
    """A worker that has not begun, and one event for it."""

    worker: WorkerProcess


def standing(
    opener: Callable[[Run], AbstractContextManager[Store]],
) -> Callable[[Run], AbstractContextManager[Standing]]:
    """Return the setup: a copy of a store that was left, an event of another key, a process."""

    @contextmanager
    def made(run: Run) -> Iterator[Standing]:
        engine = run.once(postgres)
        store = engine.copy(run.once(opener))
        try:
            with closing(store.connect()) as conn:
                store.outbox.publish(conn, "order.placed", {"order_id": 1}, key="another")
                conn.commit()
            with worker_process(store.url, "park") as worker:
                run.watch("worker", worker.pid)
                engine.watch(run)
                yield Standing(worker)
        finally:
            engine.drop(store)

    return made


def first_delivery(run: Run, at: Standing) -> Extra:
    """Begin, and wait for the first delivery."""
    begun_ns = time.monotonic_ns()
    at.worker.begin()
    moment_ns = at.worker.wait(1, _LONGEST_SECONDS).moment_ns
    assert moment_ns is not None
    return {"first_delivery_seconds": (moment_ns - begun_ns) / 1e9}


CASE = Case(
    name="restart",
    about="start of a worker to its first delivery, with ten thousand waiting lanes",
    rounds=Size(quick=3, full=5),
    variants=[
        Variant("no lanes", first_delivery, setup=standing(left)),
        Variant("10 000 lanes", first_delivery, setup=standing(left_with_lanes)),
    ],
    targets=[Target("first_delivery", Value("10 000 lanes", "first_delivery_seconds"), at_most=5)],
)
