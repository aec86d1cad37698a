"""A sequencer that is told where something was staged still looks everywhere, however often it is told."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.backoff import PollingSettings
from penstock.errors import StoreUnreachable
from penstock.log.store import Store
from penstock.outbox.sequencer import Pass
from penstock.testing import FakeClock
from penstock.worker.sequencing import SequencingService

POLLING = PollingSettings(shortest_seconds=0.05, longest_seconds=1.0)
PASS, PASSES = timedelta(milliseconds=1), 500


class Busy:
    """A sequencer that moves something in each pass, and while it does more is staged that it is told of."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.service: SequencingService | None = None
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
    busy, member = Busy(clock), SimpleNamespace(fence=None)
    nothing: Any = Store(None, None)  # type: ignore[arg-type]
    service = SequencingService(nothing, clock, polling=POLLING, member=member)  # type: ignore[arg-type]
    service._sequencer, busy.service = busy, service  # type: ignore[assignment]
    service._run()
    pauses = [later - former for former, later in zip(busy.looks, busy.looks[1:], strict=False)]
    assert busy.looks[0] == 0
    assert len(pauses) >= PASSES // 60
    assert max(pauses) <= 51, "after the shortest pause, as if nobody had told it anything"


def test_while_a_bell_is_heard_it_looks_as_seldom_as_when_nothing_comes() -> None:
    clock = FakeClock()
    busy, member = Busy(clock), SimpleNamespace(fence=None)
    nothing: Any = Store(None, None)  # type: ignore[arg-type]
    service = SequencingService(
        nothing,
        clock,
        polling=POLLING,
        member=member,  # type: ignore[arg-type]
        is_told=lambda: True,
    )
    service._sequencer, busy.service = busy, service  # type: ignore[assignment]
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
    failing, member = Failing(clock), SimpleNamespace(fence=None)
    nothing: Any = Store(None, None)  # type: ignore[arg-type]
    service = SequencingService(
        nothing,
        clock,
        polling=POLLING,
        member=member,  # type: ignore[arg-type]
        sequenced=said.append,
    )
    service._sequencer, failing.service = failing, service  # type: ignore[assignment]
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
    flooded, member = Flooded(clock, finds=5), SimpleNamespace(fence=None)
    nothing: Any = Store(None, None)  # type: ignore[arg-type]
    service = SequencingService(
        nothing,
        clock,
        polling=POLLING,
        member=member,  # type: ignore[arg-type]
        is_told=lambda: True,
    )
    service._sequencer, flooded.service = flooded, service  # type: ignore[assignment]
    service._bell = Waking(clock)  # type: ignore[assignment]
    service.flooded(0.02)
    service._run()
    pauses = [later - former for former, later in zip(flooded.at, flooded.at[1:], strict=False)]
    assert pauses[:8] == pytest.approx([0.001] * 5 + [0.002, 0.004, 0.004])
    assert pauses[-1] > 0.05, "when the flood is over, it relies on the bell again"


class Waking:
    """An event whose waits move the clock, and end at once."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def wait(self, seconds: float) -> None:
        self._clock.advance(timedelta(seconds=seconds))
