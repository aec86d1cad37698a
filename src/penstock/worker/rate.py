"""How many records a second a handler may be given: the rate, in words or numbers, and its bucket."""

import re
from typing import Any

_UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*([a-z]+)\s*")
_BURST_SECONDS = 0.1  # what was not used for so long may be used at once
_LEAST, _MOST = 1 / 86_400, 1e6


def per_second(rate: Any) -> float | None:
    """Return a rate such as 100, "100/s" or "5/min" in records per second; None if it is none."""
    if isinstance(rate, str):
        found = _TEXT.fullmatch(rate)
        if found is None or found[2] not in _UNITS:
            return None
        rate = float(found[1]) / _UNITS[found[2]]
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not _LEAST <= rate <= _MOST:
        return None
    return float(rate)


class Bucket:
    """A token bucket: fills at the rate, never above its size. Not thread-safe: its gate has a lock."""

    def __init__(self, per_second: float, at_once: int, now: float) -> None:
        self._per_second = per_second
        self._size = max(float(at_once), per_second * _BURST_SECONDS)
        self._tokens, self._filled = self._size, now

    def take(self, wanted: int, now: float) -> int:
        """Return how many of the wanted tokens there are, and take them."""
        self._fill(now)
        given = min(wanted, int(self._tokens))
        self._tokens -= given
        return given

    def due(self, now: float) -> float:
        """Return the moment at which there is a token."""
        self._fill(now)
        return now + max(0.0, 1.0 - self._tokens) / self._per_second

    def _fill(self, now: float) -> None:
        grown = self._tokens + max(0.0, now - self._filled) * self._per_second
        # a hair above a whole token must not be lost to rounding, or a wait for it would never end
        self._tokens, self._filled = min(self._size, grown + 1e-9), max(now, self._filled)
