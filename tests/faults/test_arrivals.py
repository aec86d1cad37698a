"""The rules of a fault run: planted breaches that they must find, and what they must not take for one."""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.arrivals import BATCH, Arrival, breaches, kinds, summary

PLACES = {(0, 0), (0, 1)}


def told(*deliveries: tuple[int, int, bool]) -> list[Arrival]:
    """Return deliveries of one key, given by offset, epoch and mark, in this order."""
    return [
        Arrival(at, 1, "g", 0, offset, fence, 1, marked, "k") for at, (offset, fence, marked) in enumerate(deliveries)
    ]


def found(arrivals: Sequence[Arrival]) -> dict[str, int]:
    return dict(kinds(breaches(arrivals, PLACES, ["g"])))


def test_what_came_once_and_in_order_is_no_breach() -> None:
    assert found(told((0, 1, False), (1, 1, False))) == {}


def test_what_came_again_and_says_so_is_no_breach() -> None:
    assert found(told((0, 1, False), (0, 2, True), (1, 2, True), (0, 3, True))) == {}


def test_what_one_that_was_stopped_does_late_is_no_breach() -> None:
    """It was handed out in an older epoch, before anybody knew."""
    assert found(told((0, 2, False), (1, 2, False), (0, 1, False))) == {}


def test_what_never_came_is_lost() -> None:
    assert found(told((0, 1, False))) == {"lost": 1}


def test_what_came_first_too_late_is_inverted() -> None:
    assert found(told((1, 1, False), (0, 1, False))) == {"inverted": 1}


def test_what_came_again_and_does_not_say_so_is_unmarked() -> None:
    assert found(told((0, 1, False), (1, 1, False), (1, 2, False))) == {"unmarked": 1}
    assert found(told((0, 1, False), (1, 1, False), (1, 1, False))) == {"unmarked": 1}


def test_new_records_that_say_they_come_again_are_overmarked_beyond_a_batch() -> None:
    deliveries = [(offset, 2, True) for offset in range(BATCH + 1)]
    assert found(told((0, 1, False), *deliveries)) == {}
    assert found(told((0, 1, False), *deliveries, (BATCH + 1, 2, True))) == {"overmarked": 1}


def test_what_came_again_is_counted_both_ways() -> None:
    deliveries = told((0, 1, False), (1, 1, False), (0, 2, True), (1, 2, False), (2, 2, True), (1, 1, False))
    assert summary(deliveries) == "6 deliveries: 2 again, 1 unmarked, 1 falsely marked"


def test_a_line_is_read_as_it_was_written() -> None:
    first, second = told((0, 1, False), (1, 2, True))
    assert [first, second] == sorted(_again(each) for each in (second, first))


def _again(arrival: Arrival) -> Arrival:
    from tests.faults.arrivals import _parsed

    return _parsed(arrival.text())
