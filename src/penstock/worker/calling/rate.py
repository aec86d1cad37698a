"""How many records a second a handler may be given: the rate, in words or numbers, and its bucket.

A rate is one for the whole cluster. Each process fills a bucket with its share of it, the part of the topic's
partitions that it owns, and asks no other process, since owners never overlap
(docs/decisions/archive/0016-rate-limits-by-partition.md).
"""

import re
from math import inf
from typing import Any

_UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*([a-z]+)\s*")
_BURST_SECONDS = 0.1  # unused rate of this much time may be used at once
_LEAST, _MOST = 1 / 86_400, 1e6
_HAIR = 1e-9  # rounding may leave a token short by this; without it a wait would never end


def per_second(rate: Any) -> float | None:
    """Return a rate such as 100, "100/s" or "5/min" in records per second; None if it cannot be read."""
    if isinstance(rate, str):
        found = _TEXT.fullmatch(rate)
        if found is None or found[2] not in _UNITS:
            return None
        rate = float(found[1]) / _UNITS[found[2]]
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not _LEAST <= rate <= _MOST:
        return None
    return float(rate)


class Bucket:
    """A token bucket: fills at a share of the rate, never above its size. Its limiter has the lock it needs.

    Invariant: another share brings no tokens. So in any span of time all processes take no more than the rate
    gives, one burst, and one for each process; one that starts in it brings its share of a burst.
    """

    def __init__(self, per_second: float, at_once: int, now: float, share: float = 1.0) -> None:
        self._per_second, self._share = per_second, share
        self._burst = max(float(at_once), per_second * _BURST_SECONDS)
        self._tokens, self._filled = self._burst * share, now

    def take(self, wanted: int, now: float) -> int:
        """Return how many of the wanted tokens there are, and take them."""
        self._fill(now)
        given = min(wanted, int(self._tokens + _HAIR))
        self._tokens -= given
        return given

    def due(self, now: float) -> float:
        """Return the moment at which there is a token; without a share that is never."""
        self._fill(now)
        missing = 1.0 - self._tokens
        if missing <= _HAIR:
            return now
        return now + missing / (self._per_second * self._share) if self._share else inf

    def change_share(self, share: float, now: float) -> None:
        """Fill at another share from now on; what is above the size then is lost."""
        self._fill(now)
        self._share = share
        self._tokens = min(self._tokens, self._size)

    @property
    def _size(self) -> float:
        """What is kept while nothing is taken: a share of the burst, but one whole token."""
        return max(1.0, self._burst * self._share)

    def _fill(self, now: float) -> None:
        grown = self._tokens + max(0.0, now - self._filled) * self._per_second * self._share
        self._tokens, self._filled = min(self._size, grown), max(now, self._filled)
