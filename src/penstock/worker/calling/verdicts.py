"""From the end of a handler's call to the verdicts on its records, kept until the delivery loop fetches them.

The rules are the same for every caller: the runner's threads and loop, a unit of work, or `attempt` in the caller's own
thread. A failure is logged once; before a record is given up, the fallback is called once. Any exception of user code
becomes a verdict, never an error of the worker.
"""

import logging
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Protocol

from msgspec import structs

from penstock import metrics
from penstock.backoff import CHANCE
from penstock.clock import SYSTEM, Clock
from penstock.delivery.verdict import Dead, OnExhausted, OnFailure, Parked, Passed, Verdict
from penstock.errors import HandlerTimeout, InvalidOutcome, TransactionEnded, Undecodable
from penstock.model.outcome import Cancel, Done, Outcome, Snooze, outcome_of
from penstock.model.record import Record
from penstock.model.retry import Fixed
from penstock.redaction import traced, words

from ..handler import Handler, HandlerTask, about_handler, about_record
from .limiter import LimitedCall, Limiter
from .thread_pool import NOT_BEGUN, BegunCall, BegunCalls, FallbackCall, ThreadQueue

logger = logging.getLogger("penstock.handlers")

PASSED = Passed()
_NO_RETRY = Fixed(max_retries=0)
_BATCH_ANSWERS = "a batch handler returns None, Done or a list with one outcome for each record"


class Answers(Protocol):
    """Calls functions, sync or async, and waits for their answers."""

    def answer(self, function: Any, *args: Any, limit: HandlerTimeout | None = None) -> Any:
        """Call a function and return its answer, awaited if it is async. Raises `limit` when that is over."""


def attempt(calls: Answers, handler: Handler, record: Record, *, failures: int, clock: Clock) -> Verdict:
    """Call a handler for a record that has failed `failures` times before, and return the verdict.

    In the caller's own thread: it waits for a sync handler however long it takes, and Ctrl-C passes through.
    """
    began = clock.monotonic()
    try:
        answer = calls.answer(handler.binding.call, record, limit=limit_of(handler))
    except (Exception, CancelledError) as error:
        verdict = after_error(handler, record, error, failures=failures, clock=clock)
    else:
        verdict = after_answer(handler, record, answer, failures=failures, clock=clock)
    metrics.HANDLER_SECONDS.observe(clock.monotonic() - began, group=handler.group, handler=handler.id)
    if needs_last_try(handler, verdict, failures):
        verdict = last_try(calls, handler, record, verdict)
    count(handler, [verdict])
    return verdict


def limit_of(handler: Handler) -> HandlerTimeout | None:
    """Return the error to raise when a handler takes too long; None if it has no limit."""
    seconds = handler.timeout
    return None if seconds is None else HandlerTimeout(handler.id, seconds)


def after_answer(handler: Handler, record: Record, answer: Any, *, failures: int, clock: Clock) -> Verdict:
    """Return the verdict on a handler's answer for one record."""
    (verdict,) = after_answers(handler, [(record, failures)], answer, clock)
    return verdict


def after_answers(handler: Handler, records: list[tuple[Record, int]], answer: Any, clock: Clock) -> Iterator[Verdict]:
    """Yield the verdict on each record (with its failures before) of one call."""
    if handler.batch is None or answer is None or answer is Done or isinstance(answer, Done):
        answers: Sequence[Any] = [answer] * len(records)
    elif isinstance(answer, list | tuple) and len(answer) == len(records):
        answers = answer
    else:
        wrong = InvalidOutcome(answer, f"{_BATCH_ANSWERS}, here {len(records)}")
        for record, failures in records:
            yield after_error(handler, record, wrong, failures=failures, clock=clock)
        return
    for (record, failures), each in zip(records, answers, strict=True):
        if each is None:
            yield PASSED
            continue
        try:
            verdict = _after_outcome(handler, record, outcome_of(each), failures, clock)
        except Exception as error:
            error.__context__ = None  # a unit of work calls this while it handles an exception of its own
            verdict = after_error(handler, record, error, failures=failures, clock=clock)
        yield verdict


def after_error(handler: Handler, record: Record, error: BaseException, *, failures: int, clock: Clock) -> Verdict:
    """Return the verdict on an error that a handler raised.

    Bytes that cannot be decoded are not retried, and later records of their key go on: a program that can read them
    requeues the letter.
    """
    rules = handler.rules
    if isinstance(error, Undecodable):
        rules = replace(rules, retry=_NO_RETRY, on_exhausted=OnExhausted.RELEASE)
        metrics.UNDECODABLE.add(1, group=handler.group, handler=handler.id)
    elif isinstance(error, TransactionEnded):
        rules = replace(rules, retry=_NO_RETRY)  # another attempt would end the same way
    try:
        verdict = rules.after_error(error, failures=failures, now_ms=clock.now_ms(), rng=CHANCE)
    except Exception as exc:  # its record must not stay without a verdict
        name = type(error).__name__
        with _log_guard(handler):
            unclear = "handler %s failed with %s, which could not be examined: %s"
            logger.error(unclear, handler.id, name, type(exc).__name__, extra=about_record(handler, record, error=name))
        verdict = rules.after_failure(name, failures=failures, now_ms=clock.now_ms(), rng=CHANCE)
    if isinstance(error, HandlerTimeout) and not isinstance(verdict, Passed):
        verdict = replace(verdict, timed_out=True)
    _tell(handler, record, verdict, error, clock)
    return verdict


def needs_last_try(handler: Handler, verdict: Verdict, failures: int) -> bool:
    """Return whether to call a fallback before a record is given up; not after Cancel, which the handler chose."""
    return handler.last_resort is not None and isinstance(verdict, Dead) and verdict.failures > failures


def last_try(calls: Answers, handler: Handler, record: Record, verdict: Verdict) -> Verdict:
    """Call the fallback, once, with the record and all its failures; if it fails too, the first verdict stands."""
    assert isinstance(verdict, Dead)
    assert handler.last_resort is not None
    began, what = SYSTEM.monotonic(), _what(handler, record)
    record = structs.replace(record, attempt=verdict.failures + 1)
    try:
        answer = calls.answer(handler.last_resort, record, verdict.reason, limit=limit_of(handler))
        if not isinstance(outcome_of(answer), Done):
            raise InvalidOutcome(answer, "a fallback returns None or Done, or it raises")
    except (Exception, CancelledError) as error:
        how = handler.rules.error_text
        with _log_guard(handler):
            fields = about_record(handler, record, error=words(error, how))
            logger.error(
                "%s failed, and so did its fallback; it is now a dead letter",
                what,
                exc_info=traced(error, how),
                extra=fields,
            )
        return verdict
    finally:
        labels = {"group": handler.group, "handler": handler.id}
        metrics.FALLBACK_SECONDS.observe(SYSTEM.monotonic() - began, **labels)
    with _log_guard(handler):
        fields = about_record(handler, record, error=verdict.reason)
        logger.warning("%s failed, and its fallback has completed it", what, extra=fields)
    return Passed(by_fallback=True, failures=verdict.failures, reason=verdict.reason)


def count(handler: Handler, verdicts: Sequence[Verdict]) -> None:
    """Count verdicts on records of one handler in the metrics."""
    labels = {"group": handler.group, "handler": handler.id}
    passed = sum(type(each) is Passed for each in verdicts)
    if passed:
        metrics.DELIVERED.add(passed, **labels)
        by_fallback = sum(type(each) is Passed and each.by_fallback for each in verdicts)
        if by_fallback:
            metrics.COMPLETED_BY_FALLBACK.add(by_fallback, **labels)
    if passed == len(verdicts):
        return
    dead = sum(type(each) is Dead for each in verdicts)
    if dead:
        metrics.DEAD.add(dead, **labels)
    if passed + dead < len(verdicts):
        metrics.PARKED.add(len(verdicts) - passed - dead, **labels)


def _after_outcome(handler: Handler, record: Record, outcome: Outcome, failures: int, clock: Clock) -> Verdict:
    verdict = handler.rules.after_outcome(outcome, failures=failures, now_ms=clock.now_ms(), rng=CHANCE)
    if not isinstance(outcome, Done | Snooze):
        _tell(handler, record, verdict, None, clock, by_hand=isinstance(outcome, Cancel))
    return verdict


def _tell(
    handler: Handler,
    record: Record,
    verdict: Verdict,
    error: BaseException | None,
    clock: Clock,
    *,
    by_hand: bool = False,
) -> None:
    """Log a failure, once: in one line while it will be retried, with the trace when it is final."""
    with _log_guard(handler):
        what, rules = _what(handler, record), handler.rules
        if isinstance(verdict, Parked):
            wait = max(0, verdict.due_ms - clock.now_ms()) / 1000
            fields = about_record(
                handler, record, error=verdict.reason, attempts=_attempts(handler), retry_seconds=wait
            )
            logger.warning("%s failed: %s; it is tried again in %s", what, verdict.reason, _span(wait), extra=fields)
        elif isinstance(verdict, Dead):
            how = "gave it up" if by_hand else "failed"
            asked = handler.last_resort is not None and not by_hand
            then = "its fallback is called" if asked else "it is now a dead letter"
            trace = None if error is None else traced(error, rules.error_text)
            fields = about_record(handler, record, error=verdict.reason, attempts=_attempts(handler))
            logger.error("%s %s: %s; %s", what, how, verdict.reason, then, exc_info=trace, extra=fields)


@contextmanager
def _log_guard(handler: Handler) -> Iterator[None]:
    """Go on if a failure cannot be logged: its record must be settled all the same."""
    try:
        yield
    except Exception as exc:
        with suppress(Exception):
            fields = about_handler(handler, error=type(exc).__name__)
            logger.error("a failure of handler %s could not be logged: %s", handler.id, fields["error"], extra=fields)


def _what(handler: Handler, record: Record) -> str:
    what = f"{record.type or 'record'} {record.id} (key {record.key!r})"  # a key may hold anything
    return f"handler {handler.id} on {what}, attempt {record.attempt} of {_attempts(handler)},"


def _attempts(handler: Handler) -> int:
    return 1 if handler.rules.on_failure is OnFailure.DEAD else handler.rules.retry.max_retries + 1


def _span(seconds: float) -> str:
    """Return a wait in words: 250 ms, 4 s, 5 min, 2 h."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


_MANY = 256  # with this many results the delivery loop is woken, even while handlers are busy

TaskResult = tuple[HandlerTask, Verdict | None, float]  # with the seconds it took; None: not begun


class Results:
    """Verdicts that wait to be fetched, and whether the delivery loop knows of them.

    It is woken at once when no more results are expected or many wait, and otherwise soon, so that one wake-up serves
    several. `put` and `tell` are for any thread, `take` for the delivery loop's, `wake_if_due` for the watch's.
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
        """Set whether to wake the loop for plain passes, too; return whether such results wait already."""
        self._is_awaited = awaited
        return awaited and bool(self._waiting)  # checked last: a result that comes later wakes the loop

    def tell(self, more: bool, *, plain: bool = False) -> None:
        """Wake the loop, soon if `more` results are likely to follow; `plain`: it passed at its first attempt."""
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


class Verdicts:
    """Decides on the records of a call that has ended by an answer, an error or its time-out.

    A verdict goes to the results. A record that is about to be given up goes to its handler's fallback first, a batch
    that failed is called again record by record, and the tasks behind a failed record in its run are handed back. From
    any thread: by the one that removed the call from those under way.
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
            handler = call.handler
            with _log_guard(handler):
                why = words(error, handler.rules.error_text)
                failed = "handler %s failed on a batch of %d: %s; each is called alone"
                logger.warning(failed, handler.id, len(ready), why, extra=about_handler(handler, error=why))
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

        Call it before the verdict on the task is reported: after that the task may be handed out again at once.
        """
        if isinstance(call, HandlerTask) and call.next is not None:
            for task in call.next.run():
                self._results.put((task, None, 0.0))
            if not self._results.is_told:  # the verdict on the first may be long in coming: by a fallback
                self._results.tell(bool(self._queue))
