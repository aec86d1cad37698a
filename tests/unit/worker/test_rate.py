"""Rates in words and numbers, and the bucket that keeps them."""

from typing import Any

import pytest

from penstock.worker.calling.rate import Bucket, per_second


@pytest.mark.parametrize(
    ("rate", "found"),
    [
        (100, 100.0),
        (0.5, 0.5),
        ("100/s", 100.0),
        (" 30 / min ", 0.5),
        ("7200/hour", 2.0),
        ("2.5/sec", 2.5),
        (0, None),
        (-1, None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        ("fast", None),
        ("5", None),
        ("5/", None),
        ("-5/s", None),
        ("0/s", None),
        (None, None),
        ([5], None),
    ],
)
def test_a_rate_is_a_number_or_a_text(rate: Any, found: float | None) -> None:
    assert per_second(rate) == found


def test_a_bucket_gives_what_the_rate_allows_and_no_more() -> None:
    bucket, given = Bucket(10.0, 1, now=0.0), 0
    for step in range(1001):
        given += bucket.take(5, now=step / 100)
    assert given == 101  # one at the start, then ten a second


def test_a_bucket_says_when_there_is_a_token_and_then_there_is_one() -> None:
    now, bucket = 0.0, Bucket(3.0, 1, now=0.0)
    for _ in range(1000):
        assert bucket.take(9, now) == 1
        assert bucket.take(9, now) == 0
        now = bucket.due(now)
    assert now == pytest.approx(1000 / 3, rel=1e-3)


def test_a_bucket_that_was_left_alone_does_not_save_up_without_end() -> None:
    bucket = Bucket(100.0, 1, now=0.0)
    assert bucket.take(1000, now=3600.0) == 10
    assert Bucket(1.0, 25, now=0.0).take(100, now=0.0) == 25  # a whole batch has room
