"""One business row and one event a transaction on SQLite beside the business row alone; and `publish` itself.

WAL mode, synchronous=FULL: a transaction waits for the disk, so its CPU is compared. `publish` beside
`execute` of the same INSERT, all in one transaction, shows what our own Python costs.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from bench import Case, Ratio, Run, Size, Target, Variant
from bench.stores import Store, empty, sqlite
from bench.stores.recording import Tape

_SCHEMA = "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL)"
_ROW = "INSERT INTO orders (customer, cents) VALUES (?, ?)"
_VALUE = {"customer": "ada", "cents": 1250, "note": "x" * 150}


class Shop(NamedTuple):
    """A store and the one connection to it."""

    store: Store
    conn: sqlite3.Connection


@contextmanager
def shop(run: Run) -> Iterator[Shop]:
    """Give an empty store with a table of orders."""
    with empty(sqlite)(run) as store, closing(store.connect()) as conn:
        conn.execute(_SCHEMA)
        conn.commit()
        yield Shop(store, conn)


def row(run: Run, shop: Shop) -> None:
    """The business row alone."""
    for at in range(run.records):
        shop.conn.execute(_ROW, ("ada", at))
        shop.conn.commit()


def row_and_event(run: Run, shop: Shop) -> None:
    """The business row and one event about it."""
    for at in range(run.records):
        shop.conn.execute(_ROW, ("ada", at))
        shop.store.outbox.publish(shop.conn, "order.placed", _VALUE, key=f"order-{at}")
        shop.conn.commit()


def publish(run: Run, shop: Shop) -> None:
    """Publish, many times in one transaction."""
    for at in range(run.records):
        shop.store.outbox.publish(shop.conn, "order.placed", _VALUE, key=f"order-{at}")


@contextmanager
def recorded(run: Run) -> Iterator[Tape]:
    """Give what `publish` hands to the driver."""
    tape: Tape = []
    with empty(sqlite)(run) as store, store.recording(tape), closing(store.connect()) as conn:
        publish(run, Shop(store, conn))
        conn.rollback()
    yield tape


@contextmanager
def shop_and_tape(run: Run) -> Iterator[tuple[Shop, Tape]]:
    """Give an empty store and the calls of `publish`."""
    tape = run.once(recorded)
    with shop(run) as here:
        yield here, tape


def execute(run: Run, at: tuple[Shop, Tape]) -> None:
    """Run the same INSERT with parameters made before."""
    (_, conn), tape = at
    for call in tape:
        conn.execute(call.sql, call.params)


CASE = Case(
    name="publish_sqlite",
    about="a transaction with an event beside one without, SQLite; `publish` beside its INSERT",
    records=Size(quick=3_000, full=20_000),
    variants=[
        Variant("row and event", row_and_event, setup=shop),
        Variant("row alone", row, setup=shop),
        Variant("publish", publish, setup=shop, records=Size(quick=30_000, full=100_000)),
        Variant("execute", execute, setup=shop_and_tape, records=Size(quick=30_000, full=100_000)),
    ],
    targets=[Target("transaction_cpu", Ratio("row and event", "row alone", "cpu_us"), at_most=2.5)],
)
