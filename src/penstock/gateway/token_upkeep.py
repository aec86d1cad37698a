"""Forgets old tokens of requests, once in a while, at any door that uses tokens."""

from concurrent.futures import ThreadPoolExecutor

from penstock.clock import Clock
from penstock.log.store import Store
from penstock.operate.producer import forget_tokens

_EVERY_SECONDS = 3600.0


class TokenUpkeep:
    """Of one door. From any thread; a second caller within the hour finds it done."""

    def __init__(self, store: Store, threads: ThreadPoolExecutor, clock: Clock) -> None:
        self._store, self._threads, self._clock = store, threads, clock
        self._tended = clock.monotonic()

    def tend(self) -> None:
        """Forget old tokens unless that was done lately; in a thread, without waiting for it."""
        now = self._clock.monotonic()
        if now - self._tended >= _EVERY_SECONDS:
            self._tended = now
            self._threads.submit(forget_tokens, self._store, clock=self._clock)
