"""A retry policy in one line."""

from datetime import timedelta

import pytest

from penstock import Custom, Exponential, Fixed, Linear, PowerOfTwo, RetryPolicy
from penstock.model.retry import policy_words, span_words


def is_busy(error: BaseException) -> bool:
    """A predicate."""
    return True


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Exponential(), "3 retries after 2s, 4s, 8s"),
        (Exponential(max_retries=0), "no retries"),
        (Exponential(initial_delay=30, max_retries=5), "5 retries after 30s, 1min, 1min, 1min, 1min"),
        (Fixed(), "3 retries after 5s each"),
        (Fixed(0.25, max_retries=1), "1 retry after 250ms"),
        (Linear(max_retries=6, jitter=1.5), "6 retries after 2s, 4s, 6s, 8s, 10s, … ± 1500ms"),
        (PowerOfTwo(), "5 retries after 2s, 4s, 8s, 16s, 32s"),
        (Custom(lambda n: timedelta(hours=n), max_retries=2), "2 retries after 1h each"),
        (
            Fixed(60, retry_on=(OSError, "shop.Busy"), no_retry_on=ValueError, retry_if=is_busy),
            "3 retries after 1min each; only OSError, shop.Busy; if is_busy; never ValueError",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_policy_is_said_in_one_line(policy: RetryPolicy, words: str) -> None:
    assert policy_words(policy) == words


@pytest.mark.parametrize(
    ("ms", "words"), [(0, "0s"), (1, "1ms"), (90_000, "90s"), (7_200_000, "2h"), (86_400_000, "1d")]
)
def test_a_span_is_said_in_the_largest_unit_without_a_rest(ms: int, words: str) -> None:
    assert span_words(ms) == words
