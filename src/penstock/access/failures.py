"""Failed logins by name and address, and how they are slowed down.

| fails too often   | consequence                                                                         |
|-------------------|-------------------------------------------------------------------------------------|
| name and address  | refused for a time that doubles with each failure, up to a minute                   |
| address           | its logins take turns, four a second; names that logged in from there do not wait   |

An address may be all the people behind a NAT, so it is never refused as a whole. When more logins come than get a turn,
they are drawn by lot: about three a second get one, whatever their name and whenever they come, and the others are
refused. So an honest first login succeeds after some tries beside any number of guesses. IPv6 counts by /64. A login
that is refused only because of the time is not another failure: the right password gets in once the time is over. Names
are kept as digests. A secret without a name that people choose counts against its address alone, and stands for a name
itself where it was right. Other tokens are not counted: they cannot be guessed.
"""

import hashlib
import math
import os
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple, TypeVar

from penstock.backoff import CHANCE
from penstock.clock import Clock
from penstock.errors import Unauthenticated

from .places import network_of

T = TypeVar("T")
_FREE, _FREE_OF_ADDRESS = 5, 50  # failures without a penalty
_LONGEST_SECONDS = 60.0
_DOUBLINGS = 6  # of a second, after which the longest time applies
_FORGOTTEN_SECONDS = 300.0
_TURN_SECONDS, _LONGEST_TURN = 0.25, 5.0
# Attempts that get a turn, of those that came within about these seconds: three quarters of the turns.
_LOT_SECONDS, _LOTS = 5.0, 15.0
_MOST = 10_000


class _Count(NamedTuple):
    failures: int
    until: float  # of a name: refused until then; of an address: its next turn
    last: float
    came: float = 0.0  # attempts at an address, of which older ones count less, as it was at `seen`
    seen: float = 0.0


class Failures:
    """Failure counts, bounded. Safe from any thread."""

    def __init__(self, clock: Clock, lot: Callable[[], float] = CHANCE.random) -> None:
        self._clock, self._lock, self._key, self._lot = clock, Lock(), os.urandom(16), lot
        self._names: dict[bytes, _Count] = {}  # by a digest of name and address
        self._addresses: dict[bytes, _Count] = {}
        self._good: dict[bytes, None] = {}  # names that logged in from an address, the latest last

    def check(self, address: str, name: str) -> None:
        """Refuse a name that fails too often from an address. Raises Unauthenticated."""
        found, now = self._names.get(self._digest(address, name)), self._clock.monotonic()
        if found is not None and now < found.until:
            left = int(found.until - now) + 1
            raise Unauthenticated(f"too many failures of this name; try again in {left} seconds")

    def turn(self, address: str, name: str) -> float:
        """Return how many seconds a login waits before its secret is checked; usually 0.

        Raises Unauthenticated when more come than get a turn, and the lot is against it.
        """
        now, network = self._clock.monotonic(), self._digest(address, "")
        with self._lock:
            found = self._addresses.get(network)
            if found is None or found.failures < _FREE_OF_ADDRESS or self._digest(address, name) in self._good:
                return 0.0
            if now - found.last > _FORGOTTEN_SECONDS:
                return 0.0
            came = found.came * math.exp((found.seen - now) / _LOT_SECONDS) + 1
            wait = max(0.0, found.until - now)
            is_in = wait <= _LONGEST_TURN and self._lot() * came <= _LOTS
            until = now + wait + _TURN_SECONDS if is_in else found.until
            self._addresses[network] = found._replace(until=until, came=came, seen=now)
        if not is_in:
            raise Unauthenticated("too many failures from this address; try again in a few seconds")
        return wait

    def failed(self, address: str, name: str = "") -> None:
        """Count a failure; without a name that of its address alone."""
        now = self._clock.monotonic()
        with self._lock:
            if name:
                count = _more(self._names, self._digest(address, name), now)
                beyond = min(count.failures - _FREE, _DOUBLINGS)  # a power of thousands overflows a float
                pause = 0.0 if beyond < 0 else min(2.0**beyond, _LONGEST_SECONDS)
                _put(self._names, self._digest(address, name), count._replace(until=now + pause))
            network = self._digest(address, "")
            _put(self._addresses, network, _more(self._addresses, network, now))

    def succeeded(self, address: str, name: str) -> None:
        """Forget the failures of a name at an address; from now on its logins there take no turns."""
        digest = self._digest(address, name)
        with self._lock:
            self._names.pop(digest, None)
            _put(self._good, digest, None)

    def _digest(self, address: str, name: str) -> bytes:
        text = f"{network_of(address)}\0{name}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self._key, digest_size=16).digest()


def _more(counts: dict[bytes, _Count], key: bytes, now: float) -> _Count:
    """Return a count with one more failure; failures of long ago are forgotten."""
    found = counts.get(key)
    if found is None or now - found.last > _FORGOTTEN_SECONDS:
        return _Count(1, 0.0, now)
    return found._replace(failures=found.failures + 1, last=now)


def _put(kept: dict[bytes, T], key: bytes, value: T) -> None:
    """Keep a value as the latest; the oldest goes when there are too many."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > _MOST:
        kept.pop(next(iter(kept)))
