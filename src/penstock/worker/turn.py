"""The turn: the right to use the state of the groups of a process, which one thread has at a time.

    posts, from any thread             the turn                              outside of it

    bell ──► mover ──┐ moves       ┌── collect results                       the mover moves events
    handlers ────────┤ results     │   exchange partitions                   handlers run
    membership ──────┼────────────►│   plan settlements ──────────────────► their write to the store
    clock ───────────┘ due times   │   confirm them ◄──────────────────────
                                   └── read on, hand out ──► handlers

Who moves: the mover, in its own thread. Who hands out: the thread that has the turn. Who settles: the thread
`penstock-turn`. It sleeps until something is due or posted. Instead of waking it, the mover takes a turn
itself when it has moved a few events; that saves the change of threads. Where a turn waits for the store to
write settlements, it is given up until they are written, and the mover may take one meanwhile.
"""

from collections.abc import Callable, Generator
from threading import Event, Lock, Thread
from typing import Protocol

from penstock.backoff import Backoff
from penstock.clock import Clock

TurnSteps = Generator[Callable[[], object], None, float]


class Taker(Protocol):
    """What is done in a turn. `own` and `guest` return for how many seconds there is nothing to do."""

    def own(self, *, timed: bool) -> TurnSteps:
        """Do everything; yield writes, to be made outside of the turn. `timed`: no post ended the wait before."""

    def guest(self, *, beside: bool) -> float | None:
        """Do what needs no write; None: this one may not be made now. `beside`: a write is under way."""

    def end(self) -> None:
        """Make the last turn, in which everything ends. Must not fail."""


class Turn:
    """Sees to it that turns are made one at a time, by its own thread, which waits after an error, or a guest."""

    def __init__(self, taker: Taker, clock: Clock, backoff: Backoff) -> None:
        self._taker, self._clock, self._backoff = taker, clock, backoff
        self._lock, self.posted, self._stopping = Lock(), Event(), Event()
        self._sleeps_until = 0.0
        self._failure: Exception | None = None  # of the last turn of a guest
        self._thread: Thread | None = None
        self.is_writing = False  # the own thread waits for the store, in the middle of its turn

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread = Thread(target=self._run, name="penstock-turn", daemon=True)
        self._thread.start()

    def post(self) -> None:
        """Report that there is something to do; the next turn comes at once."""
        self.posted.set()

    def take(self) -> bool:
        """Make a turn as a guest; return False if that cannot be: then it should be posted."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._stopping.is_set():
                return False
            pause = self._taker.guest(beside=self.is_writing)
            if pause is None:
                return False
            self._failure = None
            return self._clock.monotonic() + pause >= self._sleeps_until
        except Exception as exc:
            self._failure = exc  # replaces an earlier one: the own thread waits once, not once for each
            return False
        finally:
            self._lock.release()

    def stop(self) -> None:
        """Let the next turn be the last; returns at once."""
        self._stopping.set()
        self.posted.set()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the last turn; return whether it has ended."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        is_posted = True
        while not self._stopping.is_set():
            pause = self._make(self._taker.own(timed=not is_posted))
            is_posted = self.posted.wait(pause)
            self.posted.clear()  # before the check of `_stopping`: a stop that comes in between is seen
        with self._lock:
            self._taker.end()

    def _make(self, steps: TurnSteps) -> float:
        """Make a turn of the own thread; return for how long there is nothing to do."""
        failed: Exception | None = None
        while True:
            with self._lock:
                try:
                    if not self.is_writing:
                        self._raise_failure()
                    self.is_writing = False
                    write = next(steps) if failed is None else steps.throw(failed)
                    self.is_writing = True
                except StopIteration as end:
                    self._backoff.is_well()
                    return self._slept(float(end.value))
                except Exception as exc:
                    return self._slept(self._backoff.trouble(exc))
            failed = None
            try:
                write()
            except Exception as exc:
                failed = exc

    def _raise_failure(self) -> None:
        """Raise the error of a guest's turn, if the last one failed: it is this thread that waits for it."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _slept(self, pause: float) -> float:
        self._sleeps_until = self._clock.monotonic() + pause
        return pause
