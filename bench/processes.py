"""The CPU that other processes use.

Invariant: a tree's total never falls when a child ends, because the kernel adds the time of a child that
was waited for to its parent. So the difference of two readings counts the children that came and went
between them as well.
"""

import os
import time
from contextlib import suppress

import psutil

from bench.errors import NotMeasured

_TRIES = 5


class ProcessTree:
    """One process and all its descendants, wherever they are in their lives.

    What escapes: a descendant whose parent died before it and that ended itself. The time of those that
    ended is known to a hundredth of a second, that of the living to the nanosecond on Linux.
    """

    def __init__(self, name: str, pid: int) -> None:
        try:
            self._root = psutil.Process(pid)
            self.is_our_child = self._root.ppid() == os.getpid()
        except psutil.NoSuchProcess as exc:
            raise NotMeasured(f"the process {name} ({pid}) is gone before the measurement") from exc
        self.name = name
        self.pid = pid

    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds of the tree so far, or None when its root has been waited for."""
        for _ in range(_TRIES):
            try:
                members = self._members()
                total = sum(_spent(member) for member in members)
                # One that ended while we read counts twice or not at all: then read again.
                if members == self._members():
                    return total
            except psutil.NoSuchProcess:
                if not self._root.is_running():
                    return None
        return total if self._root.is_running() else None

    def _members(self) -> list[psutil.Process]:
        return [*self._root.children(recursive=True), self._root]


def _spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    ended = float(times.children_user + times.children_system)
    return _living(process.pid, float(times.user + times.system)) + ended


def _living(pid: int, ticks_seconds: float) -> float:
    # Linux makes a process' CPU clock from its pid; /proc rounds to 10 ms, which ten server processes sum up.
    with suppress(OSError, AttributeError, OverflowError):
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    return ticks_seconds
