"""Asks a store whether it answers, and does not wait for one that hangs.

A driver's call cannot be interrupted, so it runs in a thread of its own and the question waits for that
thread for a limited time. Questions that come meanwhile wait for the same answer: however often a probe
comes, the store is asked once at a time. A call that hangs for long may hang in a lost connection while the
store is well again, so another is made beside it; a few at most, since threads are limited.
"""

import asyncio
import logging
from contextlib import suppress
from threading import Lock, Thread

from penstock.clock import Clock, SteadyClock
from penstock.database.migrations import check
from penstock.errors import Error
from penstock.log.store import Store
from penstock.redaction import traced

logger = logging.getLogger("penstock.gateway")

ANSWER_SECONDS = 2.0  # how long a question waits for the store
HOPELESS_SECONDS = 10.0  # how long a call hangs before another is made beside it
MOST_CALLS = 3

_Waiter = asyncio.Future[None]


class StoreSilence(Exception):
    """The store has not answered yet; ask again later."""


class StoreCall:
    """One call of the store, in a thread: running, or ended, with its error if there was one."""

    def __init__(self, store: Store, began: float) -> None:
        self.began, self.is_done = began, False
        self.trouble: Exception | None = None
        self._store, self._lock = store, Lock()
        self._waiters: set[_Waiter] = set()

    def start(self) -> None:
        """Start the call; returns at once."""
        Thread(target=self._run, name="penstock-probe", daemon=True).start()

    async def wait(self, seconds: float) -> bool:
        """Wait for its end, `seconds` at most; return whether it has come."""
        waiter: _Waiter = asyncio.get_running_loop().create_future()
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
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)


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
        """Return a call to wait for: the one in flight, or a new one."""
        with self._lock:
            now = self._clock.monotonic()
            self._calls = [each for each in self._calls if not each.is_done]
            is_enough = len(self._calls) >= MOST_CALLS
            if self._calls and (is_enough or now - self._calls[-1].began < HOPELESS_SECONDS):
                return self._calls[-1]
            call = StoreCall(self._store, now)
            call.start()  # first: a call that gets no thread is not waited for
            self._calls.append(call)
            return call


def _wake(waiter: _Waiter) -> None:
    if not waiter.done():
        waiter.set_result(None)
