"""A pass and a turn in the thread that heard of an event: one at a time, and what fails is done again."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import Outbox
from penstock.backoff import PollingSettings
from penstock.errors import StoreUnreachable
from penstock.log.sql.heads import HeadKey
from penstock.log.store import Store
from penstock.membership.serving import Domain
from penstock.outbox.sequencer import Pass
from penstock.testing import FakeClock
from penstock.worker.delivery_loop import DeliveryLoop
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


@pytest.fixture
def loop() -> Iterator[DeliveryLoop]:
    outbox = Outbox("memory://")
    outbox.migrate()
    yield outbox._worker(None, dedicated=False)._delivery
    outbox.close()


def turns_of(loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch, pause: float = 0.0) -> list[bool]:
    turns = list[bool]()

    def turn(*, settles: bool = True, timed: bool = False) -> float:
        turns.append(settles)
        if pause < 0:
            raise StoreUnreachable("here", "gone")
        return pause

    monkeypatch.setattr(loop, "_turn", turn)
    return turns


ENDS = {HeadKey(1, 0): 1}


def test_a_few_records_are_handed_out_here_and_wake_nobody(
    loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = turns_of(loop, monkeypatch, pause=1.0)
    loop.grown(ENDS, few=True)
    assert turns == [False], "without settling"
    assert not loop._wake.is_set()
    loop.grown(ENDS)
    assert turns == [False]
    assert loop._wake.is_set(), "many are for the loop's own thread"


def test_what_is_due_before_the_loop_would_wake_wakes_it(
    loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns_of(loop, monkeypatch, pause=1.0)
    loop._sleeps_until = loop._clock.monotonic() + 5.0
    loop.grown(ENDS, few=True)
    assert loop._wake.is_set()


def test_a_turn_under_way_is_not_disturbed(loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = turns_of(loop, monkeypatch)
    with loop._one_turn:
        loop.grown(ENDS, few=True)
    assert turns == []
    assert loop._wake.is_set()


class Served:
    """A group with nothing to do, as the loop asks for it."""

    def __init__(self) -> None:
        self.units: object = None
        self.in_flight = 0
        self.delivery = SimpleNamespace(is_plain=True, needs_check=False)


def others(loop: DeliveryLoop, served: Served, what: str) -> None:
    """Let the loop have something to write beside the results that it waits for."""
    match what:
        case "attention":
            loop._groups.attend([Domain(1, 1)])
        case "a new group":
            loop._groups._new.append(None)  # type: ignore[arg-type]
        case "a check":
            served.delivery.needs_check = True
        case "an owner was lost":
            served.delivery.is_plain = False
        case "units":
            served.units = object()
        case "a lapse":
            loop._groups._lease.see(-1)


CASES = ["", "attention", "a new group", "a check", "an owner was lost", "units", "a lapse"]


@pytest.mark.parametrize("what", CASES)
def test_beside_a_settling_nothing_is_handed_out_where_a_turn_may_have_to_write(
    loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    served: Any = Served()
    loop._groups._groups["g", "events"] = served
    others(loop, served, what)
    turns = turns_of(loop, monkeypatch, pause=1.0)
    with loop._one_turn, loop._aside():
        loop.grown(ENDS, few=True)
        assert loop._is_settling
        assert turns == ([] if what else [False])
        assert loop._wake.is_set() == bool(what)
    loop._groups._groups.clear()


def test_beside_a_settling_no_partition_changes_hands(
    loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked for after the turn has begun waits until the settling has ended."""
    exchanges = list[bool]()
    monkeypatch.setattr(loop._groups, "exchange", lambda: exchanges.append(loop._is_settling))
    with loop._one_turn, loop._aside():
        loop.grown(ENDS, few=True)
    assert exchanges == []
    loop.grown(ENDS, few=True)
    assert exchanges == [False]


def test_what_a_turn_here_fails_with_is_the_loops_trouble(
    loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns_of(loop, monkeypatch, pause=-1.0)
    loop.grown(ENDS, few=True)
    assert loop._wake.is_set()
    loop.grown(ENDS, few=True)
    failure = loop._failure
    assert isinstance(failure, StoreUnreachable)
    troubles = list[Exception]()

    def trouble(error: Exception) -> float:
        troubles.append(error)
        loop._stopping.set()
        return 0.0

    monkeypatch.setattr(loop._backoff, "trouble", trouble)
    loop._run()
    assert troubles == [failure], "it waits once, however many turns have failed"
    assert loop._failure is None


def test_a_turn_here_that_goes_well_ends_the_trouble_of_the_one_before(
    loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns_of(loop, monkeypatch, pause=-1.0)
    loop.grown(ENDS, few=True)
    turns_of(loop, monkeypatch, pause=1.0)
    loop.grown(ENDS, few=True)
    assert loop._failure is None


def test_after_a_stop_nothing_is_handed_out_here(loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = turns_of(loop, monkeypatch)
    loop.stop(0.0)
    loop.grown(ENDS, few=True)
    assert turns == []


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
