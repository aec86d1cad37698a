"""The verdicts on records: made when a call ends, and kept until the delivery loop fetches them.

`RunnerState` is the value that all parts of a runner share.
"""

import logging
from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from penstock import metrics
from penstock.clock import Clock
from penstock.delivery.verdict import Verdict
from penstock.redaction import words

from ..handler import Handler, HandlerTask, about_handler
from .attempt import PASSED, after_answers, after_error, count, needs_last_try
from .begun_calls import NOT_BEGUN, BegunCall, BegunCalls, FallbackCall, Permission
from .hung_calls import HungCalls
from .limiter import LimitedCall, Limiter
from .loop import AsyncLoop
from .thread_pool import ThreadPool, ThreadQueue

_MANY = 256  # with this many results the delivery loop is woken, even while handlers are busy

TaskResult = tuple[HandlerTask, Verdict | None, float]  # with the seconds it took; None: not begun


class Results:
    """Verdicts that wait to be fetched, and whether the delivery loop knows of them.

    The loop is woken at once when no more results are expected or many wait, and otherwise soon, so that one
    wake-up serves several. `put` and `tell` are for any thread, `take` for the delivery loop's,
    `wake_if_due` for the watch's.
    """

    def __init__(self, wake: Callable[[], None], wake_soon: Callable[[], None]) -> None:
        """`wake` wakes the delivery loop; `wake_soon` has the watch call `wake_if_due` in a moment."""
        self._waiting: deque[TaskResult] = deque()
        self._wake, self._wake_soon = wake, wake_soon
        self.put = self._waiting.append  # not a method of ours: it is called for every record
        self.is_told = False  # the delivery loop is awake, or about to be
        self.is_due_soon = False
        self._is_awaited = True

    def expect(self, *, awaited: bool) -> bool:
        """Set whether to wake the loop for plain passes; otherwise it fetches them itself soon.

        Return whether results wait for which it would have been woken.
        """
        self._is_awaited = awaited
        return awaited and bool(self._waiting)  # checked last: a result that comes later wakes the loop

    def tell(self, more: bool, *, plain: bool = False) -> None:
        """Wake the delivery loop, at once or soon; `more`: other results are likely to follow.

        `plain`: the record has simply passed, at its first attempt.
        """
        if plain and not self._is_awaited and len(self._waiting) < _MANY:
            return
        if not more or len(self._waiting) >= _MANY:
            self.is_told = True
            self._wake()
        elif not self.is_due_soon:
            self.is_due_soon = True
            self._wake_soon()

    def wake_if_due(self) -> None:
        """Wake the delivery loop if it was to be woken soon and has not been woken since."""
        self.is_due_soon = False
        if self._waiting and not self.is_told:
            self.is_told = True
            self._wake()

    def take(self) -> list[tuple[HandlerTask, Verdict | None]]:
        """Remove and return the results since the last call, and count them in the metrics."""
        self.is_told = False  # before the look: a result that comes after it wakes the loop again
        popleft = self._waiting.popleft
        results = [popleft() for _ in range(len(self._waiting))]
        by_handler: dict[Handler, tuple[list[Verdict], list[float]]] = {}
        handler, verdicts, durations = None, list[Verdict](), list[float]()
        for task, verdict, seconds in results:
            if verdict is None:
                continue
            if task.handler is not handler:  # most often all results are of one
                handler = task.handler
                verdicts, durations = by_handler.setdefault(handler, ([], []))
            verdicts.append(verdict)
            durations.append(seconds)
        for handler, (verdicts, durations) in by_handler.items():
            count(handler, verdicts)
            metrics.HANDLER_SECONDS.observe(*durations, group=handler.group, handler=handler.id)
        return [(task, verdict) for task, verdict, _ in results]


logger = logging.getLogger("penstock.handlers")


class Verdicts:
    """Decides on the records of a call that has ended by an answer, an error or its time-out.

    A verdict goes to the results. A record that is about to be given up goes to its handler's fallback first,
    a batch that failed is called again record by record, and the tasks behind a failed record in its run are
    handed back without being called. From any thread: by the one that removed the call from those under way.
    """

    def __init__(
        self, clock: Clock, results: Results, queue: ThreadQueue, begun: BegunCalls, wake_threads: Callable[[], None]
    ) -> None:
        self._clock, self._results, self._queue, self._begun = clock, results, queue, begun
        self._wake_threads = wake_threads

    def after_limited(self, call: LimitedCall, answer: Any, error: BaseException | None, seconds: float) -> None:
        """End a limited call: decide on its records, or have each of them called alone."""
        clock, ready, limiter = self._clock, call.ready, call.limiter
        limiter.end()
        for task, undecodable in call.undecodable:
            self.after_failure(task, undecodable, 0.0, limiter)
        each = seconds / max(1, len(ready))
        if error is not None and len(ready) > 1:
            logger.warning(
                "handler %s failed on a batch of %d: %s; each is called alone",
                call.handler.id,
                len(ready),
                words(error, call.handler.rules.error_text),
                extra=about_handler(call.handler, error=words(error, call.handler.rules.error_text)),
            )
            limiter.repeat_alone(ready)
        elif error is not None:
            for task in ready:
                self.after_failure(task, error, each, limiter)
        elif ready:
            asked = [(task.record, task.failures) for task in ready]
            verdicts = after_answers(ready[0].handler, asked, answer, clock)
            for task, verdict in zip(ready, verdicts, strict=True):
                self.finish(task, verdict, each, limiter)

    def after_failure(
        self, task: HandlerTask, error: BaseException, seconds: float, limiter: Limiter | None = None
    ) -> None:
        """Decide on a record whose call raised an error or took too long."""
        verdict = after_error(task.handler, task.record, error, failures=task.failures, clock=self._clock)
        self.finish(task, verdict, seconds, limiter)

    def finish(self, task: HandlerTask, verdict: Verdict, seconds: float, limiter: Limiter | None = None) -> None:
        """Report a verdict, or hand the record to its handler's fallback."""
        if needs_last_try(task.handler, verdict, task.failures):
            fallback = FallbackCall(task, verdict)
            self._begun[fallback] = NOT_BEGUN
            self._queue.add_fallback(fallback)
            self._wake_threads()
        else:
            self.report(task, verdict, seconds, limiter)

    def report(self, task: HandlerTask, verdict: Verdict, seconds: float, limiter: Limiter | None = None) -> None:
        """Hand a verdict to the delivery loop."""
        self._results.put((task, verdict, seconds))
        if not self._results.is_told:
            more = bool(self._queue) or (limiter is not None and len(limiter) > 0)
            self._results.tell(more, plain=verdict is PASSED and not task.failures)

    def hand_back(self, tasks: list[HandlerTask]) -> None:
        """Hand back tasks that are not called here because their group is given up."""
        for task in tasks:
            self._results.put((task, None, 0.0))
        if not self._results.is_told:
            self._results.tell(bool(self._queue))

    def hand_back_limited(self, call: LimitedCall) -> None:
        """Hand back the tasks of a limited call that is not made."""
        call.limiter.end()
        self.hand_back(call.tasks)

    def leave_out(self, call: BegunCall) -> None:
        """Hand back the tasks behind a task in its run; they will not be called.

        Call it before the verdict on the task is reported: after that the task may be handed out again at
        once.
        """
        if isinstance(call, HandlerTask) and call.next is not None:
            for task in call.next.run():
                self._results.put((task, None, 0.0))
            if not self._results.is_told:  # the verdict on the first may be long in coming: by a fallback
                self._results.tell(bool(self._queue))


@dataclass(frozen=True, slots=True)
class RunnerState:
    """The parts of one runner that its threads, its loop and its watch share; each part owns its own state.

    `context`: the context in which the runner was made; every call runs in a copy of it.
    """

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
