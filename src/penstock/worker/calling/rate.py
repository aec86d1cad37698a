"""The rate of a handler, in records per second: its notation, and the token bucket of one process.

A rate holds for the whole cluster. Each process fills a bucket with the fraction of the topic's partitions that it
owns, without coordination (docs/decisions/archive/0016-rate-limits-by-partition.md).
"""

import re
from typing import Any

from penstock.model.token_bucket import TokenBucket

_UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*([a-z]+)\s*")
_BURST_SECONDS = 0.1  # the unused rate of this time may be used at once
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
    """A token bucket that fills at a share of the rate. Its limiter has the lock it needs.

    Invariant: changing the share adds no tokens. So in any span of time all processes together take no more than the
    rate, one burst, and one token each.
    """

    def __init__(self, per_second: float, at_once: int, now: float, share: float = 1.0) -> None:
        self._per_second = per_second
        self._burst = max(float(at_once), per_second * _BURST_SECONDS)
        self._tokens = TokenBucket(per_second * share, self._size(share), now, self._burst * share)

    def take(self, wanted: int, now: float) -> int:
        """Return how many of the wanted tokens are available, and take them."""
        self._tokens.fill(now)
        given = min(wanted, int(self._tokens.level + _HAIR))
        self._tokens.level -= given
        return given

    def due(self, now: float) -> float:
        """Return the moment at which a token is available; without a share that is never."""
        self._tokens.fill(now)
        return now if self._tokens.level >= 1.0 - _HAIR else now + self._tokens.wait(1.0)

    def change_share(self, share: float, now: float) -> None:
        """Fill at another share from now on; tokens above the new size are lost."""
        self._tokens.fill(now)
        self._tokens.rate, self._tokens.size = self._per_second * share, self._size(share)
        self._tokens.fill(now)

    def _size(self, share: float) -> float:
        return max(1.0, self._burst * share)
