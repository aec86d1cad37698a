"""Turns the end of a call into verdicts on its records."""

import logging
from collections.abc import Callable
from typing import Any

from penstock.clock import Clock
from penstock.delivery.verdict import Verdict
from penstock.redaction import words

from ..log_fields import about_handler
from ..task import HandlerTask
from .attempt import PASSED, after_answers, after_error, needs_last_try
from .limiter import LimitedCall, Limiter
from .results import Results
from .thread_queue import ThreadQueue
from .under_way import NOT_BEGUN, BegunCall, CallsUnderWay, FallbackCall

logger = logging.getLogger("penstock.handlers")


class Verdicts:
    """Decides on the records of a call that has ended by an answer, an error or its time-out.

    A verdict goes to the results. A record that is about to be given up goes to its handler's fallback first,
    a batch that failed is called again record by record, and the tasks behind a failed record in its run are
    handed back without being called. From any thread: by the one that removed the call from those under way.
    """

    def __init__(
        self,
        clock: Clock,
        results: Results,
        queue: ThreadQueue,
        under_way: CallsUnderWay,
        wake_threads: Callable[[], None],
    ) -> None:
        self._clock, self._results, self._queue, self._under_way = clock, results, queue, under_way
        self._wake_threads = wake_threads

    def after_limited(
        self, call: LimitedCall, answer: Any, error: BaseException | None, seconds: float
    ) -> None:
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

    def finish(
        self, task: HandlerTask, verdict: Verdict, seconds: float, limiter: Limiter | None = None
    ) -> None:
        """Report a verdict, or hand the record to its handler's fallback."""
        if needs_last_try(task.handler, verdict, task.failures):
            fallback = FallbackCall(task, verdict)
            self._under_way[fallback] = NOT_BEGUN
            self._queue.add_fallback(fallback)
            self._wake_threads()
        else:
            self.report(task, verdict, seconds, limiter)

    def report(
        self, task: HandlerTask, verdict: Verdict, seconds: float, limiter: Limiter | None = None
    ) -> None:
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
