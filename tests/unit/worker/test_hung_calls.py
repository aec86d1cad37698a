"""Calls that hang: counted for each group, told once, and forgotten when they end after all."""

import logging
from datetime import timedelta

import pytest

from penstock import Fixed, metrics
from penstock.delivery.verdict import Rules
from penstock.testing import FakeClock
from penstock.worker.calling.hung_calls import HungCalls
from penstock.worker.handler import Handler


def a_handler(id: str = "shop.mail", group: str = "mailer") -> Handler:
    """Return a handler of a group."""
    return Handler(function=print, group=group, id=id, rules=Rules(Fixed()))


def hang(hung: HungCalls, *calls: object, handler: Handler | None = None, seconds: float = 5.0) -> None:
    """Let calls hang."""
    for call in calls:
        hung.begin(call, handler or a_handler(), seconds)


@pytest.mark.parametrize(("threads", "bound"), [(1, 4), (4, 4), (8, 8), (100, 100)])
def test_a_group_is_given_up_when_as_many_hang_as_there_are_threads(threads: int, bound: int) -> None:
    hung = HungCalls(threads=threads, clock=FakeClock())
    hang(hung, *range(bound - 1))
    assert hung.given_up == frozenset()
    hang(hung, bound)
    assert hung.given_up == {"mailer"}


def test_each_group_has_a_bound_of_its_own() -> None:
    hung = HungCalls(threads=4, clock=FakeClock())
    for number, group in enumerate("abc" * 3):
        hang(hung, number, handler=a_handler(group=group))
    assert hung.given_up == frozenset()
    hang(hung, "one more", handler=a_handler(group="b"))
    assert hung.given_up == {"b"}


def test_it_is_served_again_when_fewer_than_half_hang() -> None:
    changes: list[None] = []
    hung = HungCalls(threads=4, clock=FakeClock(), changed=lambda: changes.append(None))
    hang(hung, 1, 2, 3, 4)
    for call in (1, 2):
        hung.end(call, a_handler())
    assert (set(hung.given_up), len(changes)) == ({"mailer"}, 1)
    hung.end(3, a_handler())
    assert (set(hung.given_up), len(changes)) == (set(), 2)


def test_an_end_that_is_told_before_the_beginning_counts() -> None:
    hung = HungCalls(threads=4, clock=FakeClock())
    hung.end(4, a_handler())
    hang(hung, 1, 2, 3, 4)
    assert hung.given_up == frozenset()
    hang(hung, 5)
    assert hung.given_up == {"mailer"}


def test_it_is_told_with_who_since_when_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    hung = HungCalls(threads=4, clock=clock, store="shop.db")
    hang(hung, 1, handler=a_handler("shop.call"), seconds=60.0)
    clock.advance(timedelta(seconds=30))
    with caplog.at_level(logging.WARNING, "penstock.handlers"):
        hang(hung, 2, 3, 4, 5)
    (group,) = hung.groups()
    assert (group.group, group.handler, group.calls) == ("mailer", "shop.mail", 5)
    assert group.since.timestamp() * 1000 == clock.now_ms() - 90_000
    (line,) = caplog.messages
    assert "group mailer (4 calls hang beyond their timeout, most of them of handler shop.mail" in line
    assert "Restart the process" in line
    assert metrics.GIVEN_UP.values()["shop.db", "mailer"] == 1
    assert metrics.HUNG_CALLS.values()["shop.db", "mailer"] == 5
    for call in (1, 2, 3, 4):
        hung.end(call, a_handler())
    assert (metrics.GIVEN_UP.values()["shop.db", "mailer"], metrics.HUNG_CALLS.values()["shop.db", "mailer"]) == (0, 1)
    assert hung.groups() == ()


def test_how_long_no_group_is_served() -> None:
    clock = FakeClock()
    hung = HungCalls(threads=4, clock=clock)
    assert hung.seconds_without([]) == 0
    hang(hung, *range(4), handler=a_handler(group="a"))
    clock.advance(timedelta(seconds=10))
    assert hung.seconds_without(["a", "b"]) == 0
    assert hung.seconds_without(["a"]) == 10
    hang(hung, *range(4, 8), handler=a_handler(group="b"))
    clock.advance(timedelta(seconds=3))
    assert hung.seconds_without(["a", "b"]) == 3
    hung.end(0, a_handler(group="a"))
    hung.end(1, a_handler(group="a"))
    assert hung.seconds_without(["a", "b"]) == 3
    hung.end(2, a_handler(group="a"))
    assert hung.seconds_without(["a", "b"]) == 0


def test_nothing_is_counted_once_it_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    hung = HungCalls(threads=1, clock=FakeClock())
    hung.close()
    hang(hung, 1, 2, 3, 4, 5)
    hung.end(6, a_handler())
    assert (hung.given_up, caplog.messages) == (frozenset(), [])
