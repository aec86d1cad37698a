"""Runs work that may wait for a lock, in an event loop's thread pool, without holding a thread for long.

The work is tried with a very short lock wait. If that fails it gets one of a few places for a longer wait, then pauses
without a thread, and starts over. So a locked partition holds at most those few threads.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

from penstock.clock import SYSTEM, Clock
from penstock.database.database import Database
from penstock.errors import StoreLocked

T = TypeVar("T")

PLACES = 2  # longer waits at a time; each holds a thread and a session
LOCK_SECONDS = 0.25  # the longer lock wait
GIVE_UP_SECONDS = 30.0  # then a client gets an error that its partition is locked: it retries or gives up
_FIRST_SECONDS = 0.01  # the lock wait of the first try
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.64


class LockWaits:
    """The lock waits of one event loop."""

    def __init__(self, database: Database, threads: Executor, clock: Clock = SYSTEM) -> None:
        self._database, self._threads, self._clock = database, threads, clock
        self._places = asyncio.Semaphore(PLACES)

    async def run(self, work: Callable[[], T]) -> T:
        """Run work, which writes nothing at StoreLocked, until it has its locks; raised if that takes too long."""
        if self._database.dialect.writers is not None:  # a single writer anyway
            return await self._run(work)
        pause, end = _PAUSE_SECONDS, self._clock.monotonic() + GIVE_UP_SECONDS
        while True:
            try:
                return await self._tried(_FIRST_SECONDS, work)
            except StoreLocked:
                if self._clock.monotonic() >= end:
                    raise
            async with self._places:
                try:
                    return await self._tried(LOCK_SECONDS, work)
                except StoreLocked:
                    pass
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _tried(self, seconds: float, work: Callable[[], T]) -> T:
        return await self._run(partial(self._database.with_lock_limit, seconds, work))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
