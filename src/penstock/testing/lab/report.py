"""The report of a laboratory: values for programs, text for people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from .visits import Visit

_SHOWN = 3
_CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True)
class LabFinding:
    """A round whose final state differs from that of a run without kills.

    `seed` replays exactly this round. `kills` are the visits at which its processes were killed; `handlers` those
    called more often than without kills; `expected` and `got` the results of `state`, as text, with the dead letters.
    """

    seed: int
    kills: tuple[Visit, ...]
    handlers: tuple[str, ...]
    expected: str
    got: str

    @property
    def diff(self) -> list[str]:
        """The lines that differ: `-` expected, `+` got."""
        lines = unified_diff(self.expected.splitlines(), self.got.splitlines(), n=_CONTEXT_LINES, lineterm="")
        return [line for line in lines if not line.startswith(("---", "+++", "@@"))]

    def text(self, lab: str | None = None) -> str:
        """Return it as text; `lab` is its MODULE:LAB for the command."""
        who = ", ".join(self.handlers) or "no handler was called again, yet the final state differs"
        who = f"one of {who}" if len(self.handlers) > 1 else who
        again = f"lab.replay({self.seed})" if lab is None else f"penstock lab {lab} --seed {self.seed}"
        lines = [f"NOT IDEMPOTENT: {who}"]
        lines += [f"  killed at {kill}" for kill in self.kills]
        lines += ["  expected (-) and got (+):", *(f"    {line}" for line in self.diff)]
        return "\n".join([*lines, f"  replay it: {again}"])


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a laboratory.

    `visits` are the places of a run without kills, one round each; `rounds` the number played, including the
    drawn ones; `missed` the seeds of rounds that never reached the place of their kill.
    """

    visits: tuple[Visit, ...]
    rounds: int
    findings: tuple[LabFinding, ...]
    missed: tuple[int, ...] = ()
    lab: str | None = None

    @property
    def ok(self) -> bool:
        """Whether every round ended like a run without kills, and every kill took place."""
        return not self.findings and not self.missed

    @property
    def points(self) -> dict[str, int]:
        """The number of visits to each point in a run without kills."""
        return dict(Counter(visit.point for visit in self.visits))

    def check(self) -> "Report":
        """Return itself if there are no findings. Raises AssertionError with them."""
        if not self.ok:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        played = f"{self.rounds} rounds, {len(self.visits)} places to kill at ({len(self.points)} points)"
        if self.ok:
            yield f"idempotent: {played}; each ended as without kills"
            return
        shown = self._telling()
        for finding in shown:
            yield finding.text(self.lab)
        others = [each.seed for each in self.findings if each not in shown]
        if others:
            yield f"and {len(others)} more like these: seeds {_some(others)}"
        if self.missed:
            yield (
                f"{len(self.missed)} rounds never reached the place of their kill ({_some(self.missed)}): "
                "the handlers act differently from run to run, so this proves nothing"
            )
        yield f"{len(self.findings)} of {played}"

    def _telling(self) -> list[LabFinding]:
        """Return some distinct findings, the simplest first: one kill, inside a handler."""

        def simplicity(finding: LabFinding) -> tuple[int, bool, int]:
            return len(finding.kills), all(kill.handler is None for kill in finding.kills), finding.seed

        found: dict[tuple[object, ...], LabFinding] = {}
        for each in sorted(self.findings, key=simplicity):
            found.setdefault((each.handlers, each.got), each)
        return list(found.values())[:_SHOWN]


def _some(seeds: Sequence[int]) -> str:
    return ", ".join(str(seed) for seed in seeds[:10]) + (", …" if len(seeds) > 10 else "")
