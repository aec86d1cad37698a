"""Waiting for a condition: looks again and again until it holds, and fails with its name when it does not."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_SECONDS = 60.0  # generous: the machine may be busy, and only a broken program waits so long


def wait_until(condition: Callable[[], object], what: str, *, seconds: float = LONGEST_SECONDS) -> None:
    """Return as soon as `condition` is true; fail with `what` after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s in vain until {what}"
        time.sleep(0.005)
