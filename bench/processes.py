"""The CPU that other processes use.

Invariant: a tree's total never falls when a child ends, because the kernel adds the time of a child that
was waited for to its parent. So the difference of two readings counts the children that came and went
between them as well.
"""

import os
import time
from contextlib import suppress
from typing import NamedTuple

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


class _Seen(NamedTuple):
    """A process at one look: its own CPU, and that of the children it has waited for."""

    parent: int
    own: float
    waited: float


class Spending:
    """What a tree uses from now on, summed up look by look, process by process.

    Two totals of a tree cannot be subtracted when a process outlives its parent: it leaves the tree, and its
    whole past with it. Here only growth counts, so the sum never falls. What such a process uses after the
    last look before it left is not seen: look often.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._seen = self._look()
        self._total = 0.0

    def seconds(self) -> float:
        """Look again, and return the CPU used since the beginning."""
        now, before = self._look(), self._seen
        known = dict.fromkeys(now, 0.0)  # of children that ended: what was counted of each while it lived
        for pid, seen in before.items():
            if pid not in now and seen.parent in known:
                known[seen.parent] += seen.own + seen.waited
        for pid, seen in now.items():
            earlier = before.get(pid, _Seen(seen.parent, 0.0, 0.0))
            self._total += max(0.0, seen.own - earlier.own)
            self._total += max(0.0, seen.waited - earlier.waited - known[pid])
        self._seen = now
        return self._total

    def _look(self) -> dict[int, _Seen]:
        found: dict[int, _Seen] = {}
        for process in (self._root, *self._root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # it ended meanwhile
                times = process.cpu_times()
                waited = float(times.children_user + times.children_system)
                own = _living(process.pid, float(times.user + times.system))
                found[process.pid] = _Seen(process.ppid(), own, waited)
        return found


def _spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    ended = float(times.children_user + times.children_system)
    return _living(process.pid, float(times.user + times.system)) + ended


def _living(pid: int, ticks_seconds: float) -> float:
    # Linux makes a process' CPU clock from its pid; /proc rounds to 10 ms, which ten server processes sum up.
    with suppress(OSError, AttributeError, OverflowError):
        return time.clock_gettime_ns((~pid << 3) | 2) / 1e9
    return ticks_seconds
