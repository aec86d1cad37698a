"""Filling a store: what is in the log and what is staged before a round begins.

Events are staged by `publish_many` and moved by the sequencer, so hashes, slots and columns are always the
true ones. That is done once per case; each round works on a copy.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from bench.run import Run, Size, pick
from bench.stores.contract import EngineOpener, Store
from bench.stores.mover import OWNER, Mover

CHUNK = 1000
# A log in use has more index pages than one batch touches; on an empty log everything looks cheaper.
HISTORY = Size(quick=100_000, full=500_000)

StoreSetup = Callable[[Run], AbstractContextManager[Store]]


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the events are like: how many keys they belong to, how large they are, whether they wait."""

    keys: int = 10_000
    value_bytes: int = 200
    header_bytes: int = 0
    scheduled: bool = False

    def events(self, count: int, start: int = 0) -> list[dict[str, Any]]:
        """Return events for `publish_many`, numbered from `start`, the keys one after the other."""
        more: dict[str, Any] = {"at": timedelta(days=1)} if self.scheduled else {}
        if self.header_bytes:
            more["headers"] = {"note": "x" * self.header_bytes}
        return [
            {
                "type": "order.placed",
                "key": f"order-{number % self.keys}",
                "value": {"order_id": number, "note": "x" * (self.value_bytes - 32)},
                **more,
            }
            for number in range(start, start + count)
        ]


EVEN = Load()
ONE_KEY = Load(keys=1)


def empty(engine: EngineOpener) -> StoreSetup:
    """Return the setup that gives a store with nothing staged."""
    return filled(engine, EVEN, records=0)


@cache
def filled(engine: EngineOpener, load: Load, *, records: int | None = None) -> StoreSetup:
    """Return the setup that gives a store in use, with so many events staged (None: the variant's number).

    Its slots belong to OWNER, and its log has a history.
    """

    @contextmanager
    def copied(run: Run) -> Iterator[Store]:
        here = run.once(engine)
        staged = run.once(_staged(engine, load, run.records if records is None else records))
        copy = here.copy(staged)
        here.watch(run)
        try:
            yield copy
        finally:
            here.drop(copy)

    return copied


@cache
def _staged(engine: EngineOpener, load: Load, records: int) -> StoreSetup:
    @contextmanager
    def made(run: Run) -> Iterator[Store]:
        store = run.once(engine).copy(run.once(_in_use(engine)))
        _stage(store, load, records)
        yield store  # its end is the engine's: the server or the folder goes

    return made


@cache
def _in_use(engine: EngineOpener) -> StoreSetup:
    @contextmanager
    def made(run: Run) -> Iterator[Store]:
        store = run.once(engine).create()
        store.outbox.log.create_topic("events")
        with closing(store.connect()) as conn:
            conn.execute(f"UPDATE penstock_slot SET owner = '{OWNER}', epoch = 1")
            conn.commit()
        _stage(store, EVEN, pick(HISTORY, run.full))
        with closing(Mover(store)) as mover:
            mover.drain()
        store.tidy()
        yield store

    return made


def _stage(store: Store, load: Load, records: int) -> None:
    """Stage events, leaving no connection behind."""
    with closing(store.connect()) as conn:
        for start in range(0, records, CHUNK):
            store.outbox.publish_many(conn, load.events(min(CHUNK, records - start), start))
            conn.commit()
    store.outbox.close()
