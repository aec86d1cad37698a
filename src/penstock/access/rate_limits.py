"""Rate limits by principal and topic, or by client id.

| a limit    | has buckets for                                         | applies                      |
|------------|---------------------------------------------------------|------------------------------|
| not shared | each principal and topic                                | if it is the first match     |
| shared     | all its principals and topics together, as of a tenant  | in addition to all others    |

A charge may take a bucket below zero; then the client has to wait until it is filled again.
"""

from collections.abc import Iterator
from threading import Lock
from typing import Any, NamedTuple

from penstock.clock import Clock
from penstock.errors import RateLimited
from penstock.model.token_bucket import TokenBucket

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

    def buckets(self, now: float) -> tuple[TokenBucket | None, TokenBucket | None]:
        """Return full buckets of bytes and of requests, where they have a rate."""
        of_bytes, of_requests = self.bytes_per_second, self.requests_per_second
        return (
            TokenBucket(of_bytes, of_bytes * self.burst_seconds, now) if of_bytes else None,
            TokenBucket(of_requests, max(1.0, of_requests * self.burst_seconds), now) if of_requests else None,
        )


class RateLimiter:
    """The buckets of some limits. Safe from any thread; bounded: those filled longest ago are dropped."""

    def __init__(self, limits: tuple[RateLimit, ...], clock: Clock) -> None:
        self._limits, self._clock, self._lock = tuple(dict.fromkeys(limits)), clock, Lock()
        self._buckets: dict[tuple[str, str], Any] = {}
        self._shared: dict[RateLimit, Any] = {}  # separate: other names cannot evict them

    def admit(self, principal: str, topic: str, size: int) -> None:
        """Charge a request unless a bucket is below zero already. Raises RateLimited."""
        seconds = self.charge(principal, topic, 0, 0, needed=1)
        if seconds > 0:
            raise RateLimited(principal, topic, seconds)
        self.charge(principal, topic, size)

    def charge(self, principal: str, topic: str, size: int, requests: int = 1, *, needed: int = 0) -> float:
        """Charge requests and bytes; return how many seconds the next one has to wait.

        That is until no bucket is below zero and `needed` requests are allowed.
        """
        now, longest = self._clock.monotonic(), 0.0
        for limit in self._fitting(principal, topic):
            buckets: dict[Any, Any] = self._shared if limit.shared else self._buckets
            key = limit if limit.shared else (principal, topic[:_LONGEST_NAME])
            with self._lock:
                found = buckets.pop(key, None) or limit.buckets(now)
                buckets[key] = found  # the last: it was filled now
                if len(buckets) > _MOST_BUCKETS:
                    buckets.pop(next(iter(buckets)))
                for bucket, taken, tokens in zip(found, (size, requests), (0, needed), strict=True):
                    if bucket is not None:
                        bucket.fill(now)
                        bucket.level -= taken
                        longest = max(longest, bucket.wait(tokens))
        return min(longest, _LONGEST_SECONDS)

    def _fitting(self, principal: str, topic: str) -> Iterator[RateLimit]:
        """Yield the shared limits that match, and the first of the others."""
        has_own = False
        for each in self._limits:
            if matches(each.principal, principal) and matches(each.topic, topic):
                if each.shared or not has_own:
                    yield each
                has_own = has_own or not each.shared
