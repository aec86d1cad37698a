"""The one place where Penstock reads the time.

Owns `Clock` and the system clock; no other module of Penstock calls `time.*` or `datetime.now`, so a
test that passes another clock controls all time (`penstock.testing.FakeClock`).
Refuses to decide ownership: leases are compared by the database's clock, never by this one.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SINCE_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """The time as Penstock reads it."""

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, UTC."""

    def monotonic(self) -> float:
        """Return seconds that never run backwards, for deadlines and durations."""


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)  # no wrapper: it is called twice per event


class SteadyClock(SystemClock):
    """The machine's clock at its creation plus the time since: setting the machine's clock does not move a wait."""

    __slots__ = ("_began_ms",)

    def __init__(self) -> None:
        self._began_ms = time.time() * 1000 - _passed_ms()

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, UTC, as if the clock had never been set."""
        return int(self._began_ms + _passed_ms())


def _passed_ms() -> float:
    """Return milliseconds that never run backwards and, where supported, count while the machine sleeps."""
    return (time.monotonic() if _SINCE_BOOT is None else time.clock_gettime(_SINCE_BOOT)) * 1000


SYSTEM = SystemClock()


def steady(clock: Clock) -> Clock:
    """Return a clock to wait by: a test's own, or the system's made immune to being set."""
    return SteadyClock() if type(clock) is SystemClock else clock


def own_ms(clock: Clock) -> int | None:
    """Return a test clock's time for a statement; None for the system's: the database's time counts."""
    return None if isinstance(clock, SystemClock) else clock.now_ms()


def host_ms(clock: Clock) -> int:
    """Return monotonic milliseconds shared by a host, or a test clock's. They stand still while the machine sleeps."""
    return int(clock.monotonic() * 1000)


def cpu_seconds() -> float:
    """Return the seconds of CPU that the calling thread has used, a figure that load does not distort."""
    return time.thread_time()


def to_ms(moment: datetime) -> int:
    """Return an aware datetime as milliseconds since 1970, rounded down; exact, without floats."""
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(ms: int) -> datetime:
    """Return the aware UTC datetime of some milliseconds since 1970, clamped to the range of datetime."""
    try:
        return _EPOCH + ms * _MILLISECOND
    except OverflowError:  # a producer may send any number
        return _LAST if ms > 0 else _FIRST
