"""The mover hears the bell, moves what it is told of, and looks everywhere however often it is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.backoff import PollingSettings
from penstock.database.bell_listener import LOGGED
from penstock.errors import StoreUnreachable
from penstock.log.store import Store
from penstock.outbox.sequencer import Pass
from penstock.testing import FakeClock
from penstock.worker.mover import Mover

WORD = "staged 7"
POLLING = PollingSettings(shortest_seconds=0.05, longest_seconds=1.0)
PASS, PASSES = timedelta(milliseconds=1), 500


class Bell:
    """A bell that is heard; a wait for it moves the clock, unless there is something to hear."""

    hears = True

    def __init__(self, clock: FakeClock, words: Sequence[Sequence[str]] = ()) -> None:
        self._clock, self.words = clock, list(words)
        self.waits: list[float] = []
        self.is_woken = self.is_closed = False
        self.emptied: Callable[[], object] = lambda: None

    def start(self) -> None: ...

    def wait(self, seconds: float) -> Sequence[str]:
        self.waits.append(seconds)
        if self.words:
            return self.words.pop(0)
        self.emptied()
        if not self.is_woken:
            self._clock.advance(timedelta(seconds=seconds))
        self.is_woken = False
        return []

    def wake(self) -> None:
        self.is_woken = True

    def close(self) -> None:
        self.is_closed = True


def mover_of(clock: FakeClock, sequencer: Any, bell: Bell | None = None, **more: Any) -> Mover:
    """Return a mover of a member that another thread keeps alive."""
    nothing: Any = Store(None, None)  # type: ignore[arg-type]
    member: Any = SimpleNamespace(fence=None)
    made = Mover(nothing, clock, polling=POLLING, member=member, bell=bell, **more)  # type: ignore[arg-type]
    made._sequencer, silent = sequencer, SimpleNamespace(notifies=False)
    made._database = SimpleNamespace(dialect=silent)  # type: ignore[assignment]
    return made


class Busy:
    """A sequencer that moves something in each pass, and while it does more is staged that it is told of."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.service: Mover | None = None
        self.looks: list[int] = []  # the passes that looked everywhere
        self.passes = 0

    def sequence(self, fence: object, told: Collection[int] | None = None, *, expects: bool = False) -> Pass:
        assert self.service is not None
        if told is None:
            self.looks.append(self.passes)
        self.passes += 1
        self.clock.advance(PASS)
        if self.passes == PASSES:
            self.service._stopping.set()
        self.service.ring(frozenset({7}))
        return Pass(1, 0, full=False)


def test_what_nobody_told_of_is_found_while_told_ones_come_without_a_pause() -> None:
    """A process without a bell, or a time that has come: it must not wait until the others are quiet."""
    clock = FakeClock()
    busy = Busy(clock)
    busy.service = service = mover_of(clock, busy)
    service._run()
    pauses = [later - former for former, later in zip(busy.looks, busy.looks[1:], strict=False)]
    assert busy.looks[0] == 0
    assert len(pauses) >= PASSES // 60
    assert max(pauses) <= 51, "after the shortest pause, as if nobody had told it anything"


def test_while_a_bell_is_heard_it_looks_as_seldom_as_when_nothing_comes() -> None:
    clock = FakeClock()
    busy = Busy(clock)
    busy.service = service = mover_of(clock, busy, Bell(clock))
    service._run()
    assert len(busy.looks) <= 5, "after 0.1, 0.2, 0.4 seconds and so on"
    assert busy.looks[0] == 0


class Failing(Busy):
    """One whose first pass ends in doubt."""

    def sequence(self, fence: object, told: Collection[int] | None = None, *, expects: bool = False) -> Pass:
        assert self.service is not None
        self.passes += 1
        if self.passes == 1:
            raise StoreUnreachable("here", "gone")
        self.looks += [self.passes] if told is None else []
        self.service._stopping.set()
        return Pass(0, 0, full=False)


def test_after_a_failure_it_looks_everywhere_and_says_so_though_it_moves_nothing() -> None:
    """A commit may be in doubt: then somebody has to look at the log."""
    clock, said = FakeClock(), list[Pass]()
    failing = Failing(clock)
    failing.service = service = mover_of(clock, failing, moved=said.append)
    service.ring(frozenset({7}))
    service._run()
    assert (failing.looks, said) == ([2], [Pass(0, 0, full=False)])


class Flooded(Busy):
    """One that nobody rings for: it finds something in the first passes, then nothing."""

    def __init__(self, clock: FakeClock, finds: int) -> None:
        super().__init__(clock)
        self.finds, self.at = finds, list[float]()

    def sequence(self, fence: object, told: Collection[int] | None = None, *, expects: bool = False) -> Pass:
        assert self.service is not None
        self.passes += 1
        self.at.append(self.clock.monotonic())
        if self.passes == self.finds + 8:
            self.service._stopping.set()
        return Pass(int(self.passes <= self.finds), 0, full=False)


def test_in_a_flood_it_looks_by_itself_and_less_often_once_it_finds_nothing() -> None:
    clock = FakeClock()
    flooded = Flooded(clock, finds=5)
    flooded.service = service = mover_of(clock, flooded, Bell(clock))
    service.flooded(0.02)
    service._run()
    pauses = [later - former for former, later in zip(flooded.at, flooded.at[1:], strict=False)]
    assert pauses[:8] == pytest.approx([0.001] * 5 + [0.002, 0.004, 0.004])
    assert pauses[-1] > 0.05, "when the flood is over, it relies on the bell again"


class Moving:
    """A sequencer that notes where it looks, and may fail or leave something."""

    def __init__(self) -> None:
        self.passes: list[Collection[int] | None] = []
        self.fails = self.full = False

    def sequence(self, fence: object, slots: Collection[int] | None = None, *, expects: bool = False) -> Pass:
        self.passes.append(slots if slots is None else set(slots))
        if self.fails:
            self.fails = False
            raise StoreUnreachable("here", "gone")
        return Pass(1, 0, full=self.full)


def made_to_hear(*words: Sequence[str], **more: Any) -> tuple[Mover, Moving, Bell]:
    """Return a mover that ends when it has heard these words; its first look has been made."""
    clock, moving = FakeClock(), Moving()
    bell = Bell(clock, words)
    mover = mover_of(clock, moving, bell, **more)
    mover._next_look = clock.monotonic() + 1.0
    bell.emptied = mover._stopping.set
    return mover, moving, bell


def test_what_is_heard_is_moved_at_once() -> None:
    mover, moving, bell = made_to_hear([WORD])
    mover._run()
    assert moving.passes == [{7}]
    assert bell.waits[0] == pytest.approx(1.0), "no longer than to the next look"
    assert bell.is_closed


def test_what_others_have_logged_is_passed_on_and_a_test_is_not() -> None:
    logged = list[bool]()
    mover, moving, _ = made_to_hear([LOGGED], ["test 1"], logged=lambda: logged.append(True))
    mover._run()
    assert logged == [True]
    assert moving.passes == []


def test_a_text_without_slots_makes_it_look_everywhere() -> None:
    mover, moving, _ = made_to_hear([WORD, ""])
    mover._run()
    assert moving.passes == [None]


def test_a_pass_that_fails_is_followed_by_a_look_everywhere() -> None:
    mover, moving, _ = made_to_hear([WORD])
    moving.fails = True
    mover._run()
    assert moving.passes == [{7}, None]


def test_a_pass_that_was_not_all_is_followed_by_another_without_a_wait() -> None:
    mover, moving, bell = made_to_hear([WORD])
    moving.full = True
    mover._next_look = mover._clock.monotonic()  # only looks go on: see `_sequence`
    mover._run()
    assert bell.waits == [0.0, 0.0]


def test_a_ring_of_this_process_ends_the_wait() -> None:
    mover, _, bell = made_to_hear()
    mover.ring(frozenset({7}))
    assert bell.is_woken


def test_after_a_stop_nothing_is_moved() -> None:
    mover, moving, _ = made_to_hear([WORD])
    mover._stopping.set()
    mover._run()
    assert moving.passes == []


def test_a_clock_that_shows_less_than_nothing_is_no_flood() -> None:
    clock = FakeClock()
    clock.monotonic = lambda: -3600.0  # type: ignore[method-assign]
    made = mover_of(clock, Moving(), Bell(clock))
    assert made._pass() >= -3600.0 + PollingSettings().shortest_seconds


def test_in_a_flood_one_slow_look_is_no_reason_to_pause_and_two_are() -> None:
    mover, _, _ = made_to_hear()
    pauses = [mover._pause_in_flood(seconds, moved=True) for seconds in (0.002, 0.1, 0.1, 0.002)]
    assert pauses == pytest.approx([0.001, 0.001, 0.05, 0.001])
