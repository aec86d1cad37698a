"""The demo shop: orders in a SQLite file, and an event for each in the same transaction."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from penstock.app import Outbox

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL)"
)
_CUSTOMERS = ("ada", "grace", "edsger", "barbara", "alan", "katherine", "dennis")


class CardDeclined(Exception):
    """The payment failed after order and event had been written: the transaction is rolled back."""


@dataclass(slots=True)
class Tally:
    """What the shop has seen."""

    placed: int = 0
    declined: int = 0


class Shop:
    """Places orders; every `decline_every`-th payment fails at the last moment."""

    def __init__(self, path: Path, *, decline_every: int = 5, seed: int = 7) -> None:
        self.path, self._decline_every = path, decline_every
        self._random = random.Random(seed)
        self.outbox = Outbox(f"sqlite:///{path}")
        self.outbox.migrate()
        with closing(self._connect()) as conn, conn:
            conn.execute(_SCHEMA)

    def trade(self, orders: int) -> Iterator[Tally]:
        """Place so many orders, one transaction each; yield the tally after each."""
        tally = Tally()
        with closing(self._connect()) as conn:
            for number in range(1, orders + 1):
                try:
                    with conn:
                        self._place(conn, number)
                    tally.placed += 1
                except CardDeclined:
                    tally.declined += 1
                yield tally

    def order_ids(self) -> set[str]:
        """Return the ids of the committed orders."""
        return self._column("SELECT id FROM orders")

    def event_keys(self) -> set[str]:
        """Return the keys of the committed events: the order each is about."""
        return self._column("SELECT CAST(key AS TEXT) FROM penstock_staged")

    def event_count(self) -> int:
        """Return how many events are committed."""
        with closing(self._connect()) as conn:
            return int(conn.execute("SELECT count(*) FROM penstock_staged").fetchone()[0])

    def _place(self, conn: sqlite3.Connection, number: int) -> None:
        order = {"order_id": f"o-{number}", "customer": self._random.choice(_CUSTOMERS)}
        cents = self._random.randrange(500, 20_000)
        conn.execute("INSERT INTO orders VALUES (?, ?, ?)", (order["order_id"], order["customer"], cents))
        self.outbox.publish(conn, "order.placed", order | {"cents": cents}, key=order["order_id"])
        if number % self._decline_every == 0:
            raise CardDeclined(order["order_id"])

    def _column(self, sql: str) -> set[str]:
        with closing(self._connect()) as conn:
            return {row[0] for row in conn.execute(sql)}

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30)
