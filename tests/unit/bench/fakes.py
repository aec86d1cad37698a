"""Parts for testing the benchmarks without waiting: time that is spent by saying so, a journal of calls."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from bench import Case, Run, Target, Variant
from bench.machine import Machine
from bench.meter import Reading
from bench.result import CaseResult, Settings
from bench.runner import Runner

T = TypeVar("T")


class SpentTime:
    """A meter whose time passes only when a body spends it."""

    def __init__(self) -> None:
        self.wall = 0.0
        self.cpu = 0.0
        self.journal: list[str] = []

    def spend(self, wall: float, cpu: float | None = None) -> None:
        self.wall += wall
        self.cpu += wall if cpu is None else cpu

    def measure(self, call: Callable[[], T], watched: Mapping[str, Sequence[int]]) -> tuple[Reading, T]:
        wall, cpu = self.wall, self.cpu
        self.journal.append("measure")
        returned = call()
        self.journal.append("measured")
        return Reading(wall_seconds=self.wall - wall, own_cpu_seconds=self.cpu - cpu), returned

    def variant(self, name: str, *seconds: float, records: int = 1) -> Variant[None]:
        """Return a variant that takes so long in round 1, 2, ...; the last number counts for the rest."""

        def body(run: Run) -> None:
            self.journal.append(name)
            self.spend(100.0 if run.round == 0 else seconds[min(run.round, len(seconds)) - 1])

        return Variant(name, body, records=records)


class Journal:
    """A watcher that writes down what it was told."""

    def __init__(self, lines: list[str] | None = None) -> None:
        self.lines: list[str] = [] if lines is None else lines

    def begin(self, case: str, rounds: int) -> None:
        self.lines.append(f"begin {case}, {rounds} rounds")

    def step(self, round: int, variant: str) -> None:
        self.lines.append(f"step {round} {variant}")

    def say(self, text: str) -> None:
        self.lines.append(text)


def a_case(*variants: Variant[Any], targets: Sequence[Target] = (), name: str = "toy") -> Case:
    return Case(name=name, about="two toys", variants=variants, targets=targets)


def results_of(case: Case, meter: SpentTime, *, rounds: int = 1, watcher: Journal | None = None) -> CaseResult:
    return Runner(Settings(rounds=rounds), meter, watcher or Journal()).run(case)


def a_machine() -> Machine:
    return Machine(
        cpu="Abacus",
        cores=2,
        memory_mb=64,
        kernel="Linux 6",
        python="CPython 3.11",
        sqlite="3.40.1",
        date="2026-11-15T20:00:00+00:00",
        commit="abc",
        dirty=True,
        load_average=(0.5, 0.25, 0.0),
    )
