"""What a worker costs that has nothing to do: statements a second and its share of a core."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from bench import Case, Extra, Run, Size, Target, Value, Variant
from bench.processes import ProcessTree
from bench.stores import EngineOpener, postgres, sqlite
from bench.workers import Team, team

_REST_SECONDS = 5  # until pauses have grown to their longest


def resting(engine: EngineOpener) -> Callable[[Run], AbstractContextManager[Team]]:
    """Return the setup: a worker that has had nothing to do for a while."""

    @contextmanager
    def made(run: Run) -> Iterator[Team]:
        idle = run.once(team(engine, "count"))
        if run.round == 0:
            time.sleep(_REST_SECONDS)
        idle.watch(run)
        yield idle

    return made


def rest(run: Run, idle: Team) -> Extra:
    """Let it be."""
    seconds = run.size(quick=20, full=60) if run.round else 1
    worker = idle.workers[0]
    process = ProcessTree("worker", worker.pid)
    statements, cpu = worker.statements(), process.cpu_seconds() or 0.0
    time.sleep(seconds)
    used = (process.cpu_seconds() or 0.0) - cpu
    run_since = worker.statements() - statements
    cost = {"core_percent": used / seconds * 100}
    return cost | ({"statements_per_second": run_since / seconds} if run_since else {})  # not of SQLite


CASE = Case(
    name="idle_worker",
    about="a worker that has nothing to do",
    rounds=Size(quick=1, full=3),
    variants=[Variant("PostgreSQL", rest, setup=resting(postgres)), Variant("SQLite", rest, setup=resting(sqlite))],
    targets=[
        Target("statements", Value("PostgreSQL", "statements_per_second"), at_most=5),
        Target("core_postgresql", Value("PostgreSQL", "core_percent"), at_most=0.6),
        Target("core_sqlite", Value("SQLite", "core_percent"), at_most=0.6),
    ],
)
