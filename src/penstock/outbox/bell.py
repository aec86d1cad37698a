"""The bell: rings when a transaction that staged events has ended, so that workers need not poll often.

Drivers have no hook for a commit; where a library has one, it makes the bell look at once. Otherwise a thread checks
the state of the connections that staged events, without I/O: first when a transaction usually ends, then less and less
often, and not at all after five seconds. It rings after a rollback too; that costs one query. After a ring it rests for
a while, so that events that come together get one ring.

A process that publishes fast would ring all the time, on the cores that it needs for its work. So in a flood the bell
only announces, a few times a second, a stream of events until its next ring; workers that hear this poll.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any
from weakref import ref

from penstock.clock import SYSTEM
from penstock.settings import Settings, setting

MOST_SLOTS = 32  # above it, the slots are not named


@dataclass(frozen=True, slots=True)
class BellPace:
    """How often the bell checks and rings; times are in seconds."""

    # Checks of an open transaction: after a share of its age, so a long one costs few more than a short one.
    shortest_pause: float = 0.0002  # a check takes less
    longest_pause: float = 0.1  # a transaction this long does not mind
    pause_of_age: float = 0.2  # so the bell is late by a fifth of the transaction at most
    first_check: float = 0.6  # of the usual time of a transaction: before that it is rarely over
    longest_before_first_check: float = 0.02  # where transactions are usually long, one may be short
    hooked_pause: float = 0.02  # with a commit hook, which reports no rollback, checks only find rollbacks
    given_up_after: float = 5.0  # after that polling finds the events
    used_again_after: float = 0.002  # a connection used again this late may have committed in between
    weight_of_shorter: float = 0.5  # of one transaction in the usual time: a late first check costs latency
    weight_of_longer: float = 0.1  # and an early one costs only checks

    # Rests between two rings, by the publishes since the last one: a trickle is not delayed, a flood batched.
    few_publishes: int = 2  # no more than these are a trickle
    many_publishes: int = 6  # more than these make the longest rest worth while
    shortest_rest: float = 0.002
    rest: float = 0.005
    longest_rest: float = 0.02
    rest_of_ring: float = 4  # rests are longer than a ring takes, or rings keep a busy machine busy
    longest_rest_of_ring: float = 0.1  # one slow ring must not silence the bell
    weight_of_ring: float = 0.2  # of one ring in the usual time of a ring

    # A flood begins at the rate of publishes at which rings for all would take this share of the time: on a
    # busy machine, where a ring takes longer, earlier.
    ringing_share: float = 0.3
    measured_over: float = 0.05  # long enough to tell a rate from a burst
    least_flood_rate: float = 20  # a second: below it no machine is too busy to ring
    most_flood_rate: float = 200  # a second: above it polling is cheaper everywhere
    end_of_flood: float = 0.75  # of its rate; at half of it a steady stream stayed a flood after one burst
    first_flood_rest: float = 0.05  # a short flood ends soon
    longest_flood_rest: float = 0.2  # bounds how long the end of a flood goes unnoticed
    flood_margin: float = 1.5  # announced time over the rest: the next announcement may be late


PACE = BellPace()

_UNKNOWN = -1
UNKNOWN_SLOTS = (_UNKNOWN,)

IsOpen = Callable[[Any], bool]

_forks = 0  # the number of forks that led to this process; threads do not survive a fork


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class BellSettings(Settings, room="bell"):
    """How workers learn of new events without polling."""

    enabled: bool = setting(True, "Wake workers when a transaction that published has ended.")
    listen_url: str = setting(
        "", "Address for workers to listen at, when the store's address leads through a transaction pooler."
    )


class WakeUp:
    """Wakes one waiting thread. An `Event` creates a lock for each wait, which took longer than the check."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake the waiting thread, or the next one to wait."""
        with suppress(RuntimeError):  # already set
            self._lock.release()

    def wait(self, seconds: float = -1) -> None:
        """Wait until it is set, or for `seconds`; it is cleared afterwards."""
        self._lock.acquire(timeout=seconds)


class Bell:
    """Watches connections and rings. Safe from any thread, and after a fork.

    `ring` gets the slots with newly staged events, or None when unknown or too many; `flood` the number of seconds in
    which events may come without a ring. Without `flood` it rings in a flood too.
    """

    def __init__(
        self, ring: Callable[[frozenset[int] | None], object], flood: Callable[[float], object] | None = None
    ) -> None:
        self._ring, self._flood = ring, flood
        self._watched: dict[int, tuple[Callable[[], Any], IsOpen, float, set[int], bool]] = {}
        self._lock, self._wake, self._rest = Lock(), WakeUp(), WakeUp()
        self._asleep, self._closed, self._flooding = True, False, False
        self._published = 0  # since the last ring, about
        self._counted, self._counted_since = 0, 0.0
        self._usual_seconds = 0.0  # usual time from a publish to the end of its transaction
        self._ring_seconds = 0.0  # usual time of a ring
        self._again: deque[int] = deque()
        self._thread: Thread | None = None
        self._forks = _forks

    def watch(self, conn: Any, is_open: IsOpen, slots: Iterable[int] = UNKNOWN_SLOTS, *, hooked: bool = False) -> None:
        """Ring once the transaction on this connection has ended; it staged in these slots. `hooked`: for `look`."""
        self._published += 1
        key = id(conn)
        known = self._watched.get(key)
        if known is not None and known[0]() is conn:
            if self._flooding and self._forks == _forks:
                return  # the flood announces it, and the connection is checked afterwards
            now = SYSTEM.monotonic()
            is_same = now - known[2] <= PACE.used_again_after
        else:
            now, is_same = SYSTEM.monotonic(), False
        if known is not None and is_same:
            known[3].update(slots)
            is_kept = self._watched.get(key) is known  # else the bell is checking it and may drop it
        else:
            is_kept = False
            if known is not None:  # an earlier use, or a dead connection with the same id: the bell's
                self._again.extend(known[3])  # thread rings for it, as this one may be an event loop's
        if not is_kept:
            self._watched[key] = (reference_to(conn), is_open, now, set(slots), hooked)
        if self._asleep or self._forks != _forks:
            self._rouse()

    def look(self) -> None:
        """Look now: a transaction has committed. In a flood the bell does not look."""
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
                if not self._watched:  # else one came in between
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
            return PACE.hooked_pause
        return min(self._usual_seconds * PACE.first_check, PACE.longest_before_first_check)

    def _is_flood(self) -> bool:
        if self._flood is None:
            return False
        now = SYSTEM.monotonic()
        counted, seconds = self._counted + self._published, now - self._counted_since
        if seconds < PACE.measured_over:
            self._counted = counted
            return False
        self._counted, self._counted_since = 0, now
        return counted >= seconds * self._flood_rate()

    def _flood_rate(self) -> float:
        rate = PACE.ringing_share / max(self._ring_seconds, PACE.ringing_share / PACE.most_flood_rate)
        return max(rate, PACE.least_flood_rate)

    def _flow(self) -> None:
        """Announce a stream of events again and again while it lasts."""
        assert self._flood is not None
        self._flooding, seconds = True, PACE.first_flood_rest
        least_rate = self._flood_rate() * PACE.end_of_flood
        while not self._closed:
            self._published = 0
            self._flood(seconds * PACE.flood_margin)
            self._rest.wait(seconds)
            self._forget_old()
            if self._published < seconds * least_rate:
                break
            seconds = min(seconds * 2, PACE.longest_flood_rest)
        self._flooding = False
        self._again.append(_UNKNOWN)  # the next look rings for the last events of the flood

    def _forget_old(self) -> None:
        """Drop connections that are closed or long unused; another publish watches one again."""
        oldest = SYSTEM.monotonic() - PACE.given_up_after
        for key, (reference, is_open, since, *_) in list(self._watched.items()):
            conn = reference()
            if conn is None or (since < oldest and not still_open(conn, is_open)):
                self._watched.pop(key, None)

    def _resting_seconds(self) -> float:
        """Return the rest after a ring, whatever comes meanwhile."""
        published, self._published = self._published, 0
        least = min(self._ring_seconds * PACE.rest_of_ring, PACE.longest_rest_of_ring)
        if published > PACE.many_publishes:
            return max(PACE.longest_rest, least)
        return max(PACE.rest if published > PACE.few_publishes else PACE.shortest_rest, least)

    def _look(self) -> float | None:
        """Ring if a transaction has ended; else return the pause before the next look."""
        now, pause = SYSTEM.monotonic(), PACE.longest_pause
        ended = {self._again.popleft() for _ in range(len(self._again))}
        for key in list(self._watched):
            watched = self._watched.pop(key)  # so that a publish on it meanwhile watches it again
            reference, is_open, since, slots, hooked = watched
            conn, age = reference(), now - since
            if conn is None or age > PACE.given_up_after or not still_open(conn, is_open):
                self._note_age(age)
                ended |= slots
                continue
            newer = self._watched.setdefault(key, watched)
            if newer[2] - since > PACE.used_again_after:
                ended |= slots
            elif newer is not watched:
                newer[3].update(slots)
            pause = min(pause, max(age * PACE.pause_of_age, PACE.hooked_pause if hooked else 0.0))
        if ended:
            self._ring(None if _UNKNOWN in ended or len(ended) > MOST_SLOTS else frozenset(ended))
            took = min(SYSTEM.monotonic() - now, PACE.longest_rest_of_ring)
            self._ring_seconds += (took - self._ring_seconds) * PACE.weight_of_ring
            return None
        return max(pause, PACE.shortest_pause)

    def _note_age(self, age: float) -> None:
        longer = age - self._usual_seconds
        self._usual_seconds += longer * (PACE.weight_of_longer if longer > 0 else PACE.weight_of_shorter)


def reference_to(conn: Any) -> Callable[[], Any]:
    """Return a weak reference or, if unsupported, a strong one for the seconds of watching."""
    try:
        return ref(conn)
    except TypeError:
        return lambda: conn


def still_open(conn: Any, is_open: IsOpen) -> bool:
    """Return whether a transaction is open; a closed or broken connection has none."""
    try:
        return is_open(conn)
    except Exception:
        return False
