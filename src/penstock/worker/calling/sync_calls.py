"""The calls of sync handlers, and of all fallbacks: what each thread of the pool does."""

import inspect
import logging
from typing import Any

from penstock.delivery.verdict import Verdict

from ..handler import HandlerTask, about_record
from .attempt import PASSED, after_answer, after_error, last_try
from .begun_calls import BegunCall, FallbackCall, tasks_of
from .limiter import Limiter
from .verdicts import RunnerState

logger = logging.getLogger("penstock.handlers")


class SyncCalls:
    """Takes the calls that wait for a thread, one after the other, and makes them.

    After a task the same thread takes the next one of its run. Tasks of a group that is given up are handed
    back. It has no state of its own: `work` runs in every thread at once, and a thread ends when the runner
    closes or its call was given up.
    """

    def __init__(self, state: RunnerState) -> None:
        self._state = state

    def begin(self, limiter: Limiter, calls: int) -> None:
        """Have threads make `calls` calls that a limiter has granted."""
        self._state.queue.add([limiter] * calls)
        self._state.pool.wake()

    def work(self, sleeping: Any) -> bool:
        """Run one thread of the pool; return whether it still belongs to the pool at the end."""
        state = self._state
        queue, results, begun = state.queue, state.results, state.begun
        permission, may_start, hung = state.permission, state.permission.may_start, state.hung
        clock, monotonic, copied = state.clock, state.clock.monotonic, state.context.copy
        now = monotonic()
        following: HandlerTask | None = None
        ended: str | None = None  # the group of the last call that this thread has made
        while True:
            if following is None:
                call = queue.take(ended, fallbacks_only=permission.is_closing)
                ended = None
                if call is None:
                    if permission.is_closing:
                        return True
                    state.pool.sleep(sleeping, self._is_needed)
                    now = monotonic()
                    continue
                ended = call.handler.group
                if isinstance(call, FallbackCall):
                    if not self._call_fallback(call):
                        return False
                    now = monotonic()
                    continue
            else:
                call, following = following, None
                if permission.is_closing:
                    queue.put_back(call)
                    ended = None
                    continue
            if not may_start():
                self._put_back(call)
                ended = None
                state.pool.sleep(sleeping, self._is_needed)
                now = monotonic()
                continue
            if not isinstance(call, HandlerTask):
                if not self._call_limited(call, now):
                    return False
                now = monotonic()
                continue
            handler, record = call.handler, call.record
            if handler.group in hung.given_up:
                state.verdicts.hand_back(list(call.run()))
                continue
            begun[call] = now
            try:
                answer = copied().run(handler.binding.call, record)
                if answer is None:
                    verdict: Verdict = PASSED
                else:
                    if inspect.isawaitable(answer):
                        answer = state.loop.answer(_given, answer)
                    verdict = after_answer(handler, record, answer, failures=call.failures, clock=clock)
            except BaseException as error:
                verdict = after_error(handler, record, error, failures=call.failures, clock=clock)
            began, now = now, monotonic()
            if begun.pop(call, None) is None:
                if not self._rejoin(call):
                    return False
            elif verdict is PASSED:
                results.put((call, verdict, now - began))
                following = call.next
                if not results.is_told:
                    results.tell(following is not None or bool(queue), plain=not call.failures)
            else:
                state.verdicts.leave_out(call)
                state.verdicts.finish(call, verdict, now - began)

    def _is_needed(self) -> bool:
        """Return whether a thread that is about to sleep should look for work again."""
        permission = self._state.permission
        return permission.is_closing or (self._state.queue.may_begin(fallbacks_only=permission.was_refused) > 0)

    def _put_back(self, call: HandlerTask | Limiter) -> None:
        """Put back a call that may not begin now."""
        if isinstance(call, HandlerTask):
            self._state.queue.put_back(call)
        else:
            self._state.queue.end(call.handler.group)
            call.give_back()
        self._state.permission.was_refused = True  # last: the watch would lower it too early, and find nothing

    def _call_limited(self, limiter: Limiter, now: float) -> bool:
        """Make one call that a limiter has granted; return whether this thread still belongs to the pool."""
        state = self._state
        call = limiter.begin(now)
        if call is None:
            return True
        if call.handler.group in state.hung.given_up:
            state.verdicts.hand_back_limited(call)
            self._grant_next(limiter)
            return True
        state.begun[call] = now
        answer, error = None, None
        try:
            answer = state.loop.answer(state.context.copy().run, call.call)
        except BaseException as raised:
            error = raised
        if state.begun.pop(call, None) is None:
            return self._rejoin(call)
        ended = state.clock.monotonic()
        state.verdicts.after_limited(call, answer, error, ended - now)
        self._grant_next(limiter)
        return True

    def _grant_next(self, limiter: Limiter) -> None:
        """Queue the calls that a limiter grants now that one of its calls has ended."""
        state = self._state
        more = 0 if state.permission.is_closing else limiter.grant(state.clock.monotonic())
        state.queue.add([limiter] * more)
        state.pool.wake()

    def _call_fallback(self, call: FallbackCall) -> bool:
        """Call the fallback of a record that is about to be given up; return as `_call_limited` does."""
        state = self._state
        task = call.task
        began = state.begun[call] = state.clock.monotonic()
        verdict = last_try(state.loop, task.handler, task.record, call.verdict)
        if state.begun.pop(call, None) is None:
            return self._rejoin(call)
        state.verdicts.report(task, verdict, state.clock.monotonic() - began)
        return True

    def _rejoin(self, call: BegunCall) -> bool:
        """Log that an answer came too late; return whether this thread belongs to the pool again."""
        self._state.hung.end(call, call.handler)
        for task in tasks_of(call):
            logger.warning(
                "handler %s ended on %s %s (key %r) after it was given up; what it answered is dropped",
                task.handler.id,
                task.record.type or "record",
                task.record.id,
                task.record.key,
                extra=about_record(task.handler, task.record),
            )
        is_back = self._state.pool.rejoin(wanted=not self._state.permission.is_closing)
        if is_back:
            self._state.queue.resume(call.handler.group)
        return is_back


def _given(answer: Any) -> Any:
    return answer
