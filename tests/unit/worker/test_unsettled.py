"""When results are settled: with others in a trickle, soon when there are many or when one presses."""

from __future__ import annotations

from penstock.worker.unsettled import FEW_RESULTS, GATHER_SECONDS, Unsettled

BEFORE = GATHER_SECONDS * 0.99


def test_a_few_that_have_passed_wait_for_others_but_not_for_long() -> None:
    results = Unsettled()
    assert not results.is_due(0.0, busy=False)
    assert results.due() is None
    results.add(1, 10.0)
    results.add(1, 10.0 + BEFORE)
    assert not results.is_due(10.0 + BEFORE, busy=False)
    assert results.due() == 10.0 + GATHER_SECONDS  # counted from the first of them
    assert results.is_due(10.0 + GATHER_SECONDS, busy=False)
    assert results.is_due(10.0 + GATHER_SECONDS, busy=True)


def test_one_that_presses_lets_nothing_wait() -> None:
    results = Unsettled()
    results.add(1, 10.0)
    results.add(1, 10.001, pressing=True)
    assert results.is_due(10.001, busy=False)
    assert not results.is_due(10.001, busy=True)  # others are about to end
    assert results.is_due(10.05, busy=True)
    results.clear()
    results.add(1, 20.0)
    assert not results.is_due(20.001, busy=False)


def test_many_do_not_wait_for_more() -> None:
    results = Unsettled()
    results.add(FEW_RESULTS, 10.0)
    assert results.is_due(10.0, busy=False)
    assert not results.is_due(10.0, busy=True)
    results.add(2000, 10.0)
    assert results.is_due(10.0, busy=True)


def test_by_the_clock_of_a_test_nothing_waits() -> None:
    results = Unsettled(gathers=False)
    results.add(1, 10.0)
    assert results.is_due(10.0, busy=False)
