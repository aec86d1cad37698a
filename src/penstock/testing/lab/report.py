"""What a laboratory found: for programs as values, for people as text."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from .visits import Visit

_SHOWN = 3
_CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True)
class LabFinding:
    """A round whose end differs from that of a run without kills. `seed` plays exactly this round again.

    `kills` are the places where its processes were ended; `handlers` those that were called more often than
    without them; `expected` and `got` what `state` returned, as text, with the dead letters.
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
        """Return it for people; `lab` is the MODULE:LAB that the command knows it by."""
        who = ", ".join(self.handlers) or "no handler was called again, yet it ends otherwise"
        who = f"one of {who}" if len(self.handlers) > 1 else who
        again = f"lab.replay({self.seed})" if lab is None else f"penstock lab {lab} --seed {self.seed}"
        lines = [f"NOT IDEMPOTENT: {who}"]
        lines += [f"  killed at {kill}" for kill in self.kills]
        lines += ["  expected (-) and got (+):", *(f"    {line}" for line in self.diff)]
        return "\n".join([*lines, f"  play it again: {again}"])


Finding = LabFinding  # the old name


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a laboratory.

    `visits` are the places of a run without kills, each of which was a round; `rounds` how many were played,
    the drawn ones included; `missed` the seeds of rounds that never came to the place of their kill.
    """

    visits: tuple[Visit, ...]
    rounds: int
    findings: tuple[LabFinding, ...]
    missed: tuple[int, ...] = ()
    lab: str | None = None

    @property
    def ok(self) -> bool:
        """Whether every round ended as a run without kills does, and every kill took place."""
        return not self.findings and not self.missed

    @property
    def points(self) -> dict[str, int]:
        """How often a run without kills comes to each point."""
        return dict(Counter(visit.point for visit in self.visits))

    def check(self) -> "Report":
        """Return itself if all is well. Raises AssertionError with what was found."""
        if not self.ok:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        played = f"{self.rounds} rounds, {len(self.visits)} places to kill at ({len(self.points)} points)"
        if self.ok:
            yield f"idempotent: {played}; each ended as without a kill"
            return
        shown = self._telling()
        for finding in shown:
            yield finding.text(self.lab)
        others = [each.seed for each in self.findings if each not in shown]
        if others:
            yield f"and {len(others)} more like these: seeds {_some(others)}"
        if self.missed:
            yield (
                f"{len(self.missed)} rounds never came to the place of their kill ({_some(self.missed)}): "
                "what the handlers do differs from run to run, so nothing is proved"
            )
        yield f"{len(self.findings)} of {played}"

    def _telling(self) -> list[LabFinding]:
        """Return some findings that differ, the simplest first: one kill, inside a handler."""
        found: dict[tuple[object, ...], LabFinding] = {}
        for each in sorted(self.findings, key=_simplest_first):
            found.setdefault((each.handlers, each.got), each)
        return list(found.values())[:_SHOWN]


def _simplest_first(finding: LabFinding) -> tuple[int, bool, int]:
    return len(finding.kills), all(kill.handler is None for kill in finding.kills), finding.seed


def _some(seeds: Sequence[int]) -> str:
    return ", ".join(str(seed) for seed in seeds[:10]) + (", …" if len(seeds) > 10 else "")
