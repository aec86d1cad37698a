"""A token bucket: it fills at a rate up to its size, and what is taken may bring it below zero."""

from math import inf


class TokenBucket:
    """One bucket. Its owner reads the clock, and has the lock that it needs."""

    __slots__ = ("_filled", "level", "rate", "size")

    def __init__(self, rate: float, size: float, now: float, level: float | None = None) -> None:
        """`rate`: tokens per second. It is full at first, unless `level` is given."""
        self.rate, self.size, self._filled = rate, size, now
        self.level = size if level is None else level

    def fill(self, now: float) -> None:
        """Add the tokens of the time since the last call."""
        self.level = min(self.size, self.level + max(0.0, now - self._filled) * self.rate)
        self._filled = max(now, self._filled)

    def wait(self, tokens: float = 0.0) -> float:
        """Return how many seconds it takes until there are that many tokens."""
        missing = tokens - self.level
        if missing <= 0:
            return 0.0
        return missing / self.rate if self.rate else inf
