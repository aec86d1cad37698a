"""Saying how far a run is, on a terminal, between measurements only.

Invariant: nothing here draws by itself. A bar that refreshes from a thread of its own would spend our CPU
inside the measured interval.
"""

from contextlib import AbstractContextManager
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from bench.words import plain


class Watcher(Protocol):
    """What the runner tells."""

    def begin(self, case: str, rounds: int) -> None:
        """Say that a case begins; the warm-up is not one of its rounds."""

    def step(self, round: int, variant: str) -> None:
        """Say that a variant is about to be set up; round 0 is the warm-up."""

    def say(self, text: str) -> None:
        """Say something that a reader wants to know on any kind of output."""


class Ticker(AbstractContextManager["Ticker"]):
    """The watcher of the command line: a bar when stderr is a terminal, and else silence but for `say`.

    Entered once per case; the bar is gone before the table is printed.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False, markup=False)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            console=self.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not self.console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None)
        self._case, self._rounds = "", 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def begin(self, case: str, rounds: int) -> None:
        """Start the bar of a case."""
        self._case, self._rounds = case, rounds
        self._bar.update(self._task, total=rounds + 1, completed=0)

    def step(self, round: int, variant: str) -> None:
        """Draw the bar once."""
        where = f"round {round} of {self._rounds}" if round else "warm-up"
        self._bar.update(self._task, completed=round, description=f"{self._case}: {where}, {variant}")
        self._bar.refresh()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(plain(text), soft_wrap=True)
