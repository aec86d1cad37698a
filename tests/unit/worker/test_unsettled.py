"""When results are settled: with others in a trickle, soon when there are many or when one presses."""

from __future__ import annotations

from penstock.worker.unsettled import FEW_RESULTS, GATHER_SECONDS, Unsettled

JUST_BEFORE = GATHER_SECONDS * 0.99


def a_moment_after_a_settling() -> Unsettled:
    results = Unsettled()
    results.add(1, 9.0)
    results.clear(10.0)
    return results


def test_the_first_result_after_a_while_is_settled_at_once() -> None:
    results = Unsettled()
    assert not results.is_due(10.0, busy=False)
    assert results.due(10.0) is None
    results.add(1, 10.0)
    assert results.is_due(10.0, busy=False)
    assert not results.is_due(10.0, busy=True)  # others are about to end


def test_a_few_that_have_passed_wait_for_others_but_not_for_long() -> None:
    results = a_moment_after_a_settling()
    results.add(1, 10.01)
    results.add(1, 10.0 + JUST_BEFORE)
    assert not results.is_due(10.0 + JUST_BEFORE, busy=False)
    end = 10.0 + GATHER_SECONDS  # counted from the settling before
    assert results.due(10.05) == end
    assert results.is_due(end, busy=False)
    assert results.is_due(end, busy=True)


def test_a_settling_of_what_nobody_handled_lets_no_result_wait() -> None:
    results = Unsettled()
    results.add(1, 10.0, handled=False)
    assert results.is_due(10.0, busy=False)
    results.clear(10.0)
    results.add(1, 10.01)
    assert results.is_due(10.01, busy=False)


def test_one_that_presses_lets_nothing_wait() -> None:
    results = a_moment_after_a_settling()
    results.add(1, 10.01)
    results.add(1, 10.011, pressing=True)
    assert results.is_due(10.011, busy=False)
    assert not results.is_due(10.011, busy=True)
    assert results.is_due(10.05, busy=True)
    results.clear(20.0)
    results.add(1, 20.001)
    assert not results.is_due(20.001, busy=False)


def test_many_do_not_wait_for_more() -> None:
    results = a_moment_after_a_settling()
    results.add(FEW_RESULTS, 10.001)
    assert results.is_due(10.001, busy=False)
    assert not results.is_due(10.001, busy=True)
    results.add(2000, 10.001)
    assert results.is_due(10.001, busy=True)


def test_by_the_clock_of_a_test_nothing_waits() -> None:
    results = Unsettled(gathers=False)
    results.add(1, 10.0)
    results.clear(10.0)
    results.add(1, 10.0)
    assert results.is_due(10.0, busy=False)
