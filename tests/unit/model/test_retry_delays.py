"""How long each policy waits, to the millisecond (B-05)."""

import logging
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock.errors import InvalidPolicy
from penstock.model.retry import Custom, Exponential, Fixed, Linear, PowerOfTwo, RetryPolicy

SIX = range(1, 7)


def seconds_between(policy: RetryPolicy) -> list[float]:
    """Return the gaps between the attempts at a record that always fails."""
    gaps: list[float] = []
    while policy.retries(len(gaps) + 1, RuntimeError()):
        gaps.append(policy.delay_after(len(gaps) + 1).total_seconds())
    return gaps


def attempt_times(policy: RetryPolicy) -> list[float]:
    """Return when each attempt runs, the first one at 0, on a clock that only the gaps move."""
    times = [0.0]
    for gap in seconds_between(policy):
        times.append(times[-1] + gap)
    return times


@pytest.mark.parametrize(
    ("policy", "seconds"),
    [
        (Fixed(), [5, 5, 5, 5, 5, 5]),
        (Fixed(0.25), [0.25] * 6),
        (Linear(), [2, 4, 6, 8, 10, 12]),
        (Linear(1, 10, 25), [1, 11, 21, 25, 25, 25]),
        (Linear(30, 1, 10), [10] * 6),
        (Exponential(), [2, 4, 8, 16, 32, 60]),
        (Exponential(1, 3.0, 1000), [1, 3, 9, 27, 81, 243]),
        (Exponential(1, 1.5, 60), [1, 1.5, 2.25, 3.375, 5.062, 7.593]),
        (PowerOfTwo(), [2, 4, 8, 16, 32, 64]),
        (PowerOfTwo(timedelta(seconds=10)), [2, 4, 8, 10, 10, 10]),
        (Custom(lambda n: n * n), [1, 4, 9, 16, 25, 36]),
        (Custom(lambda n: timedelta(minutes=n), timedelta(minutes=3)), [60, 120, 180, 180, 180, 180]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, RetryPolicy) else "",
)
def test_the_delay_after_each_of_six_failures(policy: RetryPolicy, seconds: list[float]) -> None:
    assert [policy.delay_after(n).total_seconds() for n in SIX] == seconds
    assert [policy.base_delay_ms(n) for n in SIX] == [round(each * 1000) for each in seconds]


@pytest.mark.parametrize(
    ("policy", "times"),
    [
        (Exponential(), [0, 2, 6, 14]),
        (Fixed(), [0, 5, 10, 15]),
        (Linear(), [0, 2, 6, 12]),
        (Custom(lambda n: n), [0, 1, 3, 6]),
        (PowerOfTwo(max_retries=3), [0, 2, 6, 14]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, RetryPolicy) else "",
)
def test_the_times_of_all_four_attempts(policy: RetryPolicy, times: list[float]) -> None:
    assert attempt_times(policy) == times


def test_the_default_run_waits_2_4_and_8_seconds_and_then_gives_up() -> None:
    assert seconds_between(Exponential()) == [2, 4, 8]


def test_power_of_two_waits_2_4_8_16_and_32_seconds_and_then_gives_up() -> None:
    assert seconds_between(PowerOfTwo()) == [2, 4, 8, 16, 32]


def test_no_retries_means_one_attempt() -> None:
    assert attempt_times(Fixed(max_retries=0)) == [0]


class Edge:
    """Chance that always falls on one end."""

    def __init__(self, pick: Callable[[int, int], int]) -> None:
        self.randint = pick


@pytest.mark.parametrize(
    ("policy", "lowest", "highest"),
    [
        (Fixed(5, jitter=1), 4000, 6000),
        (Fixed(5, jitter=5), 0, 10_000),
        (Fixed(5, jitter=20), 0, 25_000),
        (Exponential(60, 2.0, 60, jitter=0.5), 59_500, 60_500),
    ],
)
def test_jitter_spreads_the_capped_delay_to_both_sides_but_not_below_zero(
    policy: RetryPolicy, lowest: int, highest: int
) -> None:
    assert policy.delay_after(3, Edge(lambda low, high: low)) == timedelta(milliseconds=lowest)
    assert policy.delay_after(3, Edge(lambda low, high: high)) == timedelta(milliseconds=highest)


def test_jitter_reaches_every_whole_millisecond_of_its_range() -> None:
    policy, rng = Fixed(0.005, jitter=0.003), random.Random(1)

    seen = {policy.delay_after(1, rng) for _ in range(1000)}

    assert seen == {timedelta(milliseconds=ms) for ms in range(2, 9)}


def test_without_jitter_chance_is_not_asked() -> None:
    def never(low: int, high: int) -> int:
        raise AssertionError("asked for chance")

    assert Fixed(5).delay_after(1, Edge(never)) == timedelta(seconds=5)


@pytest.mark.parametrize("answer", [None, "soon", float("nan"), float("inf"), 1e300])
def test_a_custom_function_that_answers_nonsense_waits_the_longest(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "penstock.retry"):
        assert Custom(lambda n: answer, 7).delay_after(1) == timedelta(seconds=7)
    assert "waiting 7000 ms" in caplog.text


def test_a_custom_function_that_raises_waits_the_longest(caplog: pytest.LogCaptureFixture) -> None:
    assert Custom(lambda n: 1 / 0, 7).delay_after(1) == timedelta(seconds=7)
    assert "ZeroDivisionError" in caplog.text


def test_a_custom_function_that_answers_a_time_in_the_past_waits_not_at_all() -> None:
    assert Custom(lambda n: -5).delay_after(1) == timedelta()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Fixed(0), "Fixed(delay=0): delay must be a timedelta or seconds, a millisecond or more"),
        (lambda: Fixed(-1), "Fixed(delay=-1): delay must be "),
        (lambda: Fixed(0.0004), "Fixed(delay=0.0004): delay must be "),
        (lambda: Fixed(True), "Fixed(delay=True): delay must be "),
        (lambda: Fixed(float("nan")), "Fixed(delay=nan): delay must be "),
        (lambda: Fixed(float("inf")), "Fixed(delay=inf): delay must be "),
        (lambda: Fixed(10**30), f"Fixed(delay={10**30}): delay must be "),
        (lambda: Fixed(timedelta(days=3651)), "Fixed(delay=datetime.timedelta(days=3651)): delay must be "),
        (lambda: Fixed("5"), "Fixed(delay='5'): delay must be "),  # type: ignore[arg-type]
        (lambda: Fixed(None), "Fixed(delay=None): delay must be "),  # type: ignore[arg-type]
        (lambda: Linear(0), "Linear(initial_delay=0): initial_delay must be "),
        (lambda: Linear(increment=-2), "Linear(increment=-2): increment must be "),
        (lambda: Linear(max_delay=0), "Linear(max_delay=0): max_delay must be "),
        (lambda: Exponential(0), "Exponential(initial_delay=0): initial_delay must be "),
        (lambda: Exponential(max_delay=-1), "Exponential(max_delay=-1): max_delay must be "),
        (
            lambda: Exponential(multiplier=1.0),
            "Exponential(multiplier=1.0): multiplier must be a finite number above 1.0",
        ),
        (lambda: Exponential(multiplier=0.5), "Exponential(multiplier=0.5): "),
        (lambda: Exponential(multiplier=float("nan")), "Exponential(multiplier=nan): "),
        (lambda: Exponential(multiplier=float("inf")), "Exponential(multiplier=inf): "),
        (lambda: Exponential(multiplier=10**400), "Exponential(multiplier=1000"),
        (lambda: Exponential(multiplier="2"), "Exponential(multiplier='2'): "),  # type: ignore[arg-type]
        (lambda: PowerOfTwo(0), "PowerOfTwo(max_delay=0): max_delay must be "),
        (lambda: Custom(5), "Custom(function=5): function must be a function"),  # type: ignore[arg-type]
        (lambda: Custom(float, 0), "Custom(max_delay=0): max_delay must be "),
        (lambda: Fixed(jitter=-1), "Fixed(jitter=-1): jitter must be a timedelta or seconds, zero or more"),
        (lambda: Fixed(max_retries=-1), "Fixed(max_retries=-1): max_retries must be a whole number of zero"),
        (lambda: Fixed(max_retries=True), "Fixed(max_retries=True): "),
        (lambda: Fixed(max_retries=2.0), "Fixed(max_retries=2.0): "),  # type: ignore[arg-type]
        (lambda: Fixed(retry_on=int), "Fixed(retry_on=<class 'int'>): "),  # type: ignore[arg-type]
        (lambda: Fixed(retry_on=5), "Fixed(retry_on=5): retry_on must be an exception class"),  # type: ignore[arg-type]
        (lambda: Fixed(retry_on=[""]), "Fixed(retry_on=''): retry_on must be an exception class"),
        (lambda: Fixed(no_retry_on=None), "Fixed(no_retry_on=None): no_retry_on must be an exception"),  # type: ignore[arg-type]
        (lambda: Fixed(no_retry_on=ValueError()), "Fixed(no_retry_on=ValueError()): "),  # type: ignore[arg-type]
        (lambda: Fixed(retry_if=["x"]), "Fixed(retry_if='x'): retry_if must be a function"),  # type: ignore[list-item]
    ],
)
def test_a_policy_that_cannot_be_is_refused_by_policy_field_and_value(
    build: Callable[[], RetryPolicy], message: str
) -> None:
    with pytest.raises(InvalidPolicy) as refused:
        build()

    assert str(refused.value).startswith(message)


def test_a_policy_is_immutable_and_compared_by_value() -> None:
    policy = Exponential(1, max_retries=2)

    with pytest.raises(AttributeError):
        policy.max_retries = 9  # type: ignore[misc]
    assert policy == Exponential(timedelta(seconds=1), max_retries=2)
    assert policy != Exponential(2, max_retries=2)
    assert hash(policy) == hash(Exponential(1.0, max_retries=2))
