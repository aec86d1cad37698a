"""Publishing and moving while a reader keeps its snapshot open: dead rows cannot be cleaned away.

As fast as one process can: publish a thousand, move them, again, for as long as the snapshot is held. So the
faster we are, the more dead rows are in the way. `first_move_us` and `last_move_us` show the slope: the wall
time of the move per record in the first and in the last tenth.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Any

from bench import Case, Extra, Ratio, Run, Size, Target, Variant
from bench.stores import EVEN, EngineOpener, Mover, empty, mover, postgres, sqlite
from bench.stores.filling import CHUNK

Setup = Callable[[Run], AbstractContextManager[tuple[Mover, Any]]]


def working(engine: EngineOpener, *, held: bool) -> Setup:
    """Return the setup: a mover, a connection to publish on, and the snapshot if it is held."""
    moving = mover(empty(engine))

    @contextmanager
    def made(run: Run) -> Iterator[tuple[Mover, Any]]:
        with ExitStack() as stack:
            mover = stack.enter_context(moving(run))
            conn = stack.enter_context(closing(mover.store.connect()))
            if held:
                stack.enter_context(mover.store.hold_snapshot())
            yield mover, conn

    return made


def work(run: Run, at: tuple[Mover, Any]) -> Extra:
    """Publish and move until the time is over."""
    mover, conn = at
    events = EVEN.events(CHUNK)
    seconds = run.size(quick=10, full=60) if run.round else 1
    moves: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        mover.store.outbox.publish_many(conn, events)
        conn.commit()
        begun = time.perf_counter()
        moved = mover.poll()
        moves.append(time.perf_counter() - begun)
        assert moved == CHUNK, f"{moved} were moved"
    tenth = max(1, len(moves) // 10)
    first, last = (sum(some) / (tenth * CHUNK) * 1e6 for some in (moves[:tenth], moves[-tenth:]))
    return {"records": len(moves) * CHUNK, "first_move_us": first, "last_move_us": last}


def on(engine: EngineOpener, name: str) -> list[Variant[tuple[Mover, Any]]]:
    """Return the variants of one engine."""
    return [
        Variant(f"no snapshot, {name}", work, setup=working(engine, held=False)),
        Variant(f"snapshot held, {name}", work, setup=working(engine, held=True)),
    ]


def target(name: str) -> Target:
    """Return what is asked of one engine."""
    ratio = Ratio(f"snapshot held, {name}", f"no snapshot, {name}", "cpu_us")
    return Target(f"cost_{name.lower()}", ratio, at_most=3)


CASE = Case(
    name="long_snapshot",
    about="publishing and moving beside a reader that keeps its snapshot",
    rounds=Size(quick=2, full=3),
    variants=[*on(postgres, "PostgreSQL"), *on(sqlite, "SQLite")],
    targets=[target("PostgreSQL"), target("SQLite")],
)
