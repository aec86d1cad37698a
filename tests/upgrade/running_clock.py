"""A clock that runs like the machine's, from a moment of one's choice."""

import time
from datetime import UTC, datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RunningClock:
    """For workers whose store was made at another time than today."""

    def __init__(self, start: datetime) -> None:
        self._start_ms, self._began = round((start - _EPOCH).total_seconds() * 1000), time.monotonic()

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, UTC."""
        return self._start_ms + int((time.monotonic() - self._began) * 1000)

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        return time.monotonic()
