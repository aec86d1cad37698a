"""The kit for tests: a clock in the hand, errors asked for, records made."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock.clock import Clock
from penstock.testing import FakeClock
from tests.suites.records import a_record, some_records
from tests.suites.refusal import refusal


def test_a_fake_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))
    kept: Clock = clock
    assert kept.now_ms() == clock.now_ms() == 1_893_456_000_000
    began = clock.monotonic()
    clock.advance(timedelta(seconds=90, milliseconds=5))
    assert clock.now_ms() == 1_893_456_090_005
    assert clock.monotonic() - began == pytest.approx(90.005)
    assert clock.now() == datetime(2030, 1, 1, 0, 1, 30, 5_000, tzinfo=UTC)


def test_a_fake_clock_does_not_run_backwards() -> None:
    with pytest.raises(AssertionError, match="backwards"):
        FakeClock().advance(timedelta(seconds=-1))


def test_a_refusal_is_the_error_itself() -> None:
    error = refusal(ValueError, int, "x", base=10)
    assert "invalid literal" in str(error)


def test_a_refusal_that_does_not_come_fails() -> None:
    with pytest.raises(AssertionError, match="ValueError was expected, 5 was returned"):
        refusal(ValueError, int, "5")


def test_another_error_is_not_taken_for_the_refusal() -> None:
    with pytest.raises(TypeError):
        refusal(KeyError, int, None)


def test_records_differ_by_their_ids() -> None:
    assert len({record.id for record in some_records(5)}) == 5
    assert a_record("k", b"v", type="x", id="mine").id == "mine"
