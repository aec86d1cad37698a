"""`publish_many`, a thousand events a transaction, beside the same SQL on the bare driver.

The bare driver is handed the parameters ready made, exactly those that `publish_many` handed over before.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.stores import EVEN, EngineOpener, Store, empty, postgres, sqlite
from bench.stores.filling import CHUNK
from bench.stores.mover import count_staged
from bench.stores.recording import Tape


@dataclass
class Publishing:
    """An open connection, and the events in chunks; or the calls that stage them, one a chunk."""

    store: Store
    conn: Any
    chunks: list[list[dict[str, Any]]]
    tapes: list[Tape]


def publishing(engine: EngineOpener) -> Callable[[Run], AbstractContextManager[Publishing]]:
    """Return the setup: an empty store, a connection and the events."""
    nothing_staged = empty(engine)

    @contextmanager
    def tapes(run: Run) -> Iterator[list[Tape]]:
        recorded: list[Tape] = []
        with nothing_staged(run) as store:
            for chunk in _chunks(run.records):
                tape: Tape = []
                with store.recording(tape), closing(store.connect()) as conn:
                    store.outbox.publish_many(conn, chunk)
                    conn.rollback()
                recorded.append(tape)
            yield recorded

    @contextmanager
    def made(run: Run) -> Iterator[Publishing]:
        recorded = run.once(tapes)
        with nothing_staged(run) as store, closing(store.connect()) as conn:
            yield Publishing(store, conn, _chunks(run.records), recorded)
            assert count_staged(conn) == run.records

    return made


def by_publish_many(run: Run, at: Publishing) -> None:
    """Publish chunk by chunk, a transaction each."""
    for chunk in at.chunks:
        at.store.outbox.publish_many(at.conn, chunk)
        at.conn.commit()


def by_driver(run: Run, at: Publishing) -> None:
    """Run the same statements with the same parameters."""
    for tape in at.tapes:
        at.store.play(at.conn, tape)
        at.conn.commit()


def _chunks(records: int) -> list[list[dict[str, Any]]]:
    return [EVEN.events(CHUNK, start) for start in range(0, records, CHUNK)]


def on(engine: EngineOpener, name: str) -> list[Variant[Publishing]]:
    """Return the variants of one engine."""
    setup = publishing(engine)
    return [
        Variant(f"publish_many, {name}", by_publish_many, setup=setup),
        Variant(f"bare driver, {name}", by_driver, setup=setup),
    ]


def target(name: str) -> Target:
    """Return what is asked of one engine: at least half the speed, by CPU per record."""
    half = Ratio(f"bare driver, {name}", f"publish_many, {name}", "cpu_us")
    return Target(f"bare_{name.lower()}", half, at_least=0.5)


CASE = Case(
    name="publish_many",
    about="a thousand events a transaction",
    records=Size(quick=40_000, full=200_000),
    variants=[*on(postgres, "PostgreSQL"), *on(sqlite, "SQLite")],
    targets=[target("PostgreSQL"), target("SQLite")],
)
