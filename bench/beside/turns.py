"""Two runs that take turns: each waits before a variant until it is told to go on.

A run is a process of its own, as it imports another version of the package. Before each variant it says
where it stands and waits; the one that is behind goes on, and where both stand at the same place they begin
in turn. So both do the same variant within the same moments, and only one of them works at a time.

Between the two goes a line of JSON: `[case, round, variant]` as numbers from the run, an empty line to it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import IO

from bench.case import Case
from bench.errors import NotMeasured
from bench.home import ROOT
from bench.progress import Watcher
from bench.runner import rotated

Place = tuple[int, int, int]  # which case, which round of it, which variant of the round: it only grows


class Turns(Watcher):
    """The watcher of a run that takes turns."""

    def __init__(self, cases: Sequence[Case], out: IO[str], told: IO[str]) -> None:
        self._names = [[variant.name for variant in case.variants] for case in cases]
        self._out, self._told = out, told
        self._case = -1

    def begin(self, case: str, rounds: int) -> None:
        """Wait for the turn before anything is opened."""
        self._case += 1
        self._wait((self._case, -1, 0))

    def step(self, round: int, variant: str) -> None:
        """Wait for the turn of a variant."""
        order = rotated(self._names[self._case], max(0, round - 1))
        self._wait((self._case, round, order.index(variant)))

    def say(self, text: str) -> None:
        """Say it where the reader sees it: standard output has the turns."""
        print(text, file=sys.stderr)

    def _wait(self, place: Place) -> None:
        self._out.write(json.dumps(place) + "\n")
        self._out.flush()
        if not self._told.readline():
            raise SystemExit("the run that compares has ended")


class TurningRun:
    """The process of one run, seen from outside."""

    def __init__(self, name: str, arguments: Sequence[str], environment: dict[str, str]) -> None:
        self._name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.beside", *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.place: Place | None = (-1, -1, -1)

    def go(self) -> None:
        """Let it go on until it waits again, or ends. Raises NotMeasured when it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self.place != (-1, -1, -1):
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if line:
            case, round, variant = json.loads(line)
            self.place = (case, round, variant)
        else:
            self.place = None
            if self._process.wait():
                raise NotMeasured(f"the run of {self._name} failed; its words are above")

    def close(self) -> None:
        """End it: a run whose turn never comes ends by itself."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def alternate(first: TurningRun, second: TurningRun) -> None:
    """Let two runs take turns until both have ended. Raises NotMeasured when one fails."""
    for run in (first, second):
        run.go()
    while first.place is not None or second.place is not None:
        for run in _order(first, second):
            run.go()


def _order(first: TurningRun, second: TurningRun) -> list[TurningRun]:
    """Return who goes now: the one that is behind, or both, who begins changing from place to place."""
    if first.place is None or second.place is None:
        return [run for run in (first, second) if run.place is not None]
    if first.place == second.place:
        pair = [first, second]
        return pair if sum(first.place) % 2 == 0 else pair[::-1]
    return [first if first.place < second.place else second]


def own_turns(cases: Sequence[Case]) -> Turns:
    """Return the turns of this process, and keep whatever else is printed out of them."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return Turns(cases, out, sys.stdin)
