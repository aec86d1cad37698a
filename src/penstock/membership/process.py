"""Which process a member is, and whether a process of this machine is dead for certain.

A member on this very host whose process has gone can be replaced at once, without waiting for its lease.
"This host" means the same boot and the same process namespace; where that cannot be known (no /proc), nobody
is ever judged dead and the lease decides.
"""

import os
from dataclasses import dataclass
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Process:
    """A process: where it runs, its number, and when it began (numbers are given again, moments are not)."""

    host: str
    pid: int
    started: str

    def is_surely_dead(self) -> bool:
        """Return whether it ran on this host and is no more."""
        return bool(self.host) and self.host == _host() and _started(self.pid) != self.started


def this_process() -> Process:
    """Return the process that asks."""
    return Process(_host(), os.getpid(), _started(os.getpid()))


def _host() -> str:
    """Return a name of this boot and process namespace, or nothing when there is none."""
    try:
        return f"{_BOOT.read_text('ascii').strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return the kernel's start tick of a process; nothing when it is not there, or only its corpse is."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("latin-1")
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    return "" if state in ("Z", "X") else fields[18]
