"""Penstock's publisher and worker, each a process of its own, on a new store."""

import ctypes
import multiprocessing
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import psycopg

from bench.errors import NotMeasured
from bench.rates.contenders import MOST_CONNECTIONS, Contender, ContenderOpener
from bench.rivals.pacing import Pace, Row, publish_in_threads
from bench.run import Run
from bench.stores import EngineOpener, Store
from bench.workers import Team, WorkerProcess, worker_process
from penstock import Outbox

_SPAWN = multiprocessing.get_context("spawn")  # a fresh Python: nothing of ours in its memory
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_KEYS = 10_000
_EVENTS_PER_KEY = 10  # where many are published together: as Namastack's own load has it
_NOTE = "x" * 168


class PublisherProcess:
    """A process that publishes at a pace; made by `publisher_process`."""

    def __init__(self, pid: int, words: Connection) -> None:
        self.pid = pid
        self._words = words

    def publish(self, pace: Pace, batch: int = 1) -> list[Row]:
        """Publish, so many events per transaction, and return what was done. Raises NotMeasured.

        A pace counts transactions; transaction n has the events n * batch and those that follow.
        """
        self._words.send((pace, batch))
        try:
            rows = self._words.recv()
        except EOFError as exc:
            raise NotMeasured("the publisher's process ended; its words are above") from exc
        return list(rows)


@contextmanager
def publisher_process(url: str, connections: int) -> Iterator[PublisherProcess]:
    """Start a process with open connections to a store, and end it with the block."""
    ours, its = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(url, connections, its), daemon=True)
    process.start()
    its.close()
    try:
        try:
            ours.recv()
        except EOFError as exc:
            raise NotMeasured("the publisher's process ended at its start; its words are above") from exc
        assert process.pid is not None
        yield PublisherProcess(process.pid, ours)
    finally:
        ours.close()
        process.join(10)
        if process.is_alive():
            process.kill()
            process.join()


class PenstockProcesses:
    """A publisher and a worker."""

    def __init__(self, publisher: PublisherProcess, worker: WorkerProcess) -> None:
        self._publisher, self._worker = publisher, worker
        self._before = 0

    def publish(self, pace: Pace) -> list[Row]:
        """Publish."""
        return self._publisher.publish(pace)

    def wait(self, count: int, seconds: float) -> int:
        """Wait for the worker."""
        with suppress(NotMeasured):
            self._worker.wait(self._before + count, seconds)
        return self._worker.handled() - self._before

    def seen(self) -> list[tuple[int, int]]:
        """Ask the worker."""
        rows = self._worker.seen()
        self._before += len(rows)
        return rows


@dataclass(frozen=True)
class Crew:
    """A publisher and workers that have joined, on a store of their own."""

    publisher: PublisherProcess
    workers: list[WorkerProcess]


@cache
def crew_on(engine: EngineOpener, workers: int) -> Callable[[Run], AbstractContextManager[Crew]]:
    """Return the opener of a publisher and so many workers on a new copy of empty tables."""

    @contextmanager
    def migrated(run: Run) -> Iterator[Store]:
        store = run.once(engine).create()
        store.outbox.log.create_topic("events")
        store.tidy()
        store.outbox.close()
        yield store

    @contextmanager
    def opened(run: Run) -> Iterator[Crew]:
        here = run.once(engine)
        store = here.copy(run.once(migrated))
        try:
            with ExitStack() as stack:
                publisher = stack.enter_context(publisher_process(store.url, MOST_CONNECTIONS))
                crew = [stack.enter_context(worker_process(store.url, "follow")) for _ in range(workers)]
                for worker in crew:
                    worker.begin()
                Team(here, store, crew).wait_until_shared()
                yield Crew(publisher, crew)
        finally:
            here.drop(store)

    return opened


def watch(run: Run, engine: EngineOpener, crew: Crew) -> None:
    """Count the CPU of a crew and of the database."""
    run.watch("publisher", crew.publisher.pid)
    for worker in crew.workers:
        run.watch("worker", worker.pid)
    run.once(engine).watch(run)


@cache
def penstock_on(engine: EngineOpener) -> ContenderOpener:
    """Return the opener of Penstock, one worker, on a new copy of its empty tables."""

    @contextmanager
    def opened(run: Run) -> Iterator[Contender]:
        with crew_on(engine, 1)(run) as crew:
            watch(run, engine, crew)
            yield PenstockProcesses(crew.publisher, crew.workers[0])

    return opened


def _serve(url: str, connections: int, words: Connection) -> None:
    if sys.platform == "linux":  # a benchmark that is killed closes no pipe while we publish
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    with closing(Outbox(url)) as outbox:
        opened = [_connect(url) for _ in range(connections)]
        words.send("ready")
        try:
            while True:
                pace, batch = words.recv()
                publishers = [_publisher(outbox, conn, batch) for conn in opened[: pace.connections]]
                words.send(publish_in_threads(pace, publishers))
        except (EOFError, BrokenPipeError):
            return


def _connect(url: str) -> Any:
    if url.startswith("sqlite:"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30, check_same_thread=False)
    return psycopg.connect(url)


def _publisher(outbox: Outbox, conn: Any, batch: int) -> Callable[[int], None]:
    def publish(number: int) -> None:
        value = {"order_id": number, "note": _NOTE}
        outbox.publish(conn, "order.placed", value, key=f"order-{number % _KEYS}")
        conn.commit()

    def publish_together(number: int) -> None:
        events = [
            {
                "type": "order.placed",
                "key": f"order-{order // _EVENTS_PER_KEY}",
                "value": {"order_id": order, "note": _NOTE},
            }
            for order in range(number * batch, (number + 1) * batch)
        ]
        outbox.publish_many(conn, events)
        conn.commit()

    return publish if batch == 1 else publish_together
