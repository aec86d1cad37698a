"""The facts a number cannot be read without: machine, Python, commit, and how busy it was."""

import os
import platform
import sqlite3
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from bench.home import PAGES, ROOT
from bench.words import plain


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where and when a run took place."""

    cpu: str
    cores: int
    memory_mb: int
    kernel: str
    python: str
    sqlite: str
    date: str
    commit: str
    dirty: bool
    load_average: tuple[float, float, float]

    def facts(self) -> list[tuple[str, str]]:
        """Return the header's lines as name and text."""
        tree = ", with changes not committed" if self.dirty else ""
        return [
            ("cpu", f"{self.cpu}, {self.cores} cores"),
            ("memory", f"{self.memory_mb:,} MB"),
            ("kernel", self.kernel),
            ("python", self.python),
            ("sqlite", self.sqlite),
            ("date", self.date),
            ("commit", self.commit + tree),
            ("load average", " ".join(f"{load:.2f}" for load in self.load_average)),
        ]


def look() -> Machine:
    """Return the facts of this machine now."""
    return Machine(
        cpu=plain(_cpu()),
        cores=_usable_cores(),
        memory_mb=psutil.virtual_memory().total // 1_000_000,
        kernel=plain(f"{platform.system()} {platform.release()}"),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        sqlite=sqlite3.sqlite_version,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=_git("rev-parse", "--short=12", "HEAD") or "no commit known",
        dirty=bool(_git("status", "--porcelain", "--", ".", f":(exclude){PAGES}")),
        load_average=os.getloadavg(),
    )


def let_rest(seconds: float = 180.0) -> None:
    """Wait until most of the machine is idle, so that the case before is not in the numbers of the next.

    After so many seconds somebody else keeps it busy; the load average that is printed says so.
    """
    until = time.monotonic() + seconds
    while os.getloadavg()[0] > _usable_cores() / 2 and time.monotonic() < until:
        time.sleep(1)


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        name, _, model = line.partition(":")
        if name.strip() == "model name":
            return model.strip()
    return platform.processor() or platform.machine()


def _git(*args: str) -> str:
    try:
        done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
