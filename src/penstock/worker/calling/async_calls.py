"""The calls of async handlers, made in the event loop."""

import asyncio
import inspect
import logging
from functools import partial

from penstock.errors import HandlerTimeout

from ..handler import about_handler
from .limiter import LimitedCall, Limiter
from .verdicts import RunnerState

logger = logging.getLogger("penstock.handlers")


class AsyncCalls:
    """Begins the calls that limiters of async handlers grant, awaits them, and begins the next when one ends.

    All of it happens in the event loop, each call as an asyncio task in a context of its own; only `begin` is
    for other threads. It has no state of its own.
    """

    def __init__(self, state: RunnerState) -> None:
        self._state = state

    def begin(self, limiter: Limiter, calls: int) -> None:
        """Have the loop make `calls` calls that a limiter has granted."""
        self._state.loop.call(self._begin, limiter, calls)

    def _begin(self, limiter: Limiter, calls: int) -> None:
        state = self._state
        while calls:
            calls -= 1
            if not state.permission.is_given():
                limiter.give_back()
                state.permission.was_refused = True
                continue
            now = state.clock.monotonic()
            call = limiter.begin(now)
            if call is not None and call.handler.group in state.hung.given_up:
                state.verdicts.hand_back_limited(call)
                calls += limiter.grant(now)
            elif call is not None:
                state.begun[call] = now
                call.running = state.loop.task(self._await(call, now), state.context.copy())
                call.running.add_done_callback(partial(self._look_back, call))

    async def _await(self, call: LimitedCall, began: float) -> None:
        state, answer, error = self._state, None, None
        try:
            answer = call.call()
            if inspect.isawaitable(answer):
                answer = await answer
        except BaseException as raised:  # a cancellation too: it is ours, or the handler's own failure
            error = raised
        if call.cancelled_at is not None:
            error = HandlerTimeout(call.handler.id, call.handler.timeout_seconds or 0)
        if state.begun.pop(call, None) is not None:
            now = state.clock.monotonic()
            state.verdicts.after_limited(call, answer, error, now - began)
            self._begin_next(call.limiter)
        elif not state.permission.is_closing:
            logger.warning(
                "async handler %s ended after it was given up; its answer is dropped",
                call.handler.id,
                extra=about_handler(call.handler),
            )

    def _look_back(self, call: LimitedCall, task: "asyncio.Task[None]") -> None:
        """Handle a call that was cancelled before it began: `_await` never ran and could not report it.

        The time-out cancels so, and code that cancels all tasks of the loop, as the clean-up of some
        libraries does. In the second case the tasks are handed back and called again.
        """
        state = self._state
        if not task.cancelled() or state.begun.pop(call, None) is None:
            return
        if call.cancelled_at is None:
            state.verdicts.hand_back_limited(call)
        else:
            seconds = call.handler.timeout_seconds or 0
            state.verdicts.after_limited(call, None, HandlerTimeout(call.handler.id, seconds), seconds)
        self._begin_next(call.limiter)

    def _begin_next(self, limiter: Limiter) -> None:
        if not self._state.permission.is_closing:
            self._begin(limiter, limiter.grant(self._state.clock.monotonic()))
