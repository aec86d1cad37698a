"""Clocks that are wrong, as those of real machines are."""

from __future__ import annotations

from datetime import timedelta

from penstock.clock import SystemClock

HOUR = timedelta(hours=1)


class ShiftedClock(SystemClock):
    """A machine whose calendar is wrong; still a system's clock, so leases go by the database's time."""

    __slots__ = ("_shift_ms",)

    def __init__(self, shift: timedelta) -> None:
        self._shift_ms = shift // timedelta(milliseconds=1)

    def now_ms(self) -> int:
        return super().now_ms() + self._shift_ms


class SleepwalkingClock(ShiftedClock):
    """A machine that was asleep: an hour behind, and its monotonic clock stood still meanwhile.

    To a member with this clock its lease never ends, so only the fence can stop it.
    """

    __slots__ = ("_began",)

    def __init__(self) -> None:
        super().__init__(-HOUR)
        self._began = super().monotonic()

    def monotonic(self) -> float:
        return self._began


class LeapingClock(SystemClock):
    """The system's clock, but for leaps of its monotonic time, which a test makes."""

    __slots__ = ("_leapt",)

    def __init__(self) -> None:
        self._leapt = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._leapt

    def leap(self, seconds: float) -> None:
        """Let so many seconds have passed."""
        self._leapt += seconds
