"""The limiters of all handlers that need one, and each group's share of its rates."""

from collections.abc import Callable, Sequence

from ..handler import Handler
from ..task import HandlerTask
from .async_calls import AsyncCalls
from .limiter import Limiter
from .state import RunnerState
from .sync_calls import SyncCalls

ASYNC_CALLS = 64  # of one handler at once, unless it says another number


class Limiters:
    """Owns one limiter for each handler that is async, takes batches, or has a bound or a rate.

    It passes the calls that they grant on to the threads or to the event loop. A rate is meant for the whole
    cluster, and what a process may use of it is the group's share of the partitions; the shares are kept
    here, too. `submit`, `change_share` and `take_back` are for the delivery loop's thread, the rest for any.
    """

    def __init__(
        self, state: RunnerState, sync: SyncCalls, asynchronous: AsyncCalls, rate_is_dry: Callable[[], None]
    ) -> None:
        """`rate_is_dry` is called when tasks wait for a rate: the watch says when they go on."""
        self._state, self._sync, self._async, self._rate_is_dry = state, sync, asynchronous, rate_is_dry
        self._limiters: dict[str, Limiter] = {}
        self._shares: dict[tuple[str, str], float] = {}  # by group and topic

    def submit(self, tasks: Sequence[HandlerTask]) -> None:
        """Let tasks wait at the limiters of their handlers, and begin as many as may."""
        by_handler: dict[str, list[HandlerTask]] = {}
        for task in tasks:
            by_handler.setdefault(task.handler.id, []).append(task)
        for some in by_handler.values():
            limiter = self._limiter(some[0].handler)
            limiter.add(some)
            self.grant(limiter)

    def grant(self, limiter: Limiter) -> None:
        """Begin as many calls of one handler as may begin now."""
        if self._state.permission.is_closing:
            return
        calls = limiter.grant(self._state.clock.monotonic())
        if calls:
            side = self._async if limiter.handler.binding.is_async else self._sync
            side.begin(limiter, calls)

    def look(self, *, all: bool) -> None:
        """Begin what its rate lets begin by now; of all handlers if calls were refused before."""
        for limiter in list(self._limiters.values()):
            if all or limiter.handler.rate is not None:
                self.grant(limiter)

    def share(self, group: str, topic: str) -> float | None:
        """Return which part of its rates a group may use here, if that was said."""
        return self._shares.get((group, topic))

    def change_share(self, group: str, topic: str, share: float) -> None:
        """Say which part of a topic's partitions a group has here: so much of its rates is for us."""
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
        """Return when a rate lets the next task begin; None if none waits for one."""
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
