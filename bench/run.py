"""What one execution of a variant is handed: its size, its helpers, and how it names other processes."""

import re
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from bench.words import plain

T = TypeVar("T")

_PROCESS_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class Size:
    """A number that depends on how much time the run may take."""

    quick: int
    full: int


def pick(size: int | Size, full: bool) -> int:
    """Return the number that counts in a quick or a full run."""
    if isinstance(size, int):
        return size
    return size.full if full else size.quick


class Shared:
    """Things that all variants of one case share, each opened at its first use and closed with the case."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}  # of what was used, by name
        self._stack = ExitStack()
        self._open: dict[Hashable, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.clear()
        self._stack.close()

    def get(self, key: Hashable, opened: Callable[[], AbstractContextManager[T]]) -> T:
        """Return the thing under a key, opening it first when it is not there."""
        if key not in self._open:
            self._open[key] = self._stack.enter_context(opened())
        thing: T = self._open[key]
        return thing


@dataclass(kw_only=True)
class Run:
    """One execution of one variant. Made by the runner; setup and body read it."""

    full: bool
    records: int
    round: int  # 0 is the warm-up, whose numbers are thrown away
    shared: Shared = field(default_factory=Shared)
    watched: dict[str, list[int]] = field(default_factory=dict)

    def size(self, *, quick: int, full: int) -> int:
        """Return one number or the other, as the run is quick or full."""
        return full if self.full else quick

    def once(self, opened: "Callable[[Run], AbstractContextManager[T]]") -> T:
        """Return what a context manager gives, entered once per case: a server, a filled table."""
        return self.shared.get(opened, lambda: opened(self))

    def note(self, name: str, version: str) -> None:
        """Write down the version of something that the numbers depend on."""
        self.shared.versions[name] = plain(version)

    def watch(self, name: str, pid: int) -> None:
        """Count the CPU of another process and its descendants too, from the setup on.

        It is added to `cpu_seconds` and shown alone as `<name>_cpu_us`. Several pids may share a name; the
        same one again counts once. Raises ValueError for a name that makes no measure.
        """
        if not _PROCESS_NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot begin the name of a measure; use lower case and underscores")
        pids = self.watched.setdefault(name, [])
        if pid not in pids:
            pids.append(pid)
