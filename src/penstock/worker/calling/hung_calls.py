"""Calls that hang in a thread beyond their time-out, and the groups that are given up because of them."""

import logging
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import NamedTuple

from penstock import metrics
from penstock.clock import Clock, from_ms

from ..handler import Handler, about_handler

logger = logging.getLogger("penstock.handlers")

_GIVEN_UP = (
    "%s is given up in this process: its partitions go to other workers, until fewer than half of these calls hang. "
    "Restart the process; give what the handler waits for a time limit of its own, shorter than its timeout="
)
_LEAST = 4  # hung calls that a group may have, however few threads there are


@dataclass(frozen=True, slots=True)
class GivenUpGroup:
    """A group not served here: too many calls hang, most of `handler`, the first of them since `since`."""

    group: str
    handler: str
    calls: int
    since: datetime

    def __str__(self) -> str:
        """Return it in words."""
        calls = f"{self.calls} calls hang beyond their timeout, most of them of handler {self.handler}"
        return f"group {self.group} ({calls}, the first since {self.since:%Y-%m-%d %H:%M:%S} UTC)"


class HungCall(NamedTuple):
    """One such call: whose it is, and when it began."""

    handler: Handler
    since_ms: int


class HungCalls:
    """Counts, for each group, the threads abandoned in calls that hang; gives groups up.

    A thread cannot be ended from outside, so each group may abandon as many as the pool has, at least four: a few slow
    calls do no harm. At the bound this process calls no more of the group's handlers, and the membership releases its
    partitions. When fewer than half as many hang, the group is served again. From any thread; `given_up` is replaced,
    never changed.
    """

    def __init__(
        self, *, threads: int, clock: Clock, changed: Callable[[], None] = lambda: None, store: str = ""
    ) -> None:
        """`changed` is called when a group is given up or served again; `store` names it in the series."""
        self.bound = max(_LEAST, threads)
        self.given_up: frozenset[str] = frozenset()
        self._clock, self._changed, self._store = clock, changed, store
        self._calls: dict[object, HungCall] = {}
        self._ended_first: set[object] = set()  # calls whose end was reported before their beginning
        self._moments: dict[str, float] = {}  # when each group was given up
        self._lock, self._closed = Lock(), False

    def begin(self, call: object, handler: Handler, seconds: float) -> None:
        """Count a call whose thread is abandoned, `seconds` after it began."""
        with self._lock:
            if self._closed or call in self._ended_first:
                self._ended_first.discard(call)
                return
            self._calls[call] = HungCall(handler, self._clock.now_ms() - int(seconds * 1000))
            count = self._count(handler.group)
            is_new = count >= self.bound and handler.group not in self.given_up
            if is_new:
                self._moments[handler.group] = self._clock.monotonic()
                self.given_up |= {handler.group}
        if is_new:
            self._log_given_up(handler.group)

    def end(self, call: object, handler: Handler) -> None:
        """Stop counting a call: it has ended after all. The end may be reported before the beginning."""
        with self._lock:
            if self._closed:
                return
            if self._calls.pop(call, None) is None:
                self._ended_first.add(call)
                return
            count = self._count(handler.group)
            is_back = handler.group in self.given_up and count < self.bound / 2
            if is_back:
                del self._moments[handler.group]
                self.given_up -= {handler.group}
        if is_back:
            metrics.GIVEN_UP.set(0, store=self._store, group=handler.group)
            again = "group %s is served again: %d calls of it still hang"
            logger.warning(again, handler.group, count, extra=about_handler(handler))
            self._changed()

    def any_hangs(self) -> bool:
        """Return whether some call hangs."""
        return bool(self._calls)

    def close(self) -> None:
        """Count nothing more: running calls are given up with the process."""
        with self._lock:
            self._closed = True

    def groups(self) -> tuple[GivenUpGroup, ...]:
        """Return the groups that are given up now."""
        with self._lock:
            return tuple(self._describe(group) for group in sorted(self.given_up))

    def hanging(self) -> tuple[GivenUpGroup, ...]:
        """Return the groups with calls that hang, given up or not."""
        with self._lock:
            groups = sorted({call.handler.group for call in self._calls.values()})
            return tuple(self._describe(group) for group in groups)

    def seconds_without(self, groups: Collection[str]) -> float:
        """Return for how long every one of these groups has been given up; 0 while one is served."""
        with self._lock:
            if not groups or not self.given_up.issuperset(groups):
                return 0.0
            return self._clock.monotonic() - max(self._moments[group] for group in groups)

    def _count(self, group: str) -> int:
        count = sum(call.handler.group == group for call in self._calls.values())
        metrics.HUNG_CALLS.set(count, store=self._store, group=group)
        return count

    def _describe(self, group: str) -> GivenUpGroup:
        calls = [call for call in self._calls.values() if call.handler.group == group]
        ((handler, _),) = Counter(call.handler.id for call in calls).most_common(1)
        return GivenUpGroup(group, handler, len(calls), from_ms(min(call.since_ms for call in calls)))

    def _log_given_up(self, group: str) -> None:
        metrics.GIVEN_UP.set(1, store=self._store, group=group)
        told = next((each for each in self.groups() if each.group == group), None)
        if told is not None:
            logger.error(_GIVEN_UP, told, extra={"group": told.group, "handler": told.handler})
        self._changed()
