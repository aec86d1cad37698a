"""The process of a member, and whether a process of this machine is certainly dead.

A member on this host (same boot, same process namespace) whose process has ended can be replaced at once. Where that
cannot be known (no /proc), no process ever counts as dead and the lease decides.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from penstock.clock import Clock, host_ms, own_ms

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A process: its host, its number, and when it began (numbers are reused, start times are not)."""

    host: str
    pid: int
    started: str

    def is_surely_dead(self) -> bool:
        """Return whether it ran on this host and has ended."""
        return bool(self.host) and self.host == this_host() and _started(self.pid) not in (self.started, None)

    def is_stopped(self) -> bool:
        """Return whether it runs on this host and is stopped, by a signal or a debugger."""
        return bool(self.host) and self.host == this_host() and _stat(self.pid)[:1] in (["T"], ["t"])


def this_process() -> Process:
    """Return the calling process."""
    return Process(this_host(), os.getpid(), _started(os.getpid()) or "")


def this_host() -> str:
    """Return a name of this boot and process namespace, or "" when it cannot be known."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii")
        return f"{boot.strip()}/{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """Return the start tick of a process; "" when it does not exist or is a zombie, None if hidden."""
    fields = _stat(pid)
    if not fields:
        return None if _is_there(pid) else ""
    return "" if fields[0] in ("Z", "X") else fields[19]


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on; none if they cannot be read."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text("latin-1")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()  # the name before it may hold anything


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is another user's
    return True


def lease_clocks(clock: Clock) -> dict[str, int | str | None]:
    """Return arguments to check leases: the time of day may be set, so one host's members share a monotonic clock."""
    return {"now_ms": own_ms(clock), "host": this_host(), "host_ms": host_ms(clock)}
