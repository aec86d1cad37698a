"""The broker on a database beside the bare driver: records of 1 KB in bulk, produced and consumed.

The driver writes and reads the same rows of the same table, 1 000 in a transaction or a fetch, without
offsets to give, producers to compare or anybody to wake: the least that any program could cost. Both wait for
the disk. The broker's CPU is `server_cpu_us`, the database's `postgres_cpu_us`; SQLite works in its caller.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

from bench import Case, Run, Size, Variant
from bench.brokers import KafkaLoad, penstock_on
from bench.brokers.server import Server
from bench.stores import Engine, EngineOpener, Store, postgres, sqlite

_BYTES, _AT_A_TIME, _BARE_TOPIC = 1_000, 1_000, 999_999
_RECORDS = Size(quick=20_000, full=100_000)
_ENGINES: dict[str, tuple[EngineOpener, str]] = {"PostgreSQL": (postgres, "%s"), "SQLite": (sqlite, "?")}


@dataclass
class Bare:
    """A store that is written without us, and how its driver marks a value."""

    store: Store
    mark: str
    first: int

    def insert(self, count: int) -> None:
        """Write rows as the log has them."""
        columns = 'topic_id, partition, "offset", id, type, value, headers, timestamp_ms'
        marks = ", ".join([self.mark] * 8)
        statement = f"INSERT INTO penstock_log ({columns}) VALUES ({marks})"
        value = os.urandom(_BYTES)
        with closing(self.store.connect()) as conn:
            for first in range(self.first, self.first + count, _AT_A_TIME):
                rows = [
                    (_BARE_TOPIC, 0, at, f"id-{at}", "", value, b"", 1_700_000_000_000)
                    for at in range(first, min(first + _AT_A_TIME, self.first + count))
                ]
                conn.cursor().executemany(statement, rows)
                conn.commit()

    def select(self, count: int) -> None:
        """Read them in their order."""
        mark = self.mark
        statement = (
            f"SELECT * FROM penstock_log WHERE topic_id = {mark} AND partition = 0 AND"
            f' "offset" >= {mark} ORDER BY "offset" LIMIT {mark}'
        )
        with closing(self.store.connect()) as conn:
            for first in range(self.first, self.first + count, _AT_A_TIME):
                rows = conn.cursor().execute(statement, (_BARE_TOPIC, first, _AT_A_TIME)).fetchall()
                assert rows[0][2] == first


def served(opener: EngineOpener, *, filled: bool) -> Callable[[Run], AbstractContextManager[tuple[Any, str]]]:
    """Return the setup: our broker on a database, and a topic."""

    @contextmanager
    def setup(run: Run) -> Iterator[tuple[KafkaLoad, str]]:
        server: Server = run.once(penstock_on(opener))
        load, name = KafkaLoad(server), f"{'read' if filled else 'written'}{run.round}"
        load.create(name)
        if filled:
            load.produce(name, _BYTES, run.records)
        run.watch("server", server.pid)
        run.once(opener).watch(run)
        yield load, name

    return setup


def driven(opener: EngineOpener, mark: str, *, filled: bool) -> Callable[[Run], AbstractContextManager[Bare]]:
    """Return the setup: the same kind of database, written by its driver."""

    @contextmanager
    def setup(run: Run) -> Iterator[Bare]:
        engine: Engine = run.once(opener)
        store = engine.create()
        bare = Bare(store, mark, 0)
        if filled:
            bare.insert(run.records)
        engine.watch(run)
        yield bare
        engine.drop(store)

    return setup


def produce(run: Run, at: tuple[KafkaLoad, str]) -> None:
    """Send all, and wait for the last acknowledgement."""
    load, name = at
    load.produce(name, _BYTES, run.records)


def consume(run: Run, at: tuple[KafkaLoad, str]) -> None:
    """Read all."""
    load, name = at
    load.consume(name, _BYTES, run.records)


def insert(run: Run, bare: Bare) -> None:
    """Write all by the driver."""
    bare.insert(run.records)


def select(run: Run, bare: Bare) -> None:
    """Read all by the driver."""
    bare.select(run.records)


CASE = Case(
    name="broker_database",
    about="the broker on a database, records of 1 KB in bulk, beside the same rows by the bare driver",
    rounds=Size(quick=1, full=3),
    records=_RECORDS,
    variants=[
        variant
        for name, (opener, mark) in _ENGINES.items()
        for variant in (
            Variant(f"Penstock on {name}, produce", produce, setup=served(opener, filled=False)),
            Variant(f"bare {name}, produce", insert, setup=driven(opener, mark, filled=False)),
            Variant(f"Penstock on {name}, consume", consume, setup=served(opener, filled=True)),
            Variant(f"bare {name}, consume", select, setup=driven(opener, mark, filled=True)),
        )
    ],
)
