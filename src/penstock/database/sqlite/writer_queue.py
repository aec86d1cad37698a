"""The order in which the threads of one process write to one SQLite file."""

import os
from collections import deque
from threading import Lock, get_ident
from typing import Any


class WriterQueue:
    """Lets the transactions of this process write in order of arrival.

    In SQLite a waiting writer sleeps for up to 100 ms between two tries. So a thread that writes again at
    once always finds the lock free, and the sleeping ones starve: one group kept another waiting for seconds.
    The queue only sets the order. SQLite's lock still decides which connection writes, and a thread continues
    without a turn when it has waited for as long as it would wait for that lock, or holds the turn itself.
    From any thread.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock, self._pid = Lock(), os.getpid()
        self._holder: tuple[Any, int] | None = None  # a connection, and the thread that took the turn
        self._waiting: deque[tuple[Any, int, Any]] = deque()  # the same, and a lock that its turn releases

    def join(self, conn: Any, seconds: float) -> None:
        """Wait for the turn of a connection, at most that long."""
        if self._pid != os.getpid():  # after a fork: one of the parent's threads may have held the lock
            self._begin()
        with self._lock:
            thread = get_ident()
            if self._holder is None:
                self._holder = conn, thread
                return
            if self._holder[1] == thread:
                return
            go_on = Lock()
            go_on.acquire()
            place = conn, thread, go_on
            self._waiting.append(place)
        has_turn = False
        try:
            has_turn = go_on.acquire(timeout=seconds)
        finally:
            if not has_turn:
                with self._lock:
                    if place in self._waiting:
                        self._waiting.remove(place)

    def leave(self, conn: Any) -> None:
        """End the turn of a connection, if it has it, and start the next."""
        holder = self._holder
        if holder is None or holder[0] is not conn:
            return
        with self._lock:
            if self._holder is not holder:
                return
            self._holder = None
            if self._waiting:
                following, thread, go_on = self._waiting.popleft()
                self._holder = following, thread
                go_on.release()
