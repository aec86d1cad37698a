"""How much memory a process came to hold while something ran; and memory that is there before it does."""

import os
import tempfile
from pathlib import Path
from typing import Self

from bench.errors import NotMeasured

_MIB = 1 << 20
_RESET_PEAK = "5"  # what the kernel's clear_refs file wants to hear


class Resident:
    """The resident memory of one process over a `with` block, peak included; Linux only.

    The kernel keeps the peak, so nothing samples and no moment is missed. Raises NotMeasured where the
    kernel does not let us ask.
    """

    def __init__(self, pid: int | None = None) -> None:
        self._folder = Path("/proc") / ("self" if pid is None else str(pid))
        self._before = 0.0

    def __enter__(self) -> Self:
        try:
            (self._folder / "clear_refs").write_text(_RESET_PEAK)
            self._before = self._read("VmRSS")
        except OSError as exc:
            raise NotMeasured(f"memory needs Linux's {self._folder}/clear_refs ({exc.strerror})") from exc
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def peak_mb(self) -> float:
        """Return the most it held since the block began, in megabytes of a million bytes."""
        return self._read("VmHWM")

    def now_mb(self) -> float:
        """Return what it holds at this moment."""
        return self._read("VmRSS")

    def growth_mb(self) -> float:
        """Return the peak minus what it held when the block began."""
        return max(0.0, self.peak_mb() - self._before)

    def _read(self, field: str) -> float:
        for line in (self._folder / "status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == field:
                return int(rest.split()[0]) * 1024 / 1_000_000
        raise NotMeasured(f"{self._folder}/status has no {field}")


def touch_page_cache(size: int) -> None:
    """Fill that many bytes of the page cache and free them: call it last in the setup of what writes files.

    A virtual machine may give memory back to its host once it has been free for some seconds; who writes
    there next pays for getting it again, seven times the system time of the write itself. Whoever is measured
    after a pause would pay, and not who is measured behind another.
    """
    zeros, left = bytes(_MIB), size
    with tempfile.TemporaryFile(dir=os.getcwd()) as file:
        while left > 0:
            left -= file.write(zeros[:left])
        file.flush()
