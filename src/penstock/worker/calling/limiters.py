"""The limiters of all handlers that need one, and each group's share of its rates."""

from collections.abc import Callable, Sequence

from ..handler import Handler, HandlerTask
from .async_calls import AsyncCalls
from .limiter import Limiter
from .sync_calls import SyncCalls
from .verdicts import RunnerState

ASYNC_CALLS = 64  # of one handler at once, unless its options set another number


class Limiters:
    """Owns one limiter for each handler that is async, takes batches, or has a bound or a rate.

    It passes the calls that they grant on to the threads or to the event loop. A rate holds for the whole
    cluster, and a process may use the group's share of the partitions of it; the shares are kept here, too.
    `submit`, `change_share` and `take_back` are for the delivery loop's thread, the rest for any.
    """

    def __init__(
        self, state: RunnerState, sync: SyncCalls, asynchronous: AsyncCalls, rate_is_dry: Callable[[], None]
    ) -> None:
        """`rate_is_dry` is called when tasks wait for a rate: the watch begins them later."""
        self._state, self._sync, self._async, self._rate_is_dry = state, sync, asynchronous, rate_is_dry
        self._limiters: dict[str, Limiter] = {}
        self._shares: dict[tuple[str, str], float] = {}  # by group and topic

    def submit(self, tasks: Sequence[HandlerTask]) -> None:
        """Add tasks to the limiters of their handlers, and begin the calls that are allowed."""
        by_handler: dict[str, list[HandlerTask]] = {}
        for task in tasks:
            by_handler.setdefault(task.handler.id, []).append(task)
        for some in by_handler.values():
            limiter = self._limiter(some[0].handler)
            limiter.add(some)
            self.grant(limiter)

    def grant(self, limiter: Limiter) -> None:
        """Begin the calls of one handler that are allowed now."""
        if self._state.permission.is_closing:
            return
        calls = limiter.grant(self._state.clock.monotonic())
        if calls:
            side = self._async if limiter.handler.binding.is_async else self._sync
            side.begin(limiter, calls)

    def look(self, *, all: bool) -> None:
        """Begin calls that their rates allow by now; of all handlers if calls were refused before."""
        for limiter in list(self._limiters.values()):
            if all or limiter.handler.rate is not None:
                self.grant(limiter)

    def share(self, group: str, topic: str) -> float | None:
        """Return the fraction of its rates that a group may use here, if it was set."""
        return self._shares.get((group, topic))

    def change_share(self, group: str, topic: str, share: float) -> None:
        """Set the fraction of a topic's partitions that a group owns here: it may use that part of a rate."""
        if self._shares.get((group, topic)) == share:
            return
        self._shares[group, topic] = share
        for limiter in list(self._limiters.values()):
            if (limiter.handler.group, limiter.handler.topic) == (group, topic):
                limiter.change_share(share, self._state.clock.monotonic())
                self.grant(limiter)

    def take_back(self, wanted: Callable[[HandlerTask], bool]) -> list[HandlerTask]:
        """Remove the waiting tasks that match, and return them."""
        return [task for limiter in self._limiters.values() for task in limiter.take_back(wanted)]

    def waiting(self) -> int:
        """Return how many tasks wait."""
        return sum(map(len, list(self._limiters.values())))

    def next_due(self, now: float) -> float | None:
        """Return when a rate allows the next task; None if none waits for one."""
        due = [each for one in list(self._limiters.values()) if (each := one.due(now)) is not None]
        return min(due, default=None)

    def dry(self, now: float) -> list[tuple[Limiter, int, float | None]]:
        """Return the limiters that tasks wait at, how many, and until when where the rate is the reason."""
        found = []
        for limiter in list(self._limiters.values()):
            status = limiter.status(now)
            if status is not None:
                found.append((limiter, *status))
        return found

    def _limiter(self, handler: Handler) -> Limiter:
        known = self._limiters.get(handler.id)
        if known is None:
            usual = ASYNC_CALLS if handler.binding.is_async else self._state.queue.threads
            share = self.share(handler.group, handler.topic)
            known = self._limiters[handler.id] = Limiter(
                handler,
                handler.concurrency or usual,
                self._state.clock.monotonic(),
                share=1.0 if share is None else share,
                rate_is_dry=self._rate_is_dry,
            )
        return known
