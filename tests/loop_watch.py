"""How long each step holds the event loop of a port, in CPU time of its thread.

A busy neighbour makes the same work take more CPU time, too. So the bound grows by as much as a fixed piece
of work takes longer here than where the bound was set, and by what is noise there (25 %). And an act is
repeated if a step of it was long: noise comes once, what holds the loop comes each time.
"""

import asyncio
from collections.abc import Callable
from threading import Event, get_ident
from typing import Any, TypeVar

import pytest

from penstock.clock import SYSTEM, cpu_seconds

T = TypeVar("T")
LONGEST_SECONDS = 0.010
HALF = 0.55  # and what every step costs beside
_NOISE, _USUAL_SECONDS, _USUAL_COPY_SECONDS = 1.25, 0.0022, 0.0128


def longest_seconds() -> float:
    """Return how long a step may hold a loop on this machine, as busy as it is now."""

    def objects() -> float:
        before = cpu_seconds()
        for number in range(30_000):
            _ = {"number": str(number)}
        return (cpu_seconds() - before) / _USUAL_SECONDS

    def bytes_copied() -> float:
        before = cpu_seconds()
        bytes(bytearray(16 << 20))
        return (cpu_seconds() - before) / _USUAL_COPY_SECONDS

    slower = max(min(work() for _ in range(3)) for work in (objects, bytes_copied))
    return LONGEST_SECONDS * _NOISE * max(1.0, slower)


class LoopWatch:
    """The CPU seconds of each step of a loop."""

    def __init__(self, patch: pytest.MonkeyPatch, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        """`loop`: returns the loop of the port; one of asyncio's own, not uvloop's."""
        self._loop, self.steps, self.began = loop, list[float](), SYSTEM.monotonic()
        self._thread = 0
        run = asyncio.Handle._run
        patch.setattr(asyncio.Handle, "_run", lambda handle: self._run(handle, run))

    def clear(self) -> None:
        """Begin to count."""
        self._end_step()
        self.steps, self.began = [], SYSTEM.monotonic()

    def hold(self, act: Callable[[], T], *, one_request: bool = True) -> T:
        """Act up to three times, until `check` passes; return the result. Raises what `check` raises."""
        for left in (2, 1, 0):
            self.clear()
            found = act()
            try:
                self.check(one_request=one_request)
            except AssertionError:
                if not left:
                    raise
            else:
                break
        return found

    def check(self, *, one_request: bool = True) -> None:
        """Fail if a step was long, or those of one request together took more than half of the time."""
        self._end_step()
        passed = SYSTEM.monotonic() - self.began
        assert max(self.steps) < longest_seconds(), f"a step of {max(self.steps) * 1000:.1f} ms"
        busy = sum(self.steps) / passed
        is_short = not one_request or sum(self.steps) < 2 * LONGEST_SECONDS
        assert busy < HALF or is_short, f"{busy:.0%} of the loop"

    def _run(self, handle: Any, run: Any) -> None:
        if get_ident() != self._thread:
            run(handle)
            return
        before = cpu_seconds()
        run(handle)
        self.steps.append(cpu_seconds() - before)

    def _end_step(self) -> None:
        """Wait until the step that sent an answer has ended: it counts, too."""
        ended = Event()

        def end() -> None:
            self._thread = get_ident()
            ended.set()

        self._loop().call_soon_threadsafe(end)
        assert ended.wait(30)
