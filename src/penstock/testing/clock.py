"""A clock that moves only on request."""

from datetime import UTC, datetime, timedelta

from penstock.clock import from_ms, to_ms

_START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """A clock that a test controls: `advance` moves both the calendar and the monotonic seconds."""

    def __init__(self, start: datetime = _START) -> None:
        self._now_ms = to_ms(start)
        self._monotonic = (start - _START).total_seconds()  # clocks of two processes agree, as on one host

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, UTC."""
        return self._now_ms

    def monotonic(self) -> float:
        """Return the seconds since the first of January 2026, by this clock."""
        return self._monotonic

    def now(self) -> datetime:
        """Return the time as an aware datetime."""
        return from_ms(self._now_ms)

    def advance(self, by: timedelta) -> None:
        """Move time forward."""
        assert by >= timedelta(), "time cannot run backwards"
        self._now_ms += by // timedelta(milliseconds=1)
        self._monotonic += by.total_seconds()
