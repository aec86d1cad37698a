"""The calls of handlers: those made in threads, those made in the event loop, and the limiters that grant some.

`RunnerState` is the value that all parts of a runner share.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.clock import Clock
from penstock.delivery.verdict import Verdict
from penstock.errors import HandlerTimeout

from ..handler import Handler, HandlerTask, about_handler, about_record
from .hung_calls import HungCalls
from .limiter import LimitedCall, Limiter
from .loop import AsyncLoop
from .thread_pool import BegunCall, BegunCalls, FallbackCall, Permission, ThreadPool, ThreadQueue, tasks_of
from .verdicts import PASSED, Results, Verdicts, after_answer, after_error, last_try

logger = logging.getLogger("penstock.handlers")


@dataclass(frozen=True, slots=True)
class RunnerState:
    """The parts that a runner's threads, loop and watch share; every call runs in a copy of `context`."""

    clock: Clock
    context: Context
    permission: Permission
    hung: HungCalls
    begun: BegunCalls
    results: Results
    verdicts: Verdicts
    queue: ThreadQueue
    pool: ThreadPool
    loop: AsyncLoop


class SyncCalls:
    """Takes the calls that wait for a thread, one after the other, and makes them.

    After a task the same thread takes the next one of its run. Tasks of a group that is given up are handed back. It
    has no state of its own: `work` runs in every thread, until the runner closes or its call was given up.
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
                        answer = state.loop.answer(lambda given=answer: given)
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
            record, late = (
                task.record,
                "handler %s ended on %s %s (key %r) after it was given up; what it answered is dropped",
            )
            fields = about_record(task.handler, record)
            logger.warning(late, task.handler.id, record.type or "record", record.id, record.key, extra=fields)
        is_back = self._state.pool.rejoin(wanted=not self._state.permission.is_closing)
        if is_back:
            self._state.queue.resume(call.handler.group)
        return is_back


class AsyncCalls:
    """Begins the calls that limiters of async handlers grant, awaits them, and begins the next when one ends.

    All in the event loop, each call as a task in a context of its own; only `begin` is for other threads.
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
            error = HandlerTimeout(call.handler.id, call.handler.timeout or 0)
        if state.begun.pop(call, None) is not None:
            now = state.clock.monotonic()
            state.verdicts.after_limited(call, answer, error, now - began)
            self._begin_next(call.limiter)
        elif not state.permission.is_closing:
            late = "async handler %s ended after it was given up; its answer is dropped"
            logger.warning(late, call.handler.id, extra=about_handler(call.handler))

    def _look_back(self, call: LimitedCall, task: "asyncio.Task[None]") -> None:
        """Handle a call that was cancelled before it began: `_await` never ran and could not report it.

        The time-out cancels so, and code that cancels all tasks of the loop; then the tasks are called again.
        """
        state = self._state
        if not task.cancelled() or state.begun.pop(call, None) is None:
            return
        if call.cancelled_at is None:
            state.verdicts.hand_back_limited(call)
        else:
            seconds = call.handler.timeout or 0
            state.verdicts.after_limited(call, None, HandlerTimeout(call.handler.id, seconds), seconds)
        self._begin_next(call.limiter)

    def _begin_next(self, limiter: Limiter) -> None:
        if not self._state.permission.is_closing:
            self._begin(limiter, limiter.grant(self._state.clock.monotonic()))


ASYNC_CALLS = 64  # of one handler at once, unless its options set another number


class Limiters:
    """Owns one limiter for each handler that is async, takes batches, or has a bound or a rate.

    A rate holds for the whole cluster; the group's share of the partitions is the part of it for this process.
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
        limiters = list(self._limiters.values())
        return [(each, *status) for each in limiters if (status := each.status(now)) is not None]

    def _limiter(self, handler: Handler) -> Limiter:
        known = self._limiters.get(handler.id)
        if known is None:
            usual = ASYNC_CALLS if handler.binding.is_async else self._state.queue.threads
            now, share = self._state.clock.monotonic(), self._shares.get((handler.group, handler.topic), 1.0)
            known = Limiter(handler, handler.concurrency or usual, now, share=share, rate_is_dry=self._rate_is_dry)
            self._limiters[handler.id] = known
        return known
