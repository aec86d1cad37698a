"""Rate limits by principal and topic: token buckets.

| a limit    | has a bucket for                                        | applies                      |
|------------|---------------------------------------------------------|------------------------------|
| not shared | each principal and topic                                | if it is the first match     |
| shared     | all its principals and topics together, as of a tenant  | in addition to all others    |

A bucket fills at its rate up to the size of one burst. A charge may take it below zero; then the client has
to wait.
"""

from collections.abc import Iterator
from threading import Lock
from typing import Any, NamedTuple

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
    shared: bool = False


_BucketLevel = tuple[float, float, float]  # bytes, requests, since when


class TokenBuckets:
    """The buckets of some limits. Safe from any thread; bounded: those filled longest ago are dropped."""

    def __init__(self, limits: tuple[RateLimit, ...], clock: Clock) -> None:
        self._limits, self._clock, self._lock = tuple(dict.fromkeys(limits)), clock, Lock()
        self._levels: dict[tuple[str, str], _BucketLevel] = {}
        self._shared: dict[RateLimit, _BucketLevel] = {}  # separate: other names cannot evict them

    def charge(self, principal: str, topic: str, size: int, requests: int = 1) -> float:
        """Charge a request and its bytes; return how many seconds the next one has to wait."""
        return self._take(principal, topic, size, requests)

    def admit(self, principal: str, topic: str, size: int) -> None:
        """Charge a request unless a bucket is below zero already. Raises RateLimited."""
        seconds = self._take(principal, topic, None)
        if seconds > 0:
            raise RateLimited(principal, topic, seconds)
        self._take(principal, topic, size)

    def _take(self, principal: str, topic: str, size: int | None, count: int = 1) -> float:
        now, waits = self._clock.monotonic(), [0.0]
        for limit in self._fitting(principal, topic):
            most_bytes = limit.bytes_per_second * limit.burst_seconds
            most_requests = max(1.0, limit.requests_per_second * limit.burst_seconds)
            levels: dict[Any, _BucketLevel] = self._shared if limit.shared else self._levels
            key = limit if limit.shared else (principal, topic[:_LONGEST_NAME])
            with self._lock:
                level, requests, since = levels.pop(key, (most_bytes, most_requests, now))
                level = min(most_bytes, level + (now - since) * limit.bytes_per_second)
                requests = min(most_requests, requests + (now - since) * limit.requests_per_second)
                if size is not None:
                    level, requests = level - size, requests - count
                levels[key] = level, requests, now
                if len(levels) > _MOST_BUCKETS:
                    levels.pop(next(iter(levels)))
            if limit.bytes_per_second:
                waits.append(-level / limit.bytes_per_second)
            if limit.requests_per_second:
                waits.append((1 - requests if size is None else -requests) / limit.requests_per_second)
        return min(max(waits), _LONGEST_SECONDS)

    def _fitting(self, principal: str, topic: str) -> Iterator[RateLimit]:
        """Yield the shared limits that match, and the first of the others."""
        has_own = False
        for each in self._limits:
            if matches(each.principal, principal) and matches(each.topic, topic):
                if each.shared or not has_own:
                    yield each
                has_own = has_own or not each.shared
