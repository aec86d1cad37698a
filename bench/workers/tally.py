"""Counting what handlers of many threads have done, without a lock in their way."""

import time
from threading import Event

_NEVER = 1 << 62


class Tally:
    """How many were handled. `add` may be called from any thread; the rest is for one.

    A list grows by one place for each: appending is atomic, and its length is then exact, which no number
    that threads raise would be.
    """

    def __init__(self) -> None:
        self.stamps: list[int] = []
        self.seen: list[tuple[int, int]] = []  # which event, and when
        self.held: list[None] = []  # as long as so many calls take their time
        self._handled: list[None] = []
        self._goal = _NEVER
        self._reached = Event()
        self._moment_ns = 0

    def add(self) -> None:
        """Count one."""
        self._handled.append(None)
        if len(self._handled) >= self._goal:
            self._arrive()

    def count(self) -> int:
        """Return how many were counted."""
        return len(self._handled)

    def wait(self, goal: int, seconds: float) -> int | None:
        """Wait until so many were counted; return the moment, or None when that took too long."""
        self._reached.clear()
        self._goal = goal
        if len(self._handled) >= goal:
            self._arrive()
        reached = self._reached.wait(seconds)
        return self._moment_ns if reached else None

    def _arrive(self) -> None:
        self._goal = _NEVER
        self._moment_ns = time.monotonic_ns()
        self._reached.set()
