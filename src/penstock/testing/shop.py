"""The demo shop: orders in a SQLite file, an event for each in the same transaction, and two readers."""

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from penstock.app import Outbox
from penstock.model.record import Record
from penstock.worker.drain import Counts

_SCHEMA = "CREATE TABLE orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL)"
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
        self.mailed: Counter[str] = Counter()
        self.revenue_cents: Counter[str] = Counter()
        self.outbox = Outbox(f"sqlite:///{path}")
        self.outbox.migrate()
        self.outbox.handler("order.placed", group="mailer")(self._mail)
        self.outbox.handler("order.*", group="accounting")(self._book)
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

    def deliver(self) -> Counts:
        """Move the events into the log and hand them to the readers."""
        return self.outbox.drain()

    def order_ids(self) -> set[str]:
        """Return the ids of the committed orders."""
        with closing(self._connect()) as conn:
            return {row[0] for row in conn.execute("SELECT id FROM orders")}

    def logged_ids(self) -> list[str | None]:
        """Return the order that each record in the log is about."""
        log = self.outbox.log
        topic = log.topic("events")
        return [
            record.key
            for place in range(topic.partitions)
            for record in log.read("events", place, limit=10**6)
        ]

    def _place(self, conn: sqlite3.Connection, number: int) -> None:
        order_id, customer = f"o-{number}", self._random.choice(_CUSTOMERS)
        cents = self._random.randrange(500, 20_000)
        conn.execute("INSERT INTO orders VALUES (?, ?, ?)", (order_id, customer, cents))
        event = {"order_id": order_id, "customer": customer, "cents": cents}
        self.outbox.publish(conn, "order.placed", event, key=order_id)
        if number % self._decline_every == 0:
            raise CardDeclined(order_id)

    def _mail(self, record: Record) -> None:
        self.mailed[record.value["order_id"]] += 1

    def _book(self, record: Record) -> None:
        self.revenue_cents[record.value["customer"]] += record.value["cents"]

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30)
