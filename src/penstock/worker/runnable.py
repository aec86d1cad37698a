"""Running a worker until it is stopped: by a signal, an event, or the end of an async block."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from threading import Event, Thread, current_thread, main_thread
from typing import Protocol

from penstock.errors import Error
from penstock.signals import on_signal

logger = logging.getLogger("penstock.worker")

FORCED_SECONDS = 10.0  # after a second signal the process ends by then


class Runnable(Protocol):
    """A service that can be run: a worker, or nothing."""

    def start(self) -> None:
        """Begin; returns at once."""

    def stop(self) -> None:
        """End; returns when that is done."""

    def cut_short(self) -> None:
        """Stop waiting in a stop that is under way."""

    def failure(self) -> Error | None:
        """Return why it can no longer do its work and should be stopped; None while it can."""

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use this event loop; before `start`."""


class Several:
    """Services that run together, such as the workers of several stores; they stop at the same time."""

    def __init__(self, services: Sequence[Runnable]) -> None:
        self._services = services

    def start(self) -> None:
        """Begin with all; if one cannot, those before it are ended."""
        for number, each in enumerate(self._services):
            try:
                each.start()
            except BaseException:
                Several(self._services[:number]).stop()
                raise

    def stop(self) -> None:
        """End all; returns when that is done."""
        if not self._services:
            return
        with ThreadPoolExecutor(len(self._services)) as threads:
            for done in [threads.submit(each.stop) for each in self._services]:
                done.result()

    def cut_short(self) -> None:
        """Stop waiting in stops that are under way."""
        for each in self._services:
            each.cut_short()

    def failure(self) -> Error | None:
        """Return why none of them can do its work; None while one can."""
        failures = [each.failure() for each in self._services]
        return failures[0] if failures and None not in failures else None

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use this event loop in all of them; before `start`."""
        for each in self._services:
            each.use_loop(loop)


class Nothing(Several):
    """Stands in for a worker where none may run: it starts no thread and touches no table."""

    def __init__(self) -> None:
        super().__init__(())

    def start(self) -> None:
        """Log that nothing begins."""
        logger.warning("processing.enabled is false: no handler runs in this process")


def is_main_thread() -> bool:
    """Return whether this is the main thread: a worker run there has the process to itself."""
    return current_thread() is main_thread()


def run(worker: Runnable, until: Event | None = None) -> None:
    """Run a worker until SIGTERM, Ctrl-C or `until`; after a second signal it does not wait for handlers.

    Nor long for a store that hangs: then the process ends with exit code 1. Only the main thread handles signals.
    Raises the worker's failure, once it has stopped.
    """
    stopping = until or Event()
    with _signals(worker, stopping):
        worker.start()
        try:
            failure = _wait(worker, stopping)
        finally:
            worker.stop()
    if failure is not None:
        raise failure


async def arun(worker: Runnable) -> None:
    """Run a worker until SIGTERM, Ctrl-C or cancellation, without blocking the loop. Raises the worker's failure."""
    stopping = Event()
    with _signals(worker, stopping):
        async with running(worker):
            try:
                failure = await asyncio.to_thread(_wait, worker, stopping)
            finally:
                stopping.set()  # when this task is cancelled, the waiting thread must not stay behind
    if failure is not None:
        raise failure


def _wait(worker: Runnable, stopping: Event) -> Error | None:
    """Wait, in steps that a signal can interrupt, until a worker should stop; return its failure if that is why."""
    while not stopping.wait(1.0):
        failure = worker.failure()
        if failure is not None:
            logger.error("stopping: %s", failure)
            return failure
    return None


@asynccontextmanager
async def running(worker: Runnable) -> AsyncIterator[Runnable]:
    """Run a worker while an async block lasts; async handlers run in the block's own event loop."""
    worker.use_loop(asyncio.get_running_loop())
    worker.start()
    try:
        yield worker
    finally:
        await asyncio.shield(asyncio.to_thread(worker.stop))


@contextmanager
def _signals(worker: Runnable, stopping: Event) -> Iterator[None]:
    """Let the first signal begin the stop and the second hurry it; then the process ends, whatever hangs."""
    heard: list[signal.Signals] = []
    ended = Event()

    def hear(number: signal.Signals) -> None:
        heard.append(number)
        if len(heard) > 1:
            worker.cut_short()
            logger.warning("%s again: not waiting for handlers", number.name)
        else:
            stopping.set()
            logger.info("%s: stopping", number.name)
        if len(heard) == 2:
            Thread(target=_end_by_force, args=(ended,), name="penstock-end", daemon=True).start()

    with on_signal(hear):
        try:
            yield
        finally:
            ended.set()


def _end_by_force(ended: Event) -> None:
    """End the process if its workers do not: a call to a store that hangs cannot be interrupted."""
    if not ended.wait(FORCED_SECONDS):
        logger.error(
            "the store does not answer: leaving without giving the work back; "
            "other workers take over once the lease has ended"
        )
        os._exit(1)
