"""The one place where Penstock reads the time.

Owns `Clock` and the system's clock; no other module of Penstock calls `time.*` or `datetime.now`, so a
test that hands in another clock controls all of time (`penstock.testing.FakeClock`).
Refuses to decide who owns what: leases are compared by the database's clock, never by this one.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SINCE_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """What Penstock asks of time."""

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, UTC."""

    def monotonic(self) -> float:
        """Return seconds that never run backwards, for deadlines and durations."""


class SystemClock:
    """The machine's own clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)  # itself: it is asked twice for every event


class SteadyClock(SystemClock):
    """The machine's clock as it was when this one was made, and since then only what really passed.

    So what a process waits for comes when it should, also if the machine's clock is put forward or back.
    """

    __slots__ = ("_began_ms",)

    def __init__(self) -> None:
        self._began_ms = time.time() * 1000 - _passed_ms()

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, UTC, if nobody had touched the clock."""
        return int(self._began_ms + _passed_ms())


def _passed_ms() -> float:
    """Return milliseconds that never run backwards and go on while the machine sleeps, where it can say."""
    return (time.monotonic() if _SINCE_BOOT is None else time.clock_gettime(_SINCE_BOOT)) * 1000


SYSTEM = SystemClock()


def steady(clock: Clock) -> Clock:
    """Return a clock to wait by: a test's own, or the system's, whatever is done to it."""
    return SteadyClock() if type(clock) is SystemClock else clock


def own_ms(clock: Clock) -> int | None:
    """Return a test clock's time for a statement; None for the system's: the database decides."""
    return None if isinstance(clock, SystemClock) else clock.now_ms()


def host_ms(clock: Clock) -> int:
    """Return milliseconds that only count, the same for all processes of a host.

    They stand still while the machine sleeps, and so do all its processes: nobody has fallen silent then.
    """
    return int(clock.monotonic() * 1000)


def cpu_seconds() -> float:
    """Return the seconds of CPU that the calling thread has used: what a busy machine does not blur."""
    return time.thread_time()


def to_ms(moment: datetime) -> int:
    """Return an aware datetime as milliseconds since 1970, rounded down; exact, no float between."""
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    """Return the aware UTC datetime of some milliseconds since 1970; the first or last there is, beyond."""
    try:
        return _EPOCH + ms * _MILLISECOND
    except OverflowError:  # a producer may say anything
        return _LAST if ms > 0 else _FIRST
