import logging
import random
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.model.retry import Exponential, Fixed, Linear, RetryPolicy
from tests.property.strategies import exponential, failure_counts, linear, policies

NONE = timedelta()


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "penstock.retry")  # functions that answer nonsense are meant here


def longest(policy: RetryPolicy) -> timedelta:
    """Return the longest delay a policy may give before jitter."""
    span = policy.delay if isinstance(policy, Fixed) else policy.max_delay  # type: ignore[attr-defined]
    assert isinstance(span, timedelta)
    return span


def jitter_of(policy: RetryPolicy) -> timedelta:
    assert isinstance(policy.jitter, timedelta)
    return policy.jitter


@given(policies, failure_counts, st.integers())
@example(Exponential(3650 * 86_400, 1.7976931348623157e308, 3650 * 86_400), 10_000, 0)
@example(Exponential(0.001, 1.0000000000000002, 0.001, jitter=1), 10_000, 0)
def test_a_delay_is_never_negative_and_never_above_the_longest_plus_jitter(
    policy: RetryPolicy, failures: int, seed: int
) -> None:
    delay = policy.delay_after(failures, random.Random(seed))

    assert NONE <= delay <= longest(policy) + jitter_of(policy)


@given(policies, failure_counts, st.integers())
def test_jitter_moves_a_delay_by_no_more_than_itself(policy: RetryPolicy, failures: int, seed: int) -> None:
    base = timedelta(milliseconds=policy.base_delay_ms(failures))

    delay = policy.delay_after(failures, random.Random(seed))

    assert NONE <= base <= longest(policy)
    assert max(NONE, base - jitter_of(policy)) <= delay <= base + jitter_of(policy)
    assert delay % timedelta(milliseconds=1) == NONE


@given(linear | exponential, failure_counts, failure_counts)
def test_a_growing_delay_never_shrinks_before_jitter(policy: RetryPolicy, one: int, other: int) -> None:
    fewer, more = sorted((one, other))

    assert policy.base_delay_ms(fewer) <= policy.base_delay_ms(more)


@given(linear | exponential)
def test_the_first_delay_is_the_initial_one_or_the_longest(policy: Linear | Exponential) -> None:
    assert isinstance(policy.initial_delay, timedelta)
    assert timedelta(milliseconds=policy.base_delay_ms(1)) == min(policy.initial_delay, longest(policy))


@given(st.integers(0, 100), st.integers(1, 200))
def test_a_record_is_tried_once_and_then_max_retries_times(max_retries: int, failures: int) -> None:
    assert Fixed(max_retries=max_retries).retries(failures, ValueError()) == (failures <= max_retries)
