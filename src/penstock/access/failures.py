"""Who has failed to show who they are, and for how long they are not listened to.

Counted for an address and name together, so that nobody is locked out by what others try elsewhere, and for
an address alone at a higher bound, for those who try one password with many names. Tokens are not counted:
nobody guesses one.
"""

from threading import Lock
from typing import NamedTuple

from penstock.clock import Clock
from penstock.errors import Unauthenticated

_FREE, _FREE_OF_ADDRESS = 5, 50  # failures that cost nothing
_LONGEST_SECONDS = 60.0
_DOUBLINGS = 6  # of a second, after which it is the longest
_FORGOTTEN_SECONDS = 300.0
_MOST = 10_000


class _Count(NamedTuple):
    failures: int
    until: float  # before which nothing is looked at
    last: float


class Failures:
    """Counts of failures, bounded. Safe from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, Lock()
        self._counts: dict[tuple[str, str], _Count] = {}

    def check(self, address: str, name: str) -> None:
        """Refuse who has failed too often, before anything costly is done. Raises Unauthenticated."""
        now = self._clock.monotonic()
        for key in ((address, name), (address, "")):
            found = self._counts.get(key)
            if found is not None and now < found.until:
                raise Unauthenticated("too many failures; wait a minute")

    def failed(self, address: str, name: str) -> None:
        """Count a failure."""
        for key, free in (((address, name), _FREE), ((address, ""), _FREE_OF_ADDRESS)):
            self._count(key, free)

    def succeeded(self, address: str, name: str) -> None:
        """Forget the failures of a name at an address."""
        with self._lock:
            self._counts.pop((address, name), None)

    def _count(self, key: tuple[str, str], free: int) -> None:
        now = self._clock.monotonic()
        with self._lock:
            found = self._counts.pop(key, None)
            if found is None or now - found.last > _FORGOTTEN_SECONDS:
                found = _Count(0, 0, now)
            count = found.failures + 1
            self._counts[key] = _Count(count, now + _pause(count - free), now)
            if len(self._counts) > _MOST:
                self._counts.pop(next(iter(self._counts)))


def _pause(beyond: int) -> float:
    """Return how long a failure costs, by how many there were beyond the free ones."""
    if beyond < 0:
        return 0.0
    return min(2.0 ** min(beyond, _DOUBLINGS), _LONGEST_SECONDS)  # a power of thousands is no float
