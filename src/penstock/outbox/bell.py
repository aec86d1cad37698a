"""The bell: rings when a transaction that staged something has ended, so that nobody needs to look often.

Drivers have no hook for a commit; where a library has one, it makes the bell look at once. Else a thread
looks at the state of connections that staged something, which costs no I/O: first when a transaction usually
ends, then the less often the older it gets, and not at all after five seconds, when polling will do. It rings
after a rollback too; that costs one query. Nothing is done on the caller's connection. After a ring it
neither looks nor rings for a while: what comes together is rung for together.

A process that publishes fast would ring all the time, and look at its connections in between, on the cores
that it needs itself. So in a flood the bell looks at nothing: a few times a second it says that events come
until it rings again, and who hears that looks by himself.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Lock, Thread
from typing import Any
from weakref import ref

from penstock.clock import SYSTEM
from penstock.settings import Settings, setting

_GIVEN_UP_SECONDS = 5.0
# Between two looks at a transaction, by its age: a long one is looked at a few times more than a short one.
_SHORTEST_PAUSE, _LONGEST_PAUSE, _OF_ITS_AGE = 0.0002, 0.1, 0.2
_BEFORE_FIRST_LOOK, _LONGEST_BEFORE = 0.6, 0.02  # of how long transactions usually take; in seconds
# Between two rings, by how much was published since the one before: a trickle is not held up, a flood is
# gathered.
_FEW_PUBLISHES, _MANY_PUBLISHES = 2, 6
_SHORTEST_REST, _REST, _LONGEST_REST = 0.002, 0.005, 0.02
# And it is longer than a ring takes, so that rings do not keep a busy machine busy.
_OF_THE_RING, _LONGEST_AFTER_RING = 4, 0.1
# A flood: so many publishes, over so long, that rings for all would take this share of the time; so on a busy
# machine, where a ring takes longer, it begins earlier. It ends a quarter below: at half, a steady
# stream that never was a flood stayed one after a single burst.
_RINGING_SHARE, _MEASURED_SECONDS, _END_OF_FLOOD = 0.3, 0.05, 0.75
_LEAST_FLOOD_RATE, _MOST_FLOOD_RATE = 20, 200  # a second
_FIRST_FLOOD_REST, _LONGEST_FLOOD_REST = 0.05, 0.2
_FLOOD_MARGIN = 1.5  # of what is said to the rest that follows: the next word may be late
_AGAIN_SECONDS = 0.002  # a connection used again after this time may have committed in between
_WEIGHT_OF_RING = 0.2  # in how long they usually take
_WEIGHT_OF_SHORTER, _WEIGHT_OF_LONGER = 0.5, 0.1  # of a transaction in how long they usually take
_TOLD_PAUSE = 0.02  # before a look at what a library is to tell of: it tells nothing of a rollback
MOST_SLOTS = 32  # above it, the slots are not named
_UNKNOWN = -1
UNKNOWN_SLOTS = (_UNKNOWN,)

IsOpen = Callable[[Any], bool]

_forks = 0  # how often this process was forked off another: threads are not


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class BellSettings(Settings, room="bell"):
    """How workers learn of new events without looking."""

    enabled: bool = setting(True, "Wake workers when a transaction that published has ended.")
    listen_url: str = setting(
        "", "Address at which workers listen, when that of the store leads through a transaction pooler."
    )


class WakeUp:
    """Wakes one thread that waits. An `Event` makes a lock for each wait: that took longer than the look."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake who waits, or who waits next."""
        with suppress(RuntimeError):  # it is set already
            self._lock.release()

    def wait(self, seconds: float = -1) -> None:
        """Wait until it is set, at most so long; it is not set afterwards."""
        self._lock.acquire(timeout=seconds)


class Bell:
    """Watches connections and rings. Safe from any thread, and after a fork.

    `ring` gets the slots in which something was staged, or None when they are unknown or too many. `flood`
    gets for how many seconds events may come without a ring; without it, the bell rings in a flood, too.
    """

    def __init__(
        self,
        ring: Callable[[frozenset[int] | None], object],
        flood: Callable[[float], object] | None = None,
    ) -> None:
        self._ring, self._flood = ring, flood
        self._watched: dict[int, tuple[Callable[[], Any], IsOpen, float, set[int], bool]] = {}
        self._lock, self._wake, self._rest = Lock(), WakeUp(), WakeUp()
        self._asleep, self._closed, self._flooding = True, False, False
        self._published = 0  # since the last ring, about
        self._counted, self._counted_since = 0, 0.0
        self._usual_seconds = 0.0  # from a publish to the end of its transaction
        self._ring_seconds = 0.0  # how long a ring usually takes
        self._again: deque[int] = deque()
        self._thread: Thread | None = None
        self._forks = _forks

    def watch(
        self, conn: Any, is_open: IsOpen, slots: Iterable[int] = UNKNOWN_SLOTS, *, told: bool = False
    ) -> None:
        """Ring once the transaction on this driver's connection has ended; it staged in these slots.

        `told`: `look` is called when it has committed.
        """
        self._published += 1
        key = id(conn)
        known = self._watched.get(key)
        if known is not None and known[0]() is conn:
            if self._flooding and self._forks == _forks:
                return  # it is rung for in any case, and looked at when the flood is over
            now = SYSTEM.monotonic()
            is_same = now - known[2] <= _AGAIN_SECONDS
        else:
            now, is_same = SYSTEM.monotonic(), False
        if known is not None and is_same:
            known[3].update(slots)
            is_kept = self._watched.get(key) is known  # else the bell looks at it, and may let it go
        else:
            is_kept = False
            if known is not None:  # of this connection, or of one that is gone and had the same id;
                self._again.extend(known[3])  # rung by the bell's thread: this one may be an event loop's
        if not is_kept:
            self._watched[key] = (reference_to(conn), is_open, now, set(slots), told)
        if self._asleep or self._forks != _forks:
            self._rouse()

    def look(self) -> None:
        """Look now: a transaction has committed. In a flood nobody looks."""
        if not self._flooding:
            self._wake.set()

    def close(self) -> None:
        """Stop watching."""
        self._closed = True
        self._wake.set()
        self._rest.set()

    def _rouse(self) -> None:
        with self._lock:
            if self._thread is None or self._forks != _forks:
                self._forks, self._asleep, self._flooding = _forks, False, False
                self._wake, self._rest = WakeUp(), WakeUp()
                self._thread = Thread(target=self._run, name="penstock-bell", daemon=True)
                self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        wake = self._wake
        while not self._closed:
            if not self._watched and not self._again:
                self._asleep = True
                if not self._watched:  # else it came in between
                    wake.wait()
                self._asleep = False
                wake.wait(self._first_pause())
                continue
            pause = self._look()
            if pause is not None:
                if self._watched:
                    wake.wait(pause)
            elif self._is_flood():
                self._flow()
            else:
                self._rest.wait(self._resting_seconds())

    def _first_pause(self) -> float:
        if all(each[4] for each in list(self._watched.values())):
            return _TOLD_PAUSE
        return min(self._usual_seconds * _BEFORE_FIRST_LOOK, _LONGEST_BEFORE)

    def _is_flood(self) -> bool:
        """Return whether so much is published that it is not worth while to ring for it."""
        if self._flood is None:
            return False
        now = SYSTEM.monotonic()
        counted, seconds = self._counted + self._published, now - self._counted_since
        if seconds < _MEASURED_SECONDS:
            self._counted = counted
            return False
        self._counted, self._counted_since = 0, now
        return counted >= seconds * self._flood_rate()

    def _flood_rate(self) -> float:
        rate = _RINGING_SHARE / max(self._ring_seconds, _RINGING_SHARE / _MOST_FLOOD_RATE)
        return max(rate, _LEAST_FLOOD_RATE)

    def _flow(self) -> None:
        """Say again and again that events come, for as long as they do."""
        assert self._flood is not None
        self._flooding, seconds = True, _FIRST_FLOOD_REST
        least_rate = self._flood_rate() * _END_OF_FLOOD
        while not self._closed:
            self._published = 0
            self._flood(seconds * _FLOOD_MARGIN)
            self._rest.wait(seconds)
            self._forget_old()
            if self._published < seconds * least_rate:
                break
            seconds = min(seconds * 2, _LONGEST_FLOOD_REST)
        self._flooding = False
        self._again.append(_UNKNOWN)  # what came last is rung for at the next look

    def _forget_old(self) -> None:
        """Let go of connections that are gone, or long unused; who publishes on one has it watched again."""
        oldest = SYSTEM.monotonic() - _GIVEN_UP_SECONDS
        for key, (reference, is_open, since, *_) in list(self._watched.items()):
            conn = reference()
            if conn is None or (since < oldest and not still_open(conn, is_open)):
                self._watched.pop(key, None)

    def _resting_seconds(self) -> float:
        """Return how long to rest after a ring, whatever comes meanwhile."""
        published, self._published = self._published, 0
        least = min(self._ring_seconds * _OF_THE_RING, _LONGEST_AFTER_RING)
        if published > _MANY_PUBLISHES:
            return max(_LONGEST_REST, least)
        return max(_REST if published > _FEW_PUBLISHES else _SHORTEST_REST, least)

    def _look(self) -> float | None:
        """Ring if a transaction has ended; else return how long to wait before the next look."""
        now, pause = SYSTEM.monotonic(), _LONGEST_PAUSE
        ended = {self._again.popleft() for _ in range(len(self._again))}
        for key in list(self._watched):
            watched = self._watched.pop(key)  # so that who publishes on it meanwhile is watched again
            reference, is_open, since, slots, told = watched
            conn, age = reference(), now - since
            if conn is None or age > _GIVEN_UP_SECONDS or not still_open(conn, is_open):
                self._note_age(age)
                ended |= slots
                continue
            newer = self._watched.setdefault(key, watched)
            if newer[2] - since > _AGAIN_SECONDS:
                ended |= slots
            elif newer is not watched:
                newer[3].update(slots)
            pause = min(pause, max(age * _OF_ITS_AGE, _TOLD_PAUSE if told else 0.0))
        if ended:
            self._ring(None if _UNKNOWN in ended or len(ended) > MOST_SLOTS else frozenset(ended))
            took = min(SYSTEM.monotonic() - now, _LONGEST_AFTER_RING)
            self._ring_seconds += (took - self._ring_seconds) * _WEIGHT_OF_RING
            return None
        return max(pause, _SHORTEST_PAUSE)

    def _note_age(self, age: float) -> None:
        longer = age - self._usual_seconds
        self._usual_seconds += longer * (_WEIGHT_OF_LONGER if longer > 0 else _WEIGHT_OF_SHORTER)


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
