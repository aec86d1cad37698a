"""When results are settled: with others in a trickle, soon when there are many or when one presses."""

from __future__ import annotations

from penstock.worker.served_groups import FEW_RESULTS, GATHER_SECONDS, Unsettled

JUST_BEFORE = GATHER_SECONDS * 0.99


def handed_out(at: float) -> Unsettled:
    results = Unsettled()
    results.begin(at)
    return results


def test_nothing_is_due_without_results() -> None:
    results = handed_out(at=10.0)
    assert not results
    assert not results.is_due(11.0, busy=False, timed=True)
    assert not results.may_wait
    assert results.due(11.0) is None


def test_a_few_that_have_passed_wait_for_others_but_not_for_long() -> None:
    results = handed_out(at=10.0)
    results.add(1, 10.01)
    results.add(1, 10.0 + JUST_BEFORE)
    assert results.may_wait
    assert not results.is_due(10.0 + JUST_BEFORE, busy=False)
    end = 10.0 + GATHER_SECONDS  # counted from when the first was handed out
    assert results.due(10.05) == end
    assert results.is_due(end, busy=False)
    assert results.is_due(end, busy=True)


def test_a_look_that_nobody_asked_for_settles_what_has_waited_half_the_time() -> None:
    results = handed_out(at=10.0)
    results.add(1, 10.01)
    assert not results.is_due(10.0 + 0.49 * GATHER_SECONDS, busy=False, timed=True)
    assert results.is_due(10.0 + 0.51 * GATHER_SECONDS, busy=True, timed=True)


def test_after_a_settling_there_is_another_look_in_a_while() -> None:
    results = handed_out(at=10.0)
    results.add(1, 10.0)
    results.clear(10.1)
    assert results.due(10.1) == 10.1 + GATHER_SECONDS
    assert results.due(10.1 + GATHER_SECONDS) is None
    results.add(1, 20.0)
    assert results.due(20.0) == 20.0 + GATHER_SECONDS


def test_one_that_presses_lets_nothing_wait() -> None:
    results = handed_out(at=10.0)
    results.add(1, 10.01)
    results.add(1, 10.011, pressing=True)
    assert not results.may_wait
    assert results.is_due(10.011, busy=False)
    assert not results.is_due(10.011, busy=True)
    assert results.is_due(10.05, busy=True)
    results.clear(20.0)
    results.add(1, 20.001)
    assert not results.is_due(20.001, busy=False)


def test_many_do_not_wait_for_more() -> None:
    results = handed_out(at=10.0)
    results.add(FEW_RESULTS, 10.001)
    assert not results.may_wait
    assert results.is_due(10.001, busy=False)
    assert not results.is_due(10.001, busy=True)
    results.add(2000, 10.001)
    assert results.is_due(10.001, busy=True)


def test_by_the_clock_of_a_test_nothing_waits() -> None:
    results = Unsettled(gathers=False)
    results.add(1, 10.0)
    assert not results.may_wait
    assert results.is_due(10.0, busy=False)
    results.clear(10.0)
    assert results.due(10.0) is None
