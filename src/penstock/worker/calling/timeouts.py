"""Time-outs: how long a call may take, and the handling of calls that take longer."""

import logging
from collections.abc import Iterable
from math import inf

from penstock.errors import HandlerTimeout

from ..handler import Handler
from ..log_fields import about_record
from ..task import HandlerTask
from .limiter import LimitedCall
from .limiters import Limiters
from .state import RunnerState
from .under_way import BegunCall

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
        for call, since in list(self._state.under_way.items()):
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
        if self._state.under_way.pop(call, None) is None:
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
