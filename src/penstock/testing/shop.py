"""The demo shop: orders in a SQLite file, an event for each in the same transaction, and two readers.

The readers record their work in tables of the same file, so that any number of workers, in separate
processes, can serve the shop; a broker serves its topics to Kafka clients.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from penstock.app import Outbox
from penstock.clock import from_ms
from penstock.model.record import Record
from penstock.model.retry import Fixed
from penstock.worker.drain import Counts

_TABLES = (
    "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS mailed (order_id TEXT NOT NULL, redelivered INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS booked (order_id TEXT PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS wrong (order_id TEXT PRIMARY KEY)",
)
_CUSTOMERS = ("ada", "grace", "edsger", "barbara", "alan", "katherine", "dennis")
SHOP_FILE = "PENSTOCK_DEMO_SHOP"  # environment variable with the shop's file, for worker processes
POISON = "o-13"
_OPENED_MS = 1_767_258_000_000  # 1 January 2026, 9:00; the demo makes an hour's sales in seconds
_BETWEEN_ORDERS_MS = 2_000
_DECLINE_EVERY = 5


class CardDeclined(Exception):
    """The payment failed after order and event were written: the transaction is rolled back."""


class NoSuchAddress(Exception):
    """A mail cannot be sent."""


@dataclass(slots=True)
class Tally:
    """The counts of a shop."""

    placed: int = 0
    declined: int = 0


class Shop:
    """Places orders; every fifth payment fails at the last moment."""

    def __init__(self, path: Path, *, seed: int = 7) -> None:
        self.path = path
        self._random = random.Random(seed)
        self.outbox = Outbox(f"sqlite:///{path}")
        self.outbox.migrate()
        patient = Fixed(timedelta(milliseconds=200), max_retries=2)
        self.outbox.handler("order.placed", group="mailer", retry=patient)(self._mail)
        self.outbox.handler("order.*", group="accounting")(self._book)
        with closing(self._connect()) as conn, conn:
            for table in _TABLES:
                conn.execute(table)

    def trade(self, orders: int, *, first: int = 1, wrong: Container[str] = (POISON,)) -> Iterator[Tally]:
        """Place that many orders, one transaction each; those of `wrong` have a bad address. Yield each tally."""
        tally = Tally()
        with closing(self._connect()) as conn:
            for number in range(first, first + orders):
                try:
                    with conn:
                        self._place(conn, number, wrong=f"o-{number}" in wrong)
                    tally.placed += 1
                except CardDeclined:
                    tally.declined += 1
                yield tally

    def deliver(self) -> Counts:
        """Move the events into the log and deliver them to the readers at once."""
        return self.outbox.drain()

    def put_right(self, order_id: str) -> None:
        """Correct an address, so that its mail can be sent."""
        self._write("DELETE FROM wrong WHERE order_id = ?", order_id)

    def order_ids(self) -> set[str]:
        """Return the ids of the committed orders."""
        return {row[0] for row in self._rows("SELECT id FROM orders")}

    def mailed(self) -> Counter[str]:
        """Return the number of mails sent for each order."""
        return Counter({row[0]: row[1] for row in self._rows("SELECT order_id, count(*) FROM mailed GROUP BY 1")})

    def repeated(self) -> int:
        """Return the number of repeated mails; each was marked as redelivered."""
        return sum(count - 1 for count in self.mailed().values())

    def booked(self) -> set[str]:
        """Return the ids of the booked orders."""
        return {row[0] for row in self._rows("SELECT order_id FROM booked")}

    def revenue_cents(self) -> Counter[str]:
        """Return the total of each customer."""
        return Counter(dict(self._rows("SELECT customer, sum(cents) FROM booked GROUP BY 1")))

    def logged_ids(self) -> list[str | None]:
        """Return the order id of each record in the log."""
        log = self.outbox.log
        topic = log.topic("events")
        return [record.key for place in range(topic.partitions) for record in log.read("events", place, limit=10**6)]

    def _place(self, conn: sqlite3.Connection, number: int, *, wrong: bool) -> None:
        order_id, customer = f"o-{number}", self._random.choice(_CUSTOMERS)
        cents = self._random.randrange(500, 20_000)
        conn.execute("INSERT INTO orders VALUES (?, ?, ?)", (order_id, customer, cents))
        if wrong:
            conn.execute("INSERT INTO wrong VALUES (?)", (order_id,))
        placed_at = from_ms(_OPENED_MS + number * _BETWEEN_ORDERS_MS).isoformat()
        event = {"order_id": order_id, "customer": customer, "cents": cents, "placed_at": placed_at}
        self.outbox.publish(conn, "order.placed", event, key=order_id)
        if number % _DECLINE_EVERY == 0:
            raise CardDeclined(order_id)

    def _mail(self, record: Record) -> None:
        order_id = record.value["order_id"]
        if self._rows("SELECT 1 FROM wrong WHERE order_id = ?", order_id):
            raise NoSuchAddress(f"order {order_id} has an address that no mail can be sent to")
        self._write("INSERT INTO mailed VALUES (?, ?)", order_id, record.redelivered)

    def _book(self, record: Record) -> None:
        event = record.value
        values = (event["order_id"], event["customer"], event["cents"])
        self._write("INSERT OR IGNORE INTO booked VALUES (?, ?, ?)", *values)

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(self._connect()) as conn:
            return conn.execute(query, values).fetchall()

    def _write(self, statement: str, *values: object) -> None:
        with closing(self._connect()) as conn, conn:
            conn.execute(statement, values)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=30)


def __getattr__(name: str) -> Outbox:
    """Return the outbox of the shop, for the worker process that was started for it."""
    if name != "outbox" or SHOP_FILE not in os.environ:
        raise AttributeError(f"module {__name__} has no attribute {name!r}")
    return Shop(Path(os.environ[SHOP_FILE])).outbox


_PROGRAM = "import sys; from penstock.cli import main; main(sys.argv[1:])"
_OUTBOX = "penstock.testing.shop:outbox"
# Heartbeats and leases as in a test, so that the demo takes seconds.
_HASTE = {
    "PENSTOCK_CLUSTER_HEARTBEAT_INTERVAL": "0.3",
    "PENSTOCK_CLUSTER_LEASE_TTL": "3",
    "PENSTOCK_CLUSTER_GATHER_JOINS": "0.2",
    "PENSTOCK_CLUSTER_REBALANCE_INTERVAL": "1",
}


class ShopProcess:
    """A command in a separate process, on the file of a shop."""

    def __init__(self, path: Path, *command: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this Python, and a program of ours
            [sys.executable, "-c", _PROGRAM, *command, "--log-level", "error"],
            env=os.environ | _HASTE | {SHOP_FILE: str(path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def said(self) -> str:
        """Wait for its next output line and return it; empty once it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._end()

    def stop(self) -> int:
        """Ask it to finish and exit; return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._end()

    def _end(self) -> int:
        code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code


class ShopWorker(ShopProcess):
    """A worker of the shop: `penstock worker penstock.testing.shop:outbox`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "worker", _OUTBOX)


class ShopBroker(ShopProcess):
    """A broker of the shop's topics, on a free port: `penstock serve --kafka 127.0.0.1:0`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "serve", "--url", f"sqlite:///{path}", "--kafka", "127.0.0.1:0")
        self.address = self.said().removeprefix("kafka listening on ")
