"""A pass in the thread that heard of an event: one at a time, and what fails is done again."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.backoff import PollingSettings
from penstock.errors import StoreUnreachable
from penstock.log.store import Store
from penstock.outbox.sequencer import Pass
from penstock.testing import FakeClock
from penstock.worker.sequencing import SequencingService


class Told:
    """A sequencer that notes what it is told, and may fail."""

    def __init__(self) -> None:
        self.passes: list[Collection[int] | None] = []
        self.fails = False
        self.full = False

    def sequence(self, fence: object, told: Collection[int] | None = None, *, expects: bool = False) -> Pass:
        self.passes.append(told if told is None else set(told))
        if self.fails:
            raise StoreUnreachable("here", "gone")
        return Pass(1, 0, full=self.full)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def service(told: Told) -> SequencingService:
    nothing: Any = Store(None, None)  # type: ignore[arg-type]
    made = SequencingService(
        nothing,
        FakeClock(),
        polling=PollingSettings(),
        member=SimpleNamespace(fence=None),  # type: ignore[arg-type]
        is_told=lambda: True,
    )
    made._sequencer = told  # type: ignore[assignment]
    made._next_look = made._clock.monotonic() + 1.0
    return made


def test_what_was_heard_is_moved_at_once_and_wakes_nobody(service: SequencingService, told: Told) -> None:
    service.move(frozenset({7}))
    assert told.passes == [{7}]
    assert not service._bell.is_set()


def test_while_a_pass_is_under_way_it_is_left_to_the_thread(service: SequencingService, told: Told) -> None:
    with service._one_pass:
        service.move(frozenset({7}))
        assert told.passes == []
    assert service._bell.is_set()
    service._pass()
    assert told.passes == [{7}]


def test_a_pass_that_fails_is_followed_by_a_look_everywhere(service: SequencingService, told: Told) -> None:
    told.fails = True
    service.move(frozenset({7}))
    assert service._bell.is_set()
    told.fails = False
    service._pass()
    assert told.passes == [{7}, None]


def test_a_pass_that_was_not_all_is_gone_on_with_by_the_thread(
    service: SequencingService, told: Told
) -> None:
    told.full = True
    service._sleeps_until = service._next_look
    service.move(frozenset({7}))
    assert service._bell.is_set()


def test_after_a_stop_nothing_is_moved(service: SequencingService, told: Told) -> None:
    service._stopping.set()
    service.move(frozenset({7}))
    assert told.passes == []


def test_a_clock_that_shows_less_than_nothing_is_no_flood(told: Told) -> None:
    nothing: Any = Store(None, None)  # type: ignore[arg-type]
    clock = FakeClock()
    clock.monotonic = lambda: -3600.0  # type: ignore[method-assign]
    made = SequencingService(
        nothing,
        clock,
        polling=PollingSettings(),
        member=SimpleNamespace(fence=None),  # type: ignore[arg-type]
        is_told=lambda: True,
    )
    made._sequencer = told  # type: ignore[assignment]
    assert made._pass() >= -3600.0 + PollingSettings().shortest_seconds


def test_in_a_flood_one_slow_look_is_no_reason_to_pause_and_two_are(service: SequencingService) -> None:
    pauses = [service._pause_in_flood(seconds, moved=True) for seconds in (0.002, 0.1, 0.1, 0.002)]
    assert pauses == pytest.approx([0.001, 0.001, 0.05, 0.001])
