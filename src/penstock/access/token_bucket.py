"""How much somebody may send to, or read from, a topic: a bucket of tokens for each principal and topic.

A bucket fills at its rate up to what one burst may take. What is charged may go below zero; who is below
zero has to wait. The first limit that fits a principal and a topic is theirs.
"""

from threading import Lock
from typing import NamedTuple

from penstock.clock import Clock
from penstock.errors import RateLimited

from .rule import matches

_MOST_BUCKETS, _LONGEST_NAME = 10_000, 255
_LONGEST_SECONDS = 30.0


class RateLimit(NamedTuple):
    """A limit for some principals and topics; a rate of 0 is no limit."""

    principal: str
    topic: str
    bytes_per_second: float = 0
    requests_per_second: float = 0
    burst_seconds: float = 1


class TokenBuckets:
    """The buckets of some limits. Safe from any thread; bounded, those that were filled longest ago go."""

    def __init__(self, limits: tuple[RateLimit, ...], clock: Clock) -> None:
        self._limits, self._clock, self._lock = limits, clock, Lock()
        self._levels: dict[tuple[str, str], tuple[float, float, float]] = {}  # bytes, requests, since

    def charge(self, principal: str, topic: str, size: int, requests: int = 1) -> float:
        """Take a request of some bytes out of a bucket; return the seconds to wait before the next."""
        return self._take(principal, topic, size, requests)

    def admit(self, principal: str, topic: str, size: int) -> None:
        """Charge a request unless the bucket is below zero already. Raises RateLimited."""
        seconds = self._take(principal, topic, None)
        if seconds > 0:
            raise RateLimited(principal, topic, seconds)
        self._take(principal, topic, size)

    def _take(self, principal: str, topic: str, size: int | None, count: int = 1) -> float:
        limit = self._limit(principal, topic)
        if limit is None:
            return 0.0
        now, key = self._clock.monotonic(), (principal, topic[:_LONGEST_NAME])
        most_bytes = limit.bytes_per_second * limit.burst_seconds
        most_requests = max(1.0, limit.requests_per_second * limit.burst_seconds)
        with self._lock:
            level, requests, since = self._levels.pop(key, (most_bytes, most_requests, now))
            level = min(most_bytes, level + (now - since) * limit.bytes_per_second)
            requests = min(most_requests, requests + (now - since) * limit.requests_per_second)
            if size is not None:
                level, requests = level - size, requests - count
            self._levels[key] = level, requests, now
            if len(self._levels) > _MOST_BUCKETS:
                self._levels.pop(next(iter(self._levels)))
        waits = [0.0]
        if limit.bytes_per_second:
            waits.append(-level / limit.bytes_per_second)
        if limit.requests_per_second:
            waits.append((1 - requests if size is None else -requests) / limit.requests_per_second)
        return min(max(waits), _LONGEST_SECONDS)

    def _limit(self, principal: str, topic: str) -> RateLimit | None:
        for each in self._limits:
            if matches(each.principal, principal) and matches(each.topic, topic):
                return each
        return None
