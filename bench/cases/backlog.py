"""The move when much is waiting beside the move when little is: the cost of a record must stay flat.

Both are moved to the last record, on a log of the same age. The small backlog is measured on several equal
stores one after the other: on one it would be over before it can be measured.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from bench import Case, Extra, Ratio, Run, Size, Target, Variant
from bench.stores import EVEN, EngineOpener, Mover, filled, mover, postgres, sqlite

LITTLE = 10_000
STORES = 5
MUCH = Size(quick=200_000, full=1_000_000)

Setup = Callable[[Run], AbstractContextManager[list[Mover]]]


def movers(engine: EngineOpener, *, stores: int, records: int | None) -> Setup:
    """Return the setup that gives movers on equal stores."""
    one = mover(filled(engine, EVEN, records=records))

    @contextmanager
    def made(run: Run) -> Iterator[list[Mover]]:
        with ExitStack() as stack:
            yield [stack.enter_context(one(run)) for _ in range(stores)]

    return made


def drain(run: Run, movers: list[Mover]) -> Extra:
    """Move all that is staged."""
    moved = sum(mover.drain() for mover in movers)
    assert moved == run.records, f"{moved} were moved"
    return None


def on(engine: EngineOpener, name: str) -> list[Variant[list[Mover]]]:
    """Return the variants of one engine."""
    little = movers(engine, stores=STORES, records=LITTLE)
    much = movers(engine, stores=1, records=None)
    return [
        Variant(f"little waits, {name}", drain, setup=little, records=STORES * LITTLE),
        Variant(f"much waits, {name}", drain, setup=much, records=MUCH),
    ]


def target(name: str) -> Target:
    """Return what is asked of one engine."""
    ratio = Ratio(f"much waits, {name}", f"little waits, {name}", "cpu_us")
    return Target(f"flat_{name.lower()}", ratio, at_most=1.15)


CASE = Case(
    name="backlog",
    about="moving a large backlog beside a small one, both to the end",
    rounds=Size(quick=3, full=3),
    variants=[*on(postgres, "PostgreSQL"), *on(sqlite, "SQLite")],
    targets=[target("PostgreSQL"), target("SQLite")],
)
