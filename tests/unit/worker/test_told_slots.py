"""A sequencer that is told where something was staged still looks everywhere, however often it is told."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from penstock.backoff import PollingSettings
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

    def sequence(self, fence: object, told: Collection[int] | None = None) -> Pass:
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
