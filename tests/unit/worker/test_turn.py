"""One turn at a time, by its own thread or by a guest; a write of the store is waited for outside of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from penstock import Outbox
from penstock.backoff import Backoff, PollingSettings
from penstock.errors import StoreUnreachable
from penstock.log.sql.heads import HeadKey
from penstock.membership.serving import Domain
from penstock.testing import FakeClock
from penstock.worker.delivery_loop import DeliveryLoop
from penstock.worker.turn import Turn, TurnSteps

GONE = StoreUnreachable("here", "gone")


class Work:
    """Notes the turns that are made; one of the own thread may write, and is the last but one."""

    def __init__(self) -> None:
        self.turn: Turn | None = None
        self.made: list[str] = []
        self.pause: float | None = 1.0  # of a guest's turn
        self.fails = False
        self.write: Callable[[], object] | None = None
        self.caught: list[Exception] = []

    def own(self, *, timed: bool) -> TurnSteps:
        assert self.turn is not None
        self.made.append("own")
        self.turn.stop()
        if self.write is not None:
            try:
                yield self.write
            except StoreUnreachable as exc:
                self.caught.append(exc)
        self.made.append("ended")
        return 0.0

    def guest(self, *, beside: bool) -> float | None:
        self.made.append("beside" if beside else "guest")
        if self.fails:
            raise GONE
        return self.pause

    def end(self) -> None:
        self.made.append("last")


class Troubles(Backoff):
    """Notes the errors that are waited for."""

    def __init__(self) -> None:
        super().__init__("test", PollingSettings())
        self.errors: list[Exception] = []

    def trouble(self, error: Exception) -> float:
        self.errors.append(error)
        return 0.0


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def troubles() -> Troubles:
    return Troubles()


@pytest.fixture
def turn(work: Work, troubles: Troubles) -> Turn:
    work.turn = Turn(work, FakeClock(), troubles)
    return work.turn


def test_a_guest_makes_a_turn_and_wakes_nobody(turn: Turn, work: Work) -> None:
    assert turn.take()
    assert work.made == ["guest"]
    assert not turn.posted.is_set()


def test_what_is_due_before_the_own_thread_would_wake_is_to_be_posted(turn: Turn) -> None:
    turn._sleeps_until = turn._clock.monotonic() + 5.0
    assert not turn.take()


def test_a_turn_under_way_is_not_disturbed(turn: Turn, work: Work) -> None:
    with turn._lock:
        assert not turn.take()
    assert work.made == []


def test_a_turn_that_may_not_be_made_now_is_to_be_posted(turn: Turn, work: Work) -> None:
    work.pause = None
    assert not turn.take()


def test_after_a_stop_no_guest_has_a_turn_and_the_own_thread_has_the_last(turn: Turn, work: Work) -> None:
    turn.stop()
    assert not turn.take()
    turn._run()
    assert work.made == ["last"]


def test_errors_of_guests_make_the_own_thread_wait_once(turn: Turn, work: Work, troubles: Troubles) -> None:
    work.fails = True
    assert not turn.take()
    assert not turn.take()
    turn._make(work.own(timed=False))
    assert troubles.errors == [GONE]
    assert work.made == ["guest", "guest"], "instead of its turn"


def test_a_guests_turn_that_goes_well_ends_the_trouble_of_the_one_before(
    turn: Turn, work: Work, troubles: Troubles
) -> None:
    work.fails = True
    assert not turn.take()
    work.fails = False
    assert turn.take()
    turn._run()
    assert troubles.errors == []


def test_while_the_store_writes_a_guest_may_have_the_turn(turn: Turn, work: Work) -> None:
    seen = list[bool]()

    def write() -> None:
        seen.append(turn.is_writing)
        turn._stopping.clear()
        assert turn.take()
        turn.stop()

    work.write = write
    turn._run()
    assert work.made == ["own", "beside", "ended", "last"]
    assert seen == [True]
    assert not turn.is_writing


def test_what_a_write_fails_with_is_raised_in_the_turn(turn: Turn, work: Work) -> None:
    def write() -> None:
        raise GONE

    work.write = write
    turn._run()
    assert work.caught == [GONE]
    assert work.made == ["own", "ended", "last"]


def test_a_guest_that_fails_beside_a_write_does_not_end_the_turn(turn: Turn, work: Work, troubles: Troubles) -> None:
    def write() -> None:
        turn._stopping.clear()
        work.fails = True
        assert not turn.take()
        turn.stop()

    work.write = write
    turn._run()
    assert work.made == ["own", "beside", "ended", "last"]
    assert troubles.errors == []


# --- the delivery loop -------------------------------------------------------------------------

ENDS = {HeadKey(1, 0): 1}


@pytest.fixture
def loop() -> Iterator[DeliveryLoop]:
    outbox = Outbox("memory://")
    outbox.migrate()
    yield outbox._worker(None, dedicated=False)._delivery
    outbox.close()


def test_a_few_records_are_handed_out_here_and_wake_nobody(loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = list[bool]()

    def guest(*, beside: bool) -> float:
        turns.append(beside)
        return 1.0

    monkeypatch.setattr(loop, "guest", guest)
    loop.grown(ENDS, few=True)
    assert turns == [False]
    assert not loop._turn.posted.is_set()
    loop.grown(ENDS)
    assert turns == [False]
    assert loop._turn.posted.is_set(), "many are for the own thread"


class Served:
    """A group with nothing to do, as the loop asks for it."""

    def __init__(self) -> None:
        self.units: object = None
        self.in_flight = 0
        self.delivery = SimpleNamespace(is_plain=True, partitions=SimpleNamespace(needs_check=False))


def others(loop: DeliveryLoop, served: Served, what: str) -> None:
    """Let the loop have something to write beside the results that it waits for."""
    match what:
        case "attention":
            loop._groups.attend([Domain(1, 1)])
        case "a new group":
            loop._groups._new.append(None)  # type: ignore[arg-type]
        case "a check":
            served.delivery.partitions.needs_check = True
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
    monkeypatch.setattr(loop, "_take_in", lambda: None)
    monkeypatch.setattr(loop, "_hand_out", lambda beside: 1.0)
    assert loop.guest(beside=True) == (None if what else 1.0)
    loop._groups._groups.clear()


def test_beside_a_settling_no_partition_changes_hands(loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked for after the turn has begun waits until the settling has ended."""
    exchanges = list[bool]()
    monkeypatch.setattr(loop._groups, "exchange", lambda: exchanges.append(True))
    loop.guest(beside=True)
    assert exchanges == []
    loop.guest(beside=False)
    assert exchanges == [True]


def test_beside_a_settling_nothing_goes_out_that_has_to_be_written_down_first(
    loop: DeliveryLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes_of = list[bool]()
    monkeypatch.setattr(loop._groups, "may_start", lambda: True)
    monkeypatch.setattr(loop._groups, "is_live", lambda: True)
    monkeypatch.setattr(loop, "_start", lambda damage, *, writes: writes_of.append(writes))
    loop.guest(beside=True)
    loop.guest(beside=False)
    assert writes_of == [False, True]
