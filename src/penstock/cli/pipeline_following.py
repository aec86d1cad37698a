"""Follows a running pipeline: prints its batches, retries interruptions, and stops it."""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Event

import click

from penstock.clock import SYSTEM
from penstock.errors import Error, PipelineFailed
from penstock.pipeline.failure import RetryBackoff, is_shut_down
from penstock.pipeline.progress import PipelineSeries, Progress
from penstock.pipeline.query import Running
from penstock.pipeline.reader import PipelineReader
from penstock.pipeline.replay import ReplayedRange
from penstock.pipeline.settings import PipelineSettings

_LOOK_SECONDS = 0.2
_LONGER, _LONGEST = 1.25, 5  # growth of the pause without a batch, and its limit in first pauses
_SIGNAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class CourseEnd:
    """The end of a pipeline; `stopped`: by a signal, not of its own accord."""

    stopped: bool
    rows: int
    batches: int

    def __str__(self) -> str:
        return f"{'stopped' if self.stopped else 'done'}: {self.rows:,} rows in {self.batches:,} batches"


class PipelineCourse:
    """A pipeline from its start to its end; a transient error restarts it."""

    def __init__(self, stop: Event, series: PipelineSeries, reader: PipelineReader | ReplayedRange) -> None:
        settings = PipelineSettings.load()
        self._stop, self._series, self._reader = stop, series, reader
        self._stop_seconds, self._limit = settings.stop_seconds, settings.retry_seconds
        self._retrying = RetryBackoff(self._limit)
        self._line = _Line()
        self._rows = self._batches = 0

    def run(self, begin: Callable[[], Running]) -> CourseEnd:
        """Run it to its end. Raises errors that are not transient."""
        while True:
            try:
                running = begin()
                self._follow(running)
                running.check()
                break
            except Error as exc:
                self._line.end()
                # A service manager such as systemd also signals Java, which may end before us.
                if is_shut_down(exc) and self._stop.wait(_SIGNAL_SECONDS):
                    break
                pause = self._retrying.pause_after(exc)
                if pause is None or self._stop.is_set():
                    raise
                self._series.count_interruption()
                if self._retrying.is_new(exc):
                    click.echo(f"{exc}; retrying for at most {self._limit:,.0f} s", err=True)
                if self._stop.wait(pause):
                    break
        return CourseEnd(self._stop.is_set(), self._rows, self._batches)

    def _follow(self, running: Running) -> None:
        deadline: float | None = None
        active, pause = True, _LOOK_SECONDS
        while active:
            active = running.active  # read before the progress, so that the last batch is shown, too
            ended = running.progress()
            for each in ended:
                self._tell(each)
            # A poll costs both Pythons and Java a millisecond: for an idle stream that was most of its cost.
            pause = _LOOK_SECONDS if ended else min(pause * _LONGER, _LOOK_SECONDS * _LONGEST)
            if self._stop.is_set() and deadline is None:
                deadline = SYSTEM.monotonic() + self._stop_seconds
                self._line.show("stopping after this batch")
            if deadline is not None and (not running.busy or SYSTEM.monotonic() > deadline):
                with suppress(PipelineFailed):  # Java may be ending; if not, the error is raised below
                    running.stop()
            if active and deadline is None:
                self._stop.wait(pause)
            elif active:
                Event().wait(_LOOK_SECONDS)
        self._line.end()

    def _tell(self, each: Progress) -> None:
        self._retrying.succeeded()
        lag = self._reader.waiting(each)
        self._series.count(replace(each, lag=lag))
        self._reader.tell(each)  # before `moved`: the records of a batch are held until then
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
