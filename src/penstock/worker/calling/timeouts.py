"""Time-outs: the handling of calls that take too long, and the thread that watches for them."""

import logging
from collections.abc import Callable, Iterable
from math import inf
from threading import Event, Thread

from penstock.clock import SYSTEM
from penstock.errors import HandlerTimeout

from ..handler import Handler, HandlerTask, about_record
from .begun_calls import BegunCall
from .limiter import LimitedCall
from .limiters import Limiters
from .verdicts import Results, RunnerState

logger = logging.getLogger("penstock.handlers")

_LONGEST_LOOK_SECONDS = 1.0  # the longest time between two checks, whatever the time-outs
_STUBBORN_SECONDS = 5.0  # how long an async handler may take to be cancelled


class Timeouts:
    """Ends the wait for calls that are over their time: the record counts as failed, and the rest goes on.

    An async call is cancelled, and given up if it does not end then. A sync one cannot be interrupted: its
    thread is abandoned and counted as hung, and its later answer is dropped. It keeps the shortest time-out
    it has seen, to decide how often to check. From any thread.
    """

    def __init__(self, state: RunnerState, limiters: Limiters) -> None:
        self._state, self._limiters = state, limiters
        self._shortest = inf

    @property
    def look_seconds(self) -> float:
        """How long to wait between two checks while calls are under way."""
        return min(self._shortest / 4, _LONGEST_LOOK_SECONDS)

    def expect(self, handlers: Iterable[Handler]) -> None:
        """Record the time-outs of handlers that are about to be called."""
        for handler in handlers:
            self._shortest = min(self._shortest, handler.timeout_seconds or inf)

    def look(self) -> None:
        """Give up the calls that are over their time."""
        now = self._state.clock.monotonic()
        for call, since in list(self._state.begun.items()):
            limit = call.handler.timeout_seconds
            if limit is not None and now - since >= limit and not self._is_cancelled(call, now):
                self._give_up(call, limit)

    def _is_cancelled(self, call: BegunCall, now: float) -> bool:
        """Cancel an async call that is over its time; return whether it may still end by that."""
        if not isinstance(call, LimitedCall) or not call.is_async:
            return False
        if call.running is None:
            return True  # the loop is just beginning it: cancelled at the next look
        if call.cancelled_at is None:
            call.cancelled_at = now
            self._state.loop.call(call.running.cancel)
            return True
        return now - call.cancelled_at < _STUBBORN_SECONDS

    def _give_up(self, call: BegunCall, limit: float) -> None:
        if self._state.begun.pop(call, None) is None:
            return  # it has just ended
        error, verdicts = HandlerTimeout(call.handler.id, limit), self._state.verdicts
        if not isinstance(call, LimitedCall) or not call.is_async:
            self._state.hung.begin(call, call.handler, limit)
            self._state.queue.end(call.handler.group)
            self._state.pool.leave_behind()
        if isinstance(call, LimitedCall):
            verdicts.after_limited(call, None, error, limit)
            self._limiters.grant(call.limiter)
        elif isinstance(call, HandlerTask):
            verdicts.leave_out(call)
            verdicts.after_failure(call, error, limit)
        else:
            fields = about_record(call.handler, call.task.record, error=str(error))
            logger.error("the fallback of handler %s: %s", call.handler.id, error, extra=fields)
            verdicts.report(call.task, call.verdict, limit)


_IDLE_SECONDS, _IDLE_CHECKS = 1.0, 10  # without work it checks so often before it sleeps
_RESULTS_SECONDS = 0.003  # how long results that are to be announced soon wait at most


class Watch:
    """A thread that checks running calls for time-outs, rates for tokens, and the lease for a renewal.

    It also wakes the delivery loop for results that were to be announced soon. It starts with the first work,
    sleeps once there has been none for a while, so that single events do not wake it, and ends once it is
    closed and nothing runs any more. The caller decides when to check; the bell triggers a check at once.
    """

    def __init__(
        self,
        bell: Event,
        results: Results,
        *,
        look: Callable[[], None],
        pause: Callable[[], float | None],
        is_over: Callable[[], bool],
    ) -> None:
        """`pause` returns how long there is nothing to check; None: until there is work again."""
        self._bell, self._results = bell, results
        self._look, self._pause, self._is_over = look, pause, is_over
        self._wait_ends, self._idle_checks, self._never = -inf, 0, Event()
        self._thread: Thread | None = None

    def keep(self) -> None:
        """Ensure that the watch runs and checks soon enough, now that there is work."""
        if self._thread is None:
            self._thread = Thread(target=self._run, name="penstock-handler-watch", daemon=True)
            self._thread.start()
        elif SYSTEM.monotonic() + (self._pause() or 0.0) >= self._wait_ends:
            return
        self._bell.set()

    def _run(self) -> None:
        while not self._is_over():
            self._bell.wait(self._next_pause())
            self._wait_ends = -inf  # what comes in from here on is seen when the next pause is computed
            self._bell.clear()
            if self._results.is_due_soon:
                self._never.wait(_RESULTS_SECONDS)
                self._results.wake_if_due()
            self._look()

    def _next_pause(self) -> float | None:
        pause = self._pause()
        self._idle_checks = 0 if pause is not None else self._idle_checks + 1
        if pause is None and self._idle_checks <= _IDLE_CHECKS:
            pause = _IDLE_SECONDS
        self._wait_ends = inf if pause is None else SYSTEM.monotonic() + pause
        again = self._pause()  # checked again: work that came in before compared with an earlier end
        if pause is None or again is None:
            return again if pause is None else pause
        return min(pause, again)
