"""Whether a process is ready: its store answers, its worker runs, its lease is fresh, no group is given up.

All but the store's state is known without a query.

Asking the store does not wait for one that hangs. A driver's call cannot be interrupted, so it runs in a thread of its
own and the question waits for that thread for a limited time. Questions that come meanwhile wait for the same answer:
however often a probe comes, the store is asked once at a time. A call that hangs for long may hang in a lost connection
while the store is well again, so another is made beside it; a few at most, since threads are limited.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock, Thread
from typing import NamedTuple

from penstock.app import Outbox
from penstock.clock import Clock, SteadyClock
from penstock.database.migrations import check
from penstock.errors import Error, SchemaError
from penstock.log.store import Store
from penstock.redaction import traced
from penstock.worker.status import WorkerHealth

logger = logging.getLogger("penstock.gateway")

ANSWER_SECONDS = 2.0  # how long a question waits for the store
HOPELESS_SECONDS = 10.0  # how long a call hangs before another is made beside it
MOST_CALLS = 3

_START = (
    "start one with `penstock worker`, outbox.run() or `async with outbox.running()`; a process that only "
    "publishes says gateway.app(outbox, worker=False)"
)
_STOPPING = "nothing, if you stopped it; otherwise start it again"
_WAIT = "wait a moment; if it lasts, look for lines about membership in the log"
_STORE = "check the store and the network to it; workers wait for it and then go on by themselves"
_SILENT = "check the store: its locks, its load, the network; workers wait and then go on by themselves"
_TABLES = "run `penstock migrate`, or update Penstock here, and start this process again"
_LEASE = (
    "heartbeats do not reach the store in time, so others take over: check the store, and whether this "
    "process is paused (CPU limits, swapping); the lease is renewed by itself"
)
_HUNG = "restart this process; give what the handler waits for a time limit of its own, shorter than its timeout="


class StoreSilence(Exception):
    """The store has not answered yet; ask again later."""


class StoreCall:
    """One call of the store, in a thread: running, or ended, with its error if there was one."""

    def __init__(self, store: Store, began: float) -> None:
        self.began, self.is_done = began, False
        self.trouble: Exception | None = None
        self._store, self._lock = store, Lock()
        self._waiters: set[asyncio.Future[None]] = set()

    def start(self) -> None:
        """Start the call; returns at once."""
        Thread(target=self._run, name="penstock-probe", daemon=True).start()

    async def wait(self, seconds: float) -> bool:
        """Wait for its end, `seconds` at most; return whether it has come."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self.is_done:
                return True
            self._waiters.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=seconds)
        finally:
            with self._lock:
                self._waiters.discard(waiter)
        return self.is_done

    def _run(self) -> None:
        try:
            check(self._store.database)
            self._store.log.check_files()
        except Exception as exc:
            self.trouble = exc
            if not isinstance(exc, Error):
                logger.warning("the store cannot be asked", exc_info=traced(exc))
        with self._lock:
            self.is_done, waiters = True, list(self._waiters)
        for waiter in waiters:
            with suppress(RuntimeError):  # its event loop has been closed since
                waiter.get_loop().call_soon_threadsafe(waiter.cancel)  # which ends the waiting as well as a result


class StoreProbe:
    """Probes one store. From any thread and event loop."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store, self._clock = store, clock or SteadyClock()
        self._calls: list[StoreCall] = []  # in flight, the oldest first
        self._lock = Lock()

    async def ask(self) -> Exception | None:
        """Return the store's error; None: it answers, and its tables can be used."""
        call = self._call()
        if await call.wait(ANSWER_SECONDS):
            return call.trouble
        silent = self._clock.monotonic() - call.began
        return StoreSilence(f"the store has not answered for {silent:.1f} s")

    def _call(self) -> StoreCall:
        with self._lock:
            now = self._clock.monotonic()
            self._calls = [each for each in self._calls if not each.is_done]
            if self._calls and (len(self._calls) >= MOST_CALLS or now - self._calls[-1].began < HOPELESS_SECONDS):
                return self._calls[-1]
            call = StoreCall(self._store, now)
            call.start()  # first: a call that gets no thread is not waited for
            self._calls.append(call)
            return call


class Unready(NamedTuple):
    """One reason why a process is not ready: its store, a code, a sentence, and a remedy."""

    store: str
    reason: str
    detail: str
    remedy: str


class OutboxProbe:
    """Checks an outbox of this process; from any event loop."""

    def __init__(self, outbox: Outbox, *, needs_worker: bool) -> None:
        self._outbox, self._needs_worker = outbox, needs_worker
        self._store = StoreProbe(outbox.store)

    async def ask(self) -> list[Unready]:
        """Return all reasons why it is not ready, within `ANSWER_SECONDS` and a little more."""
        name, trouble = self._outbox.store.name, await self._store.ask()
        found = [] if trouble is None else [_of_store(name, trouble)]
        health = self._outbox.health()  # after the wait, so that it is current
        return [*found, *of_worker(name, health, needs_worker=self._needs_worker)]


def of_worker(name: str, health: WorkerHealth, *, needs_worker: bool) -> Iterator[Unready]:
    """Yield the problems of an outbox's workers, as far as the process knows them."""
    if not health.workers:
        if needs_worker:
            yield Unready(name, "not_running", "no worker of this store runs in this process", _START)
        return
    if health.refusal:
        yield Unready(name, "tables_refused", health.refusal, _TABLES)
    elif health.stopping:
        yield Unready(name, "stopping", "the worker is finishing what it has and takes nothing new", _STOPPING)
    elif health.lease_seconds is None:
        yield Unready(name, "joining", "the worker has not joined the others yet", _WAIT)
    elif health.lease_seconds <= 0:
        text = f"the lease of the worker ran out {-health.lease_seconds:.1f} s ago, so it starts no handler"
        yield Unready(name, "lease_lapsed", text, _LEASE)
    for group in health.given_up:
        yield Unready(name, "group_given_up", f"{group} is not served here", _HUNG)


def _of_store(name: str, trouble: Exception) -> Unready:
    if isinstance(trouble, StoreSilence):
        return Unready(name, "store_silent", str(trouble), _SILENT)
    if isinstance(trouble, Error):
        return Unready(name, trouble.code, str(trouble), _TABLES if isinstance(trouble, SchemaError) else _STORE)
    return Unready(name, "store_failed", f"the store answers with {type(trouble).__name__}", _STORE)
