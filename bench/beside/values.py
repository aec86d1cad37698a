"""What a comparison leaves behind, as values: both results of each case, and our own numbers side by side.

These are the JSON file. Decode undoes encode.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from bench.machine import Machine
from bench.result import CaseResult, Settings, Spread


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One measure of one variant before and after; `ratio` is after by before, round by round."""

    variant: str
    measure: str
    before: Spread
    after: Spread
    ratio: Spread | None  # None: there were rounds in which it was zero before


@dataclass(frozen=True, kw_only=True)
class CaseComparison:
    """One case, measured with an earlier package and with the present one."""

    earlier_commit: str
    machine: Machine  # its commit is the present one
    settings: Settings
    shared: list[str]  # the variants that do not depend on our package: one measurement serves for both
    before: CaseResult
    after: CaseResult

    @property
    def name(self) -> str:
        """The name of the case."""
        return self.after.name

    def pairs(self, measures: Sequence[str]) -> Iterator[Pair]:
        """Return what each variant that depends on our package gave in some measures.

        A measure may be a sum. What one of the two did not measure is left out.
        """
        earlier = {variant.name: variant.rounds for variant in self.before.variants}
        own = [variant for variant in self.after.variants if variant.name not in self.shared]
        for variant in own:
            for measure in measures:
                before = _column(earlier.get(variant.name, ()), measure)
                after = _column(variant.rounds, measure)
                if before and len(before) == len(after):
                    yield Pair(
                        variant=variant.name,
                        measure=measure,
                        before=Spread.of(before),
                        after=Spread.of(after),
                        ratio=_ratio(before, after),
                    )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Cases that were compared, each at its own time."""

    cases: list[CaseComparison]

    def encode(self) -> bytes:
        """Return it as JSON, indented for reading."""
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"

    @classmethod
    def decode(cls, text: bytes) -> "Comparison":
        """Return the comparison that some JSON holds. Raises msgspec.DecodeError."""
        return msgspec.json.decode(text, type=cls)

    def renewed_by(self, newer: "Comparison") -> "Comparison":
        """Return it with the cases that were compared again in place of the earlier ones."""
        found = {case.name: case for case in (*self.cases, *newer.cases)}
        return Comparison(cases=list(found.values()))


def _column(rounds: Sequence[dict[str, float]], measure: str) -> list[float]:
    parts = measure.split(" + ")
    return [sum(one[part] for part in parts) for one in rounds if set(parts) <= one.keys()]


def _ratio(before: Sequence[float], after: Sequence[float]) -> Spread | None:
    if not all(before):
        return None
    return Spread.of([new / old for old, new in zip(before, after, strict=True)])
