"""What a process waits by, when somebody sets the machine's clock."""

import time

import pytest

from penstock.clock import SYSTEM, SteadyClock, own_ms, steady
from penstock.testing import FakeClock


def test_a_clock_that_is_set_does_not_move_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: with the clock put back by three hours, a retry in a second waited three hours."""
    clock = SteadyClock()
    before = clock.now_ms()
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3 * 3_600_000_000_000)
    monkeypatch.setattr(time, "time", lambda: real() / 1e9 - 3 * 3600)
    assert 0 <= clock.now_ms() - before < 60_000


def test_it_begins_with_the_time_that_the_machine_has() -> None:
    assert abs(SteadyClock().now_ms() - SYSTEM.now_ms()) < 60_000


def test_the_database_still_decides_what_it_decides() -> None:
    assert own_ms(SteadyClock()) is None


def test_a_clock_of_a_test_is_kept() -> None:
    clock = FakeClock()
    assert steady(clock) is clock
