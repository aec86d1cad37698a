"""Counts repeated refusals instead of writing each: a client that repeats a request changes nothing.

For each principal, address, right and kind, the first refused names get a line each, the rest one count. The
same holds for failed logins from one network, by method and reason. So neither a loop that repeats a request
nor a list of made-up names fills the audit file.
"""

from collections.abc import Iterator
from threading import Lock
from typing import NamedTuple

from .principal import Principal

REST = "others"  # names that got no line of their own
_MOST_NAMES = 100  # of one principal, right and kind
_MOST_NAMES_OF_ALL = 10_000
_MOST_SOURCES = 1000  # principals with their rights and kinds
_RefusalSource = tuple[str, str, str, str, str]


class CountedRefusal(NamedTuple):
    """How often a refusal was repeated since its line was written."""

    principal: Principal
    right: str
    resource: str
    reason: str
    times: int


class _CountsOfSource:
    def __init__(self, principal: Principal, right: str, reason: str, until: float) -> None:
        self.principal, self.right, self.reason, self.until = principal, right, reason, until
        self.names: dict[str, int] = {}
        self.rest = 0


class RefusalCounts:
    """The refusals of the last seconds, bounded. Safe from any thread."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._lock = seconds, Lock()
        self._sources: dict[_RefusalSource, _CountsOfSource] = {}
        self._untold: list[CountedRefusal] = []
        self._names = 0  # of all sources

    def is_first(self, principal: Principal, right: str, kind: str, name: str, reason: str, now: float) -> bool:
        """Count a refusal; return whether it has to be written now."""
        source = (principal.name, principal.door, principal.address, right, kind)
        with self._lock:
            found = self._sources.get(source)
            if found is not None and now >= found.until:
                self._forget(source)
                found = None
            if found is None:
                if len(self._sources) >= _MOST_SOURCES:
                    self._forget(next(iter(self._sources)))
                found = self._sources[source] = _CountsOfSource(principal, right, reason, now + self._seconds)
            if name in found.names:
                found.names[name] += 1
            elif len(found.names) < _MOST_NAMES and self._names < _MOST_NAMES_OF_ALL:
                found.names[name] = 0
                self._names += 1
                return True
            else:
                found.rest += 1
            return False

    def due(self, now: float) -> Iterator[CountedRefusal]:
        """Yield the counts that are due, and forget them."""
        with self._lock:
            over = [source for source, each in self._sources.items() if now >= each.until]
            for source in over:
                self._forget(source)
            told, self._untold = self._untold, []
        yield from told

    def _forget(self, source: _RefusalSource) -> None:
        refused = self._sources.pop(source)
        self._names -= len(refused.names)
        self._untold += _counts(refused)


def _counts(refused: _CountsOfSource) -> Iterator[CountedRefusal]:
    for name, count in refused.names.items():
        if count:
            yield CountedRefusal(refused.principal, refused.right, name, refused.reason, count)
    if refused.rest:
        yield CountedRefusal(refused.principal, refused.right, REST, "", refused.rest)
