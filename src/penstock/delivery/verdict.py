"""From a handler's outcome or error to the verdict on the record, by the rules. No I/O.

| what happened                         | verdict                                             |
|---------------------------------------|-----------------------------------------------------|
| None, Done                            | Passed                                              |
| Retry, an error the policy retries    | Parked until its delay is over, one failure more    |
| Snooze                                | Parked with its lane, failures as before            |
| Cancel                                | Dead, the lane goes on                              |
| an error that is final or exhausted   | Dead, the lane is held or goes on as the rule says  |
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import ClassVar

from penstock.clock import to_ms
from penstock.model.outcome import Cancel, Done, Outcome, Retry, Snooze
from penstock.model.retry import Random, RetryPolicy
from penstock.redaction import ErrorText, reason

REASON_CHARACTERS = 1000
SOONEST_MS = 100  # a record that is put off comes again no sooner, even if it asks for less


class OnFailure(Enum):
    """Which records wait while a record is retried."""

    PARK = "park"  # its lane: later records of its key wait, everything else flows
    ALONE = "alone"  # only itself: later records of its key go on
    DEAD = "dead"  # nothing: the first failure is final


class OnExhausted(Enum):
    """The fate of the lane of a record that used up its retries."""

    HOLD = "hold"  # it waits until a person requeues or discards the record
    RELEASE = "release"  # it goes on


@dataclass(frozen=True, slots=True)
class Passed:
    """The record is settled; its lane goes on. `by_fallback`: only its handler's fallback completed it.

    Then `failures` is the number of failures before, and `reason` that of the last.
    """

    by_fallback: bool = False
    failures: int = 0
    reason: str = ""
    timed_out: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Parked:
    """The record is tried again at `due_ms`; `failures` counts the failures so far."""

    due_ms: int
    failures: int
    reason: str
    alone: bool = False
    snoozed: bool = False  # it has not failed: its handler put it off
    timed_out: bool = False  # its handler may still be at work


@dataclass(frozen=True, slots=True)
class Dead:
    """The record is given up and kept as a dead letter; its lane is held or goes on."""

    failures: int
    reason: str
    hold: bool
    timed_out: bool = False  # its handler may still be at work


Verdict = Passed | Parked | Dead


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules on failures in a handler's registration."""

    retry: RetryPolicy
    on_failure: OnFailure = OnFailure.PARK
    on_exhausted: OnExhausted = OnExhausted.HOLD
    error_text: ErrorText = ErrorText.REDACTED

    def after_outcome(self, outcome: Outcome, *, failures: int, now_ms: int, rng: Random) -> Verdict:
        """Return the verdict on a handler's outcome; `failures` are those before this attempt."""
        match outcome:
            case Done():
                return Passed()
            case Cancel(why):
                return Dead(failures, _kept(why), hold=False)
            case Snooze(until):
                due_ms = now_ms + _ms(until) if isinstance(until, timedelta) else to_ms(until)
                due_ms = max(due_ms, now_ms + SOONEST_MS)
                return Parked(due_ms, failures, "snoozed", snoozed=True)  # the lane waits, even with on_failure="alone"
            case Retry(after):
                failed = failures + 1
                if failed > self.retry.max_retries:
                    return self._exhausted(failed, "asked for a retry, and none is left")
                wait = self.retry.delay_after(failed, rng) if after is None else after
                return Parked(now_ms + _ms(wait), failed, "asked for a retry", alone=self._alone)

    def after_error(self, error: BaseException, *, failures: int, now_ms: int, rng: Random) -> Verdict:
        """Return the verdict on an error that a handler raised."""
        why = _kept(reason(error, REASON_CHARACTERS, self.error_text))
        is_final = self.on_failure is not OnFailure.DEAD and not self.retry.retries(failures + 1, error)
        return self.after_failure(why, failures=failures, now_ms=now_ms, rng=rng, is_final=is_final)

    def after_failure(self, why: str, *, failures: int, now_ms: int, rng: Random, is_final: bool = False) -> Verdict:
        """Return the verdict on a failure with this reason; a final one is not retried."""
        failed = failures + 1
        if self.on_failure is OnFailure.DEAD:
            return Dead(failed, why, hold=False)
        if is_final or failed > self.retry.max_retries:
            return self._exhausted(failed, why)
        return Parked(now_ms + _ms(self.retry.delay_after(failed, rng)), failed, why, alone=self._alone)

    @property
    def _alone(self) -> bool:
        return self.on_failure is OnFailure.ALONE

    def _exhausted(self, failures: int, why: str) -> Dead:
        hold = self.on_exhausted is OnExhausted.HOLD and self.on_failure is OnFailure.PARK
        return Dead(failures, why, hold=hold)


def _kept(text: str) -> str:
    """Return a reason in a form that every store can hold: not too long, no NUL, no lone surrogates."""
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    return clean if len(clean) <= REASON_CHARACTERS else clean[: REASON_CHARACTERS - 1] + "…"


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
