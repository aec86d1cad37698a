"""Work that may wait for a lock, in the threads of an event loop: who waits long holds no thread meanwhile.

The work is tried and waits for a lock for a moment only. If that was in vain it gets one of a few places to
wait a little longer, then pauses without a thread, and begins again. So a partition that is locked takes at
most those few threads, however many write to it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

from penstock.clock import SYSTEM, Clock
from penstock.errors import StoreLocked

from .database import Database

T = TypeVar("T")

_FIRST_SECONDS, _PLACE_SECONDS = 0.01, 0.25  # to wait for a lock: of all, and of those who have a place
_PLACES = 2
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.64
_GIVE_UP_SECONDS = 30.0  # as long as clients wait for an answer


class LockWaits:
    """Those who wait, of one event loop."""

    def __init__(self, database: Database, threads: Executor, clock: Clock = SYSTEM) -> None:
        self._database, self._threads, self._clock = database, threads, clock
        self._places = asyncio.Semaphore(_PLACES)

    async def run(self, work: Callable[[], T]) -> T:
        """Run work, which writes nothing when it raises StoreLocked, until it can lock what it needs.

        Raises StoreLocked when that takes too long.
        """
        if self._database.dialect.writers is not None:  # one at a time writes anyway
            return await self._run(work)
        pause, end = _PAUSE_SECONDS, self._clock.monotonic() + _GIVE_UP_SECONDS
        while True:
            try:
                return await self._tried(_FIRST_SECONDS, work)
            except StoreLocked:
                if self._clock.monotonic() >= end:
                    raise
            async with self._places:
                try:
                    return await self._tried(_PLACE_SECONDS, work)
                except StoreLocked:
                    pass
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _tried(self, seconds: float, work: Callable[[], T]) -> T:
        return await self._run(partial(self._database.hurried, seconds, work))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
