"""Following a pipeline that runs: how its batches go, what interrupts it, and its end."""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event
from typing import Protocol

import click

from penstock.clock import SYSTEM
from penstock.errors import Error, PipelineFailed
from penstock.pipeline.failure import is_shut_down
from penstock.pipeline.offsets import Ends
from penstock.pipeline.query import Progress, Running
from penstock.pipeline.retrying import Retrying
from penstock.pipeline.series import PipelineSeries
from penstock.pipeline.settings import PipelineSettings

_LOOK_SECONDS = 0.2
_LONGER, _LONGEST = 1.25, 5  # the next pause when nothing has come, and the longest one, in first ones
_SIGNAL_SECONDS = 1.0


class FollowedReader(Protocol):
    """Who is told how far a pipeline has come."""

    def moved(self, ends: Ends) -> None:
        """Take note that the tables hold a topic up to some ends."""

    def tell(self, batch: Progress) -> None:
        """Take note that a batch is in the tables."""

    def waiting(self, batch: Progress) -> int | None:
        """Return how many records wait behind a batch, if it can be told."""


@dataclass(frozen=True, slots=True)
class CourseEnd:
    """How a pipeline ended: by itself, or because it was asked to."""

    stopped: bool
    rows: int
    batches: int

    def __str__(self) -> str:
        return f"{'stopped' if self.stopped else 'done'}: {self.rows:,} rows in {self.batches:,} batches"


class PipelineCourse:
    """A pipeline from its start to its end, tried again when something interrupts it that passes."""

    def __init__(self, asked: Event, series: PipelineSeries, reader: FollowedReader) -> None:
        settings = PipelineSettings.load()
        self._asked, self._series, self._reader = asked, series, reader
        self._stop_seconds, self._limit = settings.stop_seconds, settings.retry_seconds
        self._retrying = Retrying(self._limit)
        self._line = _Line()
        self._rows = self._batches = 0

    def run(self, begin: Callable[[], Running]) -> CourseEnd:
        """Run it to its end. Raises what does not pass."""
        while True:
            try:
                running = begin()
                self._follow(running)
                running.check()
                break
            except Error as exc:
                self._line.end()
                # Who ends a service, as systemd does, ends Java, too; and that may be quicker.
                if is_shut_down(exc) and self._asked.wait(_SIGNAL_SECONDS):
                    break
                pause = self._retrying.pause_after(exc)
                if pause is None or self._asked.is_set():
                    raise
                self._series.count_interruption()
                if self._retrying.is_new(exc):
                    click.echo(f"{exc}; trying again, for {self._limit:,.0f} s at most", err=True)
                if self._asked.wait(pause):
                    break
        return CourseEnd(self._asked.is_set(), self._rows, self._batches)

    def _follow(self, running: Running) -> None:
        deadline: float | None = None
        active, pause = True, _LOOK_SECONDS
        while active:
            active = running.active  # read before the progress, so that the last batch is shown, too
            ended = running.progress()
            for each in ended:
                self._tell(each)
            # A look takes both Pythons and Java a millisecond: at rest it was most of what a stream cost.
            pause = _LOOK_SECONDS if ended else min(pause * _LONGER, _LOOK_SECONDS * _LONGEST)
            if self._asked.is_set() and deadline is None:
                deadline = SYSTEM.monotonic() + self._stop_seconds
                self._line.show("stopping after this batch")
            if deadline is not None and (not running.busy or SYSTEM.monotonic() > deadline):
                with suppress(PipelineFailed):  # Java may be about to end; if it is not, that is told below
                    running.stop()
            if active and deadline is None:
                self._asked.wait(pause)
            elif active:
                Event().wait(_LOOK_SECONDS)
        self._line.end()

    def _tell(self, each: Progress) -> None:
        self._retrying.went_well()
        lag = self._reader.waiting(each)
        self._series.count(replace(each, lag=lag))
        self._reader.tell(each)  # before it moves: what a batch has read is held until then
        self._reader.moved(each.ends)
        self._rows, self._batches = self._rows + each.rows, self._batches + 1
        self._line.show(
            f"batch {each.batch}: {each.rows:,} rows, {each.rows_per_second:,.0f} rows/s, "
            f"{each.seconds:.1f} s, lag {'unknown' if lag is None else f'{lag:,}'}, "
            f"{self._rows:,} rows in all"
        )


class _Line:
    """A line that rewrites itself on a terminal; elsewhere one line after another."""

    def __init__(self) -> None:
        self._width = 0
        self._terminal = sys.stderr.isatty()

    def show(self, text: str) -> None:
        if self._terminal:
            click.echo(f"\r{text.ljust(self._width)}", err=True, nl=False)
            self._width = len(text)
        else:
            click.echo(text, err=True)

    def end(self) -> None:
        if self._terminal and self._width:
            click.echo(err=True)
            self._width = 0
