"""What becomes of a record after its handler: each row of the table, the counts, and the reasons."""

import random
from collections.abc import Iterator
from datetime import timedelta

import pytest

from penstock.clock import from_ms
from penstock.delivery.verdict import (
    REASON_CHARACTERS,
    SOONEST_MS,
    Dead,
    OnExhausted,
    OnFailure,
    Parked,
    Passed,
    Rules,
    Verdict,
)
from penstock.model.outcome import Cancel, Done, Outcome, Retry, Snooze, outcome_of
from penstock.model.retry import Custom, Exponential, Fixed, Linear, PowerOfTwo, RetryPolicy
from penstock.redaction import reason

NOW = 1_700_000_000_000
SECOND = timedelta(seconds=1)
PARK, ALONE, DEAD = OnFailure
HOLD, RELEASE = OnExhausted
COMBINATIONS = [(failure, exhausted) for failure in OnFailure for exhausted in OnExhausted]


class Final(Exception):
    pass


def some_rules(
    on_failure: OnFailure = PARK, on_exhausted: OnExhausted = HOLD, retry: RetryPolicy | None = None
) -> Rules:
    return Rules(retry or Fixed(5 * SECOND, max_retries=3, no_retry_on=Final), on_failure, on_exhausted)


def after(rules: Rules, what: Outcome | BaseException, failures: int = 0, now_ms: int = NOW) -> Verdict:
    if isinstance(what, BaseException):
        return rules.after_error(what, failures=failures, now_ms=now_ms, rng=random)
    return rules.after_outcome(what, failures=failures, now_ms=now_ms, rng=random)


# -- the table


@pytest.mark.parametrize(("on_failure", "on_exhausted"), COMBINATIONS)
@pytest.mark.parametrize("answer", [None, Done, Done()])
def test_done_passes_whatever_the_rule(answer: object, on_failure: OnFailure, on_exhausted: OnExhausted) -> None:
    assert after(some_rules(on_failure, on_exhausted), outcome_of(answer), failures=2) == Passed()


@pytest.mark.parametrize(("on_failure", "alone"), [(PARK, False), (ALONE, True), (DEAD, False)])
def test_a_retry_is_parked_for_the_time_it_asks_and_counts(on_failure: OnFailure, alone: bool) -> None:
    verdict = after(some_rules(on_failure), Retry(2 * SECOND), failures=1)

    assert verdict == Parked(NOW + 2000, 2, "asked for a retry", alone=alone)


def test_a_retry_without_a_time_waits_as_the_policy_says() -> None:
    verdict = after(some_rules(), Retry())

    assert verdict == Parked(NOW + 5000, 1, "asked for a retry")


@pytest.mark.parametrize(("on_failure", "alone"), [(PARK, False), (ALONE, True)])
def test_an_error_that_the_policy_retries_is_parked_and_counts(on_failure: OnFailure, alone: bool) -> None:
    verdict = after(some_rules(on_failure), ValueError("no stock"), failures=2)

    assert verdict == Parked(NOW + 5000, 3, "ValueError: no stock", alone=alone)


@pytest.mark.parametrize("on_failure", OnFailure)
@pytest.mark.parametrize("until", [3 * SECOND, from_ms(NOW + 3000)])
def test_a_snooze_parks_the_lane_and_counts_nothing(on_failure: OnFailure, until: timedelta) -> None:
    verdict = after(some_rules(on_failure), Snooze(until), failures=2)

    assert verdict == Parked(NOW + 3000, 2, "snoozed", alone=False, snoozed=True)


@pytest.mark.parametrize("until", [timedelta(), from_ms(NOW), from_ms(NOW - 3_600_000)])
def test_a_snooze_into_the_past_comes_again_a_moment_later(until: timedelta) -> None:
    """Else the record would be called again and again, as fast as its handler answers."""
    assert after(some_rules(PARK), Snooze(until)) == Parked(NOW + SOONEST_MS, 0, "snoozed", snoozed=True)


@pytest.mark.parametrize(("on_failure", "on_exhausted"), COMBINATIONS)
def test_a_cancelled_record_is_dead_and_its_lane_goes_on(on_failure: OnFailure, on_exhausted: OnExhausted) -> None:
    verdict = after(some_rules(on_failure, on_exhausted), Cancel("order withdrawn"), failures=2)

    assert verdict == Dead(2, "order withdrawn", hold=False)


@pytest.mark.parametrize(("on_failure", "on_exhausted"), COMBINATIONS)
@pytest.mark.parametrize(
    ("what", "failures", "reason"),
    [
        (Final("bad card"), 0, "Final: bad card"),
        (ValueError("no stock"), 3, "ValueError: no stock"),
        (Retry(SECOND), 3, "asked for a retry, and none is left"),
    ],
    ids=["final", "exhausted", "exhausted by asking"],
)
def test_a_final_or_exhausted_record_is_dead_and_holds_a_parked_lane_unless_told_to_release_it(
    what: Outcome | Exception, failures: int, reason: str, on_failure: OnFailure, on_exhausted: OnExhausted
) -> None:
    hold = (on_failure, on_exhausted) == (PARK, HOLD)

    verdict = after(some_rules(on_failure, on_exhausted), what, failures)

    assert verdict == Dead(failures + 1, reason, hold=hold)


@pytest.mark.parametrize("on_exhausted", OnExhausted)
def test_the_first_error_is_final_where_a_failure_means_dead(on_exhausted: OnExhausted) -> None:
    verdict = after(some_rules(DEAD, on_exhausted), ValueError("no stock"))

    assert verdict == Dead(1, "ValueError: no stock", hold=False)


def test_a_policy_without_retries_makes_the_first_failure_final() -> None:
    assert isinstance(after(some_rules(retry=Fixed(max_retries=0)), ValueError()), Dead)
    assert isinstance(after(some_rules(retry=Fixed(max_retries=0)), Retry()), Dead)


# -- B-05: how often and when


def attempts(rules: Rules, what: Outcome | Exception) -> Iterator[int]:
    """Yield when each attempt is made, in milliseconds from the first, if each ends like this."""
    failures, now_ms = 0, NOW
    while True:
        yield now_ms - NOW
        verdict = after(rules, what, failures, now_ms)
        if not isinstance(verdict, Parked):
            assert isinstance(verdict, Dead)
            assert verdict.failures == failures + 1
            return
        failures, now_ms = verdict.failures, verdict.due_ms


@pytest.mark.parametrize(
    ("policy", "times"),
    [
        (Fixed(), [0, 5, 10, 15]),
        (Linear(), [0, 2, 6, 12]),
        (Exponential(), [0, 2, 6, 14]),
        (PowerOfTwo(), [0, 2, 6, 14, 30, 62]),
        (Custom(lambda failures: 10 * failures), [0, 10, 30, 60]),
        (Exponential(max_retries=0), [0]),
        (Exponential(max_retries=5, max_delay=5), [0, 2, 6, 11, 16, 21]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, RetryPolicy) else None,
)
@pytest.mark.parametrize("what", [ValueError("no"), Retry()], ids=["error", "retry"])
def test_attempts_are_made_exactly_so_often_and_then(
    policy: RetryPolicy, times: list[int], what: Outcome | Exception
) -> None:
    assert list(attempts(some_rules(retry=policy), what)) == [1000 * each for each in times]


def test_jitter_is_drawn_from_the_source_it_is_given() -> None:
    policy = Fixed(5 * SECOND, jitter=SECOND)

    verdict = some_rules(retry=policy).after_error(ValueError(), failures=0, now_ms=NOW, rng=random.Random(7))

    assert isinstance(verdict, Parked)
    assert verdict.due_ms == NOW + random.Random(7).randint(4000, 6000)


# -- B-16: the reason


def chained(*words: str) -> Exception:
    """Return an error caused by one with the next words, and so on; the last is the root cause."""
    error: Exception | None = None
    for each in reversed(words):
        outer = ValueError(each)
        outer.__cause__ = error
        error = outer
    assert error is not None
    return error


def test_the_reason_holds_the_whole_chain_root_cause_first() -> None:
    verdict = after(some_rules(), chained("order failed", "card failed", "socket closed"))

    assert isinstance(verdict, Parked)
    assert verdict.reason == "ValueError: socket closed <- ValueError: card failed <- ValueError: order failed"


@pytest.mark.parametrize("failures", [0, 3], ids=["parked", "dead"])
def test_a_long_reason_keeps_its_root_cause_within_a_thousand_characters(failures: int) -> None:
    verdict = after(some_rules(), chained("x" * 5000, "y" * 700, "socket closed"), failures)

    assert isinstance(verdict, Parked | Dead)
    assert len(verdict.reason) == REASON_CHARACTERS == 1000
    assert verdict.reason.startswith("ValueError: socket closed <- ValueError: yyy")
    assert verdict.reason.endswith("x…")


def test_a_long_reason_to_cancel_is_cut() -> None:
    verdict = after(some_rules(), Cancel("x" * 5000))

    assert isinstance(verdict, Dead)
    assert len(verdict.reason) == REASON_CHARACTERS


@pytest.mark.parametrize("what", [ValueError("a\0b\ud800c"), Cancel("a\0b\ud800c")], ids=["error", "cancel"])
def test_a_reason_holds_nothing_that_a_store_would_refuse(what: Outcome | Exception) -> None:
    verdict = after(some_rules(DEAD), what)

    assert isinstance(verdict, Dead)
    assert verdict.reason.endswith("a\N{REPLACEMENT CHARACTER}b?c")


def test_an_error_whose_message_cannot_be_made_still_has_a_reason() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert reason(Mute(), 100) == "Mute: (its message cannot be shown)"
