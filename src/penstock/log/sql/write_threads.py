"""The threads that write batches to a database, so that a locked or busy partition blocks no other.

| threads   | work                                                                                         |
|-----------|----------------------------------------------------------------------------------------------|
| gathering | write pending batches of many partitions in one transaction; they skip locked partitions     |
| waiting   | write to one contested partition each, with a short lock wait, then to the next              |

One thread gathers at a time, so that many producers share a commit; another starts when a transaction takes
long, as a large one does. A database with one writer has one thread, which waits for its turn.

Other writes wait in an event loop's thread pool (`LockWaits`). Each is tried with a very short lock wait. If that
fails it gets one of a few places for a longer wait, then pauses without a thread, and starts over. So a locked
partition holds at most those few threads, however many clients write to it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from threading import Condition, RLock, Thread
from typing import TypeVar

from penstock.clock import SYSTEM, Clock
from penstock.database.database import Database
from penstock.errors import StoreLocked
from penstock.redaction import traced

from ..batches import Write, WriteResult, WritesDone
from .write_turns import WaitingWrite, WriteTurns

GATHERING = 3  # threads; each uses one session while it works, as each of the waiting ones does
LONG_SECONDS = 0.02  # writes to other partitions do not wait for a longer transaction
PLACES = 2  # longer waits at a time; each holds a thread and a session
LOCK_SECONDS = 0.25  # the longer lock wait
GIVE_UP_SECONDS = 30.0  # then a client gets an error that its partition is locked: it retries or gives up
_FIRST_SECONDS = 0.01  # the lock wait of the first try
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 0.64

logger = logging.getLogger("penstock.batches")
T = TypeVar("T")

WriteUnit = Callable[[Sequence[Write], bool], Sequence[WriteResult | None]]


class WriteThreads:
    """Writes added batches, from the first `add` to `close`. Safe from any thread."""

    def __init__(self, database: Database, write: WriteUnit, clock: Clock) -> None:
        """`write(writes, waits)` writes in one transaction; its results are None for locked partitions."""
        self._database, self._write, self._clock = database, write, clock
        self._turns = WriteTurns()
        lock = RLock()
        self._lock, self._contest = Condition(lock), Condition(lock)
        self._begun: dict[int, float] = {}  # start times of gathering transactions, by thread
        self._closed = False
        self._has_one_writer = database.dialect.writers == 1
        gathering, waiting = (1, 0) if self._has_one_writer else (GATHERING, PLACES)
        runs = [self._gather] * gathering + [self._wait] * waiting
        self._threads = [
            Thread(target=run, args=(number,), name=f"penstock-batches-{number}", daemon=True)
            for number, run in enumerate(runs)
        ]
        for each in self._threads:
            each.start()

    def add(self, source: object, writes: Sequence[Write], done: WritesDone) -> bool:
        """Hand writes over; return False if it is closed."""
        with self._lock:
            if self._closed:
                return False
            self._turns.add(source, writes, done, self._clock.monotonic())
            if self._may_gather():
                self._lock.notify()
        return True

    def close(self) -> None:
        """Finish the pending writes, and end the threads."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
            self._contest.notify_all()
        for each in self._threads:
            each.join()

    def _may_gather(self) -> bool:
        """Return whether no thread gathers, or all gathering transactions take long."""
        now = self._clock.monotonic()
        return all(now - begun >= LONG_SECONDS for begun in self._begun.values())

    def _gather(self, number: int) -> None:
        while True:
            with self._lock:
                taken: list[WaitingWrite] = []
                while not taken:
                    if self._turns and self._may_gather():
                        taken = self._turns.take(self._clock.monotonic())
                    if not taken:
                        if self._closed and not self._turns:
                            return
                        may_change = self._turns or self._begun  # passing time alone may allow it
                        self._lock.wait(LONG_SECONDS if may_change else None)
                self._begun[number] = self._clock.monotonic()
                self._lock.notify()  # another stands by in case this takes long
            self._finish(number, taken, waits=self._has_one_writer)

    def _wait(self, number: int) -> None:
        while True:
            with self._lock:
                while not self._turns.is_contested:
                    if self._closed and not self._turns:
                        return
                    self._contest.wait()
                taken = self._turns.take_contested()
            if taken:
                self._finish(number, taken, waits=True)

    def _finish(self, number: int, taken: list[WaitingWrite], *, waits: bool) -> None:
        writes = [each.write for each in taken]
        if waits:
            results = self._database.with_lock_limit(LOCK_SECONDS, lambda: self._write(writes, True))
        else:
            results = self._write(writes, False)
        with self._lock:
            now = self._clock.monotonic()
            judged = [self._judged(*each, now) for each in zip(taken, results, strict=True)]
            finished = self._turns.end(taken, judged, now)
            self._begun.pop(number, None)
            if self._turns.is_contested:
                self._contest.notify()
            if self._closed:
                self._lock.notify_all()
                self._contest.notify_all()
            elif self._turns:
                self._lock.notify()
        for each in finished:
            try:
                each.answer()
            except Exception as exc:  # a write thread that ended would stop all producers
                logger.error("the result of a write was not delivered", exc_info=traced(exc))

    def _judged(self, waiting: WaitingWrite, result: WriteResult | None, now: float) -> WriteResult | None:
        """Return the result of a write; refuse it if its partition has been locked for too long."""
        if result is None and (self._has_one_writer or now - waiting.since >= GIVE_UP_SECONDS):
            return WriteResult(error=StoreLocked(self._database.where))
        return result


class LockWaits:
    """The lock waits of one event loop."""

    def __init__(self, database: Database, threads: Executor, clock: Clock = SYSTEM) -> None:
        self._database, self._threads, self._clock = database, threads, clock
        self._places = asyncio.Semaphore(PLACES)

    async def run(self, work: Callable[[], T]) -> T:
        """Run work, which writes nothing when it raises StoreLocked, until it gets its locks.

        Raises StoreLocked when that takes too long.
        """
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
