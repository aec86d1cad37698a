"""Application processes that write to one PostgreSQL database, a connection each, all at once."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, NamedTuple

import psycopg

from bench.package import stage_statement
from bench.processes import ProcessTree
from bench.run import Run
from penstock import Outbox

SCHEMA = (
    "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    " customer text NOT NULL, cents integer NOT NULL, placed_at timestamptz NOT NULL DEFAULT now())"
)
_STAGE = stage_statement()
_VALUE = b"x" * 200
_ROW = "INSERT INTO orders (customer, cents) VALUES (%s, %s)"
_KEYS = 10_000
_SPAWN = multiprocessing.get_context("spawn")


class Tally(NamedTuple):
    """What one client saw."""

    cpu_seconds: float
    latencies: list[float]


class Client(NamedTuple):
    """One running client and the server process behind its connection."""

    pid: int
    backend: ProcessTree
    words: Connection


class Clients:
    """All clients; each does its share of the transactions. Made by `clients`."""

    def __init__(self, running: Sequence[Client]) -> None:
        self._running = running

    def watch(self, run: Run) -> None:
        """Count the clients' CPU; the server's is watched as a whole."""
        for client in self._running:
            run.watch("clients", client.pid)

    def work(self, job: str, transactions: int) -> dict[str, float]:
        """Run so many transactions of a kind, shared among all, and return what they cost.

        `transaction_cpu_us` is the CPU of the clients and of the server processes that work for them alone,
        without sequencing, checkpoints and vacuum. `latency_p50_us` is what one client waits.
        """
        share = transactions // len(self._running)
        before = self._backends()
        for client in self._running:
            client.words.send((job, share))
        tallies: list[Tally] = [client.words.recv() for client in self._running]
        cpu = sum(tally.cpu_seconds for tally in tallies) + self._backends() - before
        done = share * len(self._running)
        return {
            "records": done,
            "transaction_cpu_us": cpu / done * 1e6,
            "latency_p50_us": median(one for tally in tallies for one in tally.latencies) * 1e6,
        }

    def _backends(self) -> float:
        return sum(client.backend.cpu_seconds() or 0.0 for client in self._running)


@contextmanager
def clients(url: str, count: int) -> Iterator[Clients]:
    """Start the clients, connected, and end them with the block."""
    with ExitStack() as stack:
        yield Clients([stack.enter_context(_client(url, number)) for number in range(count)])


@contextmanager
def _client(url: str, number: int) -> Iterator[Client]:
    ours, its = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(url, number, its), daemon=True)
    process.start()
    its.close()
    try:
        backend_pid = ours.recv()
        assert process.pid is not None
        yield Client(process.pid, ProcessTree("backend", backend_pid), ours)
    finally:
        ours.close()
        process.join()


def _serve(url: str, number: int, words: Connection) -> None:
    outbox = Outbox(url)
    with psycopg.connect(url, application_name="bench client") as conn:
        jobs = {"row": _row, "row and bare insert": _row_and_insert, "row and event": _row_and_event, "event": _event}
        words.send(conn.info.backend_pid)
        while True:
            try:
                job, count = words.recv()
            except EOFError:
                return
            words.send(_timed(partial(jobs[job], conn, outbox), number * 31, count))


def _timed(transaction: Callable[[int], None], start: int, count: int) -> Tally:
    latencies = []
    cpu = time.process_time()
    for at in range(start, start + count):
        begun = time.perf_counter()
        transaction(at)
        latencies.append(time.perf_counter() - begun)
    return Tally(time.process_time() - cpu, latencies)


def _row(conn: Any, outbox: Outbox, at: int) -> None:
    conn.execute(_ROW, (f"customer-{at % _KEYS}", at))
    conn.commit()


def _row_and_event(conn: Any, outbox: Outbox, at: int) -> None:
    conn.execute(_ROW, (f"customer-{at % _KEYS}", at))
    _publish(conn, outbox, at)
    conn.commit()


def _event(conn: Any, outbox: Outbox, at: int) -> None:
    _publish(conn, outbox, at)
    conn.commit()


def _row_and_insert(conn: Any, outbox: Outbox, at: int) -> None:
    """Stage the event by hand, ready made: the least that any outbox in the transaction can cost.

    Its columns are as long as those that `publish` writes.
    """
    conn.execute(_ROW, (f"customer-{at % _KEYS}", at))
    id, hashed, now_ms = f"01900000-0000-7000-8000-{at:012}", at % _KEYS * 214_748, 1_750_000_000_000 + at
    row = (hashed % 256, hashed, "events", id, b"customer-1234", "order.placed", _VALUE, None, now_ms, None)
    conn.execute(_STAGE, row)
    conn.commit()


def _publish(conn: Any, outbox: Outbox, at: int) -> None:
    value = {"customer": f"customer-{at % _KEYS}", "cents": at, "note": "x" * 150}
    outbox.publish(conn, "order.placed", value, key=f"customer-{at % _KEYS}")
