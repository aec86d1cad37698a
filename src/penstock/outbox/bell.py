"""The bell: rings when a transaction that staged something has ended, so that nobody needs to look often.

Drivers have no hook for a commit. So a thread looks at the state of connections that staged something, which
costs no I/O: several times a millisecond while that is new, then less often, and not at all after five
seconds, when polling will do. It rings after a rollback too; that costs one query. Nothing is done on the
caller's connection. After a ring it neither looks nor rings for a while, the longer the more is published:
what comes together is rung for together.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from threading import Event, Lock, Thread
from typing import Any
from weakref import ref

from penstock.clock import SYSTEM
from penstock.settings import Settings, setting

_NEW_SECONDS, _FRESH_SECONDS, _OLD_SECONDS, _GIVEN_UP_SECONDS = 0.005, 0.05, 1.0, 5.0
_SHORTEST_PAUSE, _SHORT_PAUSE, _PAUSE, _LONG_PAUSE = 0.0002, 0.001, 0.01, 0.1
# Between two rings, by how much was published since the one before: a trickle is not held up, a flood is
# gathered.
_FEW_PUBLISHES, _MANY_PUBLISHES = 2, 6
_SHORTEST_REST, _REST, _LONGEST_REST = 0.002, 0.005, 0.02
_AGAIN_SECONDS = 0.002  # a connection used again after this time may have committed in between
MOST_SLOTS = 32  # above it, the slots are not named
_UNKNOWN = -1
UNKNOWN_SLOTS = (_UNKNOWN,)

IsOpen = Callable[[Any], bool]


class BellSettings(Settings, room="bell"):
    """How workers learn of new events without looking."""

    enabled: bool = setting(True, "Wake workers when a transaction that published has ended.")
    listen_url: str = setting(
        "", "Address at which workers listen, when that of the store leads through a transaction pooler."
    )


class Bell:
    """Watches connections and rings. Safe from any thread, and after a fork.

    `ring` gets the slots in which something was staged, or None when they are unknown or too many.
    """

    def __init__(self, ring: Callable[[frozenset[int] | None], object]) -> None:
        self._ring = ring
        self._watched: dict[int, tuple[Callable[[], Any], IsOpen, float, set[int]]] = {}
        self._lock, self._wake, self._rest = Lock(), Event(), Event()
        self._asleep, self._closed = True, False
        self._published = 0  # since the last ring, about
        self._again: deque[int] = deque()
        self._thread: Thread | None = None
        self._pid = 0

    def watch(self, conn: Any, is_open: IsOpen, slots: Iterable[int] = UNKNOWN_SLOTS) -> None:
        """Ring once the transaction on this driver's connection has ended; it staged in these slots."""
        now, key = SYSTEM.monotonic(), id(conn)
        self._published += 1
        known = self._watched.get(key)
        if known is not None and known[0]() is conn and now - known[2] <= _AGAIN_SECONDS:
            known[3].update(slots)
            is_kept = self._watched.get(key) is known  # else the bell looks at it, and may let it go
        else:
            is_kept = False
            if known is not None:  # of this connection, or of one that is gone and had the same id;
                self._again.extend(known[3])  # rung by the bell's thread: this one may be an event loop's
        if not is_kept:
            self._watched[key] = (reference_to(conn), is_open, now, set(slots))
        if self._asleep or self._pid != os.getpid():
            self._rouse()

    def close(self) -> None:
        """Stop watching."""
        self._closed = True
        self._wake.set()
        self._rest.set()

    def _rouse(self) -> None:
        with self._lock:
            if self._thread is None or self._pid != os.getpid():
                self._pid, self._asleep = os.getpid(), False
                self._wake, self._rest = Event(), Event()
                self._thread = Thread(target=self._run, name="penstock-bell", daemon=True)
                self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        wake = self._wake
        while not self._closed:
            if not self._watched:
                self._asleep = True
                if not self._watched:  # else it came in between
                    wake.wait()
                self._asleep = False
                wake.clear()
                continue
            pause = self._look()
            if pause is None:
                self._rest.wait(self._resting_seconds())
            elif self._watched:
                wake.wait(pause)
                wake.clear()

    def _resting_seconds(self) -> float:
        """Return how long to rest after a ring, whatever comes meanwhile."""
        published, self._published = self._published, 0
        if published > _MANY_PUBLISHES:
            return _LONGEST_REST
        return _REST if published > _FEW_PUBLISHES else _SHORTEST_REST

    def _look(self) -> float | None:
        """Ring if a transaction has ended; else return how long to wait before the next look."""
        now, pause = SYSTEM.monotonic(), _LONG_PAUSE
        ended = {self._again.popleft() for _ in range(len(self._again))}
        for key in list(self._watched):
            watched = self._watched.pop(key)  # so that who publishes on it meanwhile is watched again
            reference, is_open, since, slots = watched
            conn, age = reference(), now - since
            if conn is None or age > _GIVEN_UP_SECONDS or not still_open(conn, is_open):
                ended |= slots
                continue
            newer = self._watched.setdefault(key, watched)
            if newer[2] - since > _AGAIN_SECONDS:
                ended |= slots
            elif newer is not watched:
                newer[3].update(slots)
            if age < _NEW_SECONDS:
                pause = _SHORTEST_PAUSE
            elif age < _FRESH_SECONDS:
                pause = min(pause, _SHORT_PAUSE)
            elif age < _OLD_SECONDS:
                pause = min(pause, _PAUSE)
        if ended:
            self._ring(None if _UNKNOWN in ended or len(ended) > MOST_SLOTS else frozenset(ended))
            return None
        return pause


def reference_to(conn: Any) -> Callable[[], Any]:
    """Return a weak reference; a strong one, for the seconds it is watched, where there is none."""
    try:
        return ref(conn)
    except TypeError:
        return lambda: conn


def still_open(conn: Any, is_open: IsOpen) -> bool:
    """Return whether a transaction is open; on a connection that is closed or broken there is none."""
    try:
        return is_open(conn)
    except Exception:
        return False
