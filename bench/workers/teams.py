"""Worker processes that share one store, joined and at rest between the rounds of a case."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import cache
from typing import Any

from bench.errors import NotMeasured
from bench.run import Run
from bench.stores import Engine, EngineOpener, Load, Store, empty
from bench.stores.filling import CHUNK
from bench.workers.process import WorkerProcess, worker_process

LONGEST_SECONDS = 900.0
_LOOK_SECONDS = 0.01
_SHARED = ("penstock_slot", "penstock_cursor")
_OWNERS = "SELECT coalesce(owner, ''), count(*) FROM {} GROUP BY coalesce(owner, '') ORDER BY 2"
_LEFT = (
    "SELECT (SELECT coalesce(sum(next_offset), 0) FROM penstock_head)"
    ' - (SELECT coalesce(sum("offset"), 0) FROM penstock_cursor)'
)


class Team:
    """The processes on their store; made by `team`."""

    def __init__(
        self, engine: Engine, store: Store, workers: list[WorkerProcess], processes: ExitStack | None = None
    ) -> None:
        self.store = store
        self.workers = workers
        self._engine, self._processes = engine, processes or ExitStack()

    def watch(self, run: Run) -> None:
        """Count the CPU of the workers and of the database."""
        for worker in self.workers:
            run.watch("worker", worker.pid)
        self._engine.watch(run)

    def ring(self) -> None:
        """Tell all workers that something was staged; when no bell rings, or it is late."""
        for worker in self.workers:
            worker.ring()

    def handle(self, count: int, *, keys: int, prefix: str) -> None:
        """Publish events of keys of one kind and wait until they are handled and settled."""
        before = self.handled()
        with closing(self.store.connect()) as conn:
            for chunk in events(Load(keys=keys), count, prefix):
                self.store.outbox.publish_many(conn, chunk)
            conn.commit()
        self.ring()
        self.wait_until_handled(before + count)
        self.wait_until_settled()

    def end(self) -> None:
        """Let all workers leave, and close their connections with their processes."""
        self._processes.close()
        self.store.outbox.close()

    def handled(self) -> int:
        """Return how many all of them have handled so far."""
        return sum(worker.handled() for worker in self.workers)

    def wait_until_handled(self, total: int) -> int:
        """Wait until so many were handled in all; return the moment. Raises NotMeasured."""
        if len(self.workers) == 1:
            moment_ns = self.workers[0].wait(total, LONGEST_SECONDS).moment_ns
            assert moment_ns is not None
            return moment_ns
        wait_for(lambda: self.handled() >= total, "all are handled")
        return time.monotonic_ns()

    def wait_until_settled(self) -> None:
        """Wait until the cursors stand at the end of the log. Raises NotMeasured."""
        with closing(self.store.connect(autocommit=True)) as conn:
            wait_for(lambda: conn.execute(_LEFT).fetchone()[0] == 0, "all is settled")

    def wait_until_shared(self, members: int | None = None) -> None:
        """Wait until slots and cursors are shared evenly among the members. Raises NotMeasured."""
        wanted = len(self.workers) if members is None else members
        with closing(self.store.connect(autocommit=True)) as conn:
            wait_for(lambda: all(_is_shared(conn, each, wanted) for each in _SHARED), "all is shared evenly")


def _is_shared(conn: Any, table: str, members: int) -> bool:
    shares = [tuple(row) for row in conn.execute(_OWNERS.format(table)).fetchall()]
    counts = [count for owner, count in shares if owner]
    return len(counts) == len(shares) == members and counts[-1] - counts[0] <= 1


@cache
def team(engine: EngineOpener, job: str, count: int = 1) -> Callable[[Run], AbstractContextManager[Team]]:
    """Return the opener, for `run.once`, of workers on a store in use that has nothing waiting."""

    @contextmanager
    def opened(run: Run) -> Iterator[Team]:
        with empty(engine)(run) as store, ExitStack() as processes:
            workers = [processes.enter_context(worker_process(store.url, job)) for _ in range(count)]
            made = Team(run.once(engine), store, workers, processes)
            for worker in workers:
                worker.begin()
            made.wait_until_shared()
            yield made

    return opened


def events(load: Load, count: int, key: str | None = None) -> Iterator[list[Mapping[str, Any]]]:
    """Yield events in chunks; with `key` their keys begin so instead."""
    for start in range(0, count, CHUNK):
        chunk = load.events(min(CHUNK, count - start), start)
        if key is not None:
            chunk = [each | {"key": f"{key}{each['key'].removeprefix('order')}"} for each in chunk]
        yield list(chunk)


def wait_for(come: Callable[[], bool], what: str) -> None:
    """Look again and again until something has come. Raises NotMeasured after a long time."""
    end = time.perf_counter() + LONGEST_SECONDS
    while not come():
        if time.perf_counter() > end:
            raise NotMeasured(f"waited {LONGEST_SECONDS:g} s in vain until {what}")
        time.sleep(_LOOK_SECONDS)
