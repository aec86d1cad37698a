"""One attempt at a record: from its handler's answer or error to the verdict.

It is the same for every caller of the handler: the runner's threads and loop, or `attempt` in the caller's
own thread. The answer or the error becomes a verdict, and a failure is logged once. Before a record is given
up, the handler's fallback is called once. Any exception of user code becomes a verdict, never an error of the
worker.
"""

import logging
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
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

from ..handler import Handler, about_record

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

    In the caller's own thread: the call waits for a sync handler however long it takes, and Ctrl-C passes
    through.
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
    seconds = handler.timeout_seconds
    return None if seconds is None else HandlerTimeout(handler.id, seconds)


def after_answer(handler: Handler, record: Record, answer: Any, *, failures: int, clock: Clock) -> Verdict:
    """Return the verdict on a handler's answer for one record."""
    (verdict,) = after_answers(handler, [(record, failures)], answer, clock)
    return verdict


def after_answers(
    handler: Handler, records: Sequence[tuple[Record, int]], answer: Any, clock: Clock
) -> Iterator[Verdict]:
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
            outcome = outcome_of(each)
        except InvalidOutcome as error:
            yield after_error(handler, record, error, failures=failures, clock=clock)
        else:
            yield _after_outcome(handler, record, outcome, failures, clock)


def after_error(handler: Handler, record: Record, error: BaseException, *, failures: int, clock: Clock) -> Verdict:
    """Return the verdict on an error that a handler raised.

    Bytes that cannot be decoded are not retried, and later records of their key go on: no retry could mend
    them, and a program that can read them requeues the letter.
    """
    rules = handler.rules
    if isinstance(error, Undecodable):
        rules = replace(rules, retry=_NO_RETRY, on_exhausted=OnExhausted.RELEASE)
        metrics.UNDECODABLE.add(1, group=handler.group, handler=handler.id)
    elif isinstance(error, TransactionEnded):
        rules = replace(rules, retry=_NO_RETRY)  # another attempt would end the same way
    verdict = rules.after_error(error, failures=failures, now_ms=clock.now_ms(), rng=CHANCE)
    if isinstance(error, HandlerTimeout) and not isinstance(verdict, Passed):
        verdict = replace(verdict, timed_out=True)
    _tell(handler, record, verdict, error, clock)
    return verdict


def needs_last_try(handler: Handler, verdict: Verdict, failures: int) -> bool:
    """Return whether to call a fallback before a record is given up.

    Not after Cancel, which counts no failure: there the handler itself has decided.
    """
    return handler.last_resort is not None and isinstance(verdict, Dead) and verdict.failures > failures


def last_try(calls: Answers, handler: Handler, record: Record, verdict: Verdict) -> Verdict:
    """Call the fallback, once; if it fails too, the first verdict stands.

    It gets the record with all its failures, the latest one included.
    """
    assert isinstance(verdict, Dead)
    assert handler.last_resort is not None
    began, what = SYSTEM.monotonic(), _what(handler, record)
    record = structs.replace(record, attempt=verdict.failures + 1)
    try:
        answer = calls.answer(handler.last_resort, record, verdict.reason, limit=limit_of(handler))
        if not isinstance(outcome_of(answer), Done):
            raise InvalidOutcome(answer, "a fallback returns None or Done, or it raises")
    except (Exception, CancelledError) as error:
        logger.error(
            "%s failed, and so did its fallback; it is now a dead letter",
            what,
            exc_info=traced(error, handler.rules.error_text),
            extra=about_record(handler, record, error=words(error, handler.rules.error_text)),
        )
        return verdict
    finally:
        labels = {"group": handler.group, "handler": handler.id}
        metrics.FALLBACK_SECONDS.observe(SYSTEM.monotonic() - began, **labels)
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
    what, rules = _what(handler, record), handler.rules
    if isinstance(verdict, Parked):
        wait = max(0, verdict.due_ms - clock.now_ms()) / 1000
        fields = about_record(handler, record, error=verdict.reason, attempts=_attempts(handler), retry_seconds=wait)
        logger.warning("%s failed: %s; it is tried again in %s", what, verdict.reason, _span(wait), extra=fields)
    elif isinstance(verdict, Dead):
        how = "gave it up" if by_hand else "failed"
        asked = handler.last_resort is not None and not by_hand
        then = "its fallback is called" if asked else "it is now a dead letter"
        trace = None if error is None else traced(error, rules.error_text)
        fields = about_record(handler, record, error=verdict.reason, attempts=_attempts(handler))
        logger.error("%s %s: %s; %s", what, how, verdict.reason, then, exc_info=trace, extra=fields)


def _what(handler: Handler, record: Record) -> str:
    what = f"{record.type or 'record'} {record.id} (key {record.key!r})"  # a key may hold anything
    return f"handler {handler.id} on {what}, attempt {record.attempt} of {_attempts(handler)},"


def _attempts(handler: Handler) -> int:
    """Return the maximum number of attempts at a record."""
    return 1 if handler.rules.on_failure is OnFailure.DEAD else handler.rules.retry.max_retries + 1


def _span(seconds: float) -> str:
    """Return a wait in words: 250 ms, 4 s, 5 min, 2 h."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
