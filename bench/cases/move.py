"""The move from staging into the log: beside the same SQL on the bare driver, and with one hot key.

The bare driver runs, on an equal copy, the very statements and parameters that a move before it handed over.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from bench import Case, Extra, Ratio, Run, Size, Target, Variant
from bench.stores import EVEN, ONE_KEY, EngineOpener, Mover, Store, filled, mover, postgres, sqlite
from bench.stores.mover import count_staged, tape_of_drain
from bench.stores.recording import Tape


def by_sequencer(run: Run, mover: Mover) -> Extra:
    """Move all that is staged."""
    return {"records": mover.drain()}


def by_driver(run: Run, bare: tuple[Store, Tape]) -> None:
    """Run what a sequencer ran."""
    store, tape = bare
    with closing(store.connect(autocommit=True)) as conn:
        store.play(conn, tape)


def bare(engine: EngineOpener) -> Callable[[Run], AbstractContextManager[tuple[Store, Tape]]]:
    """Return the setup that gives a store and the tape of a move that happened on an equal one."""
    equal = filled(engine, EVEN)

    @contextmanager
    def tape(run: Run) -> Iterator[Tape]:
        with equal(run) as store:
            yield tape_of_drain(store)

    @contextmanager
    def made(run: Run) -> Iterator[tuple[Store, Tape]]:
        recorded = run.once(tape)
        with equal(run) as store:
            yield store, recorded
            with closing(store.connect()) as conn:
                assert count_staged(conn) == 0, "the tape did not move everything"

    return made


def on(engine: EngineOpener, name: str) -> list[Variant[Mover] | Variant[tuple[Store, Tape]]]:
    """Return the variants of one engine."""
    return [
        Variant(f"Sequencer, {name}", by_sequencer, setup=mover(filled(engine, EVEN))),
        Variant(f"bare driver, {name}", by_driver, setup=bare(engine)),
        Variant(f"one hot key, {name}", by_sequencer, setup=mover(filled(engine, ONE_KEY))),
    ]


def targets(name: str) -> list[Target]:
    """Return what is asked of one engine: at least half the speed, by CPU per record."""
    ours = f"Sequencer, {name}"
    return [
        Target(f"bare_{name.lower()}", Ratio(f"bare driver, {name}", ours, "cpu_us"), at_least=0.5),
        Target(f"hot_key_{name.lower()}", Ratio(ours, f"one hot key, {name}", "cpu_us"), at_least=0.5),
    ]


CASE = Case(
    name="move",
    about="staged events into the log",
    records=Size(quick=40_000, full=200_000),
    variants=[*on(postgres, "PostgreSQL"), *on(sqlite, "SQLite")],
    targets=[*targets("PostgreSQL"), *targets("SQLite")],
)
