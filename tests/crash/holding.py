"""Holding a thread at a named point until the test lets it go: races become scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from penstock import points
from tests.crash.waiting import LONGEST_SECONDS


class Hold:
    """A thread that is held, or will be."""

    def __init__(self) -> None:
        self._reached, self._let_go = Event(), Event()

    def wait(self) -> None:
        """Return when the thread has come to the point."""
        assert self._reached.wait(LONGEST_SECONDS), "nobody came to the point"

    def let_go(self) -> None:
        """Let the thread go on."""
        self._let_go.set()

    def __call__(self) -> None:
        self._reached.set()
        assert self._let_go.wait(LONGEST_SECONDS), "the test forgot to let go"


@contextmanager
def held_at(point: str) -> Iterator[Hold]:
    """Hold the next thread that comes to a point, at the latest until the block ends."""
    hold = Hold()
    points.arm(point, hold)
    try:
        yield hold
    finally:
        hold.let_go()
