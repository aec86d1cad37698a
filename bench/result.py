"""What a run leaves behind, as values: every round's numbers, their spread, and the targets judged.

These are the JSON file. Decode undoes encode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import msgspec

from bench.case import Case
from bench.errors import NotMeasured
from bench.machine import Machine
from bench.target import Rounds, Target
from bench.words import one_line


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How this run was asked for."""

    full: bool = False
    rounds: int | None = None  # None: each case's own number


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A measure over the rounds."""

    min: float
    median: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of some values."""
        return cls(min=min(values), median=median(values), max=max(values))


@dataclass(frozen=True, kw_only=True)
class VariantResult:
    """One variant: the measures of each round in order, and the spread of each measure."""

    name: str
    rounds: list[dict[str, float]]
    spread: dict[str, Spread]
    not_measured: str | None = None


@dataclass(frozen=True, kw_only=True)
class TargetResult:
    """One target, judged; `passed` is None when it could not be measured.

    `cause` is why a bound is not kept, where that is known; it is None for one that is kept.
    """

    name: str
    label: str
    measure: str
    unit: str
    bound: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    passed: bool | None = None
    cause: str | None = None
    not_measured: str | None = None


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """One case."""

    name: str
    about: str
    rounds: int
    variants: list[VariantResult]
    targets: list[TargetResult]
    versions: dict[str, str] = field(default_factory=dict)  # of what the numbers depend on, by name


@dataclass(frozen=True, kw_only=True)
class Report:
    """One whole run."""

    machine: Machine
    settings: Settings
    cases: list[CaseResult]

    @property
    def holds(self) -> bool:
        """Whether everything was measured and every target kept."""
        measured = all(variant.not_measured is None for case in self.cases for variant in case.variants)
        return measured and all(target.passed for case in self.cases for target in case.targets)

    def encode(self) -> bytes:
        """Return it as JSON, indented for reading."""
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"

    @classmethod
    def decode(cls, text: bytes) -> "Report":
        """Return the report that some JSON holds. Raises msgspec.DecodeError."""
        return msgspec.json.decode(text, type=cls)


def case_result(
    case: Case, rounds: int, measured: Rounds, reasons: dict[str, str], versions: Mapping[str, str] | None = None
) -> CaseResult:
    """Return a case's result from the rounds of the measured variants and the reasons of the others.

    Beside the versions that were noted stand those of the peers.
    """
    peers = [variant.peer for variant in case.variants if variant.peer is not None]
    pinned = {peer.name: ", ".join(peer.requirements) for peer in peers if peer.requirements}
    variants = [_variant_result(variant.name, measured, reasons.get(variant.name)) for variant in case.variants]
    targets = [_judge(case.name, target, measured, reasons) for target in case.targets]
    return CaseResult(
        name=case.name,
        about=case.about,
        rounds=rounds,
        variants=variants,
        targets=targets,
        versions={**(versions or {}), **pinned},
    )


def _variant_result(name: str, measured: Rounds, reason: str | None) -> VariantResult:
    rounds = [] if reason else [dict(measures) for measures in measured[name]]
    names = dict.fromkeys(measure for measures in rounds for measure in measures)
    spread = {
        measure: Spread.of([measures[measure] for measures in rounds if measure in measures]) for measure in names
    }
    return VariantResult(name=name, rounds=rounds, spread=spread, not_measured=reason)


def _judge(case: str, target: Target, measured: Rounds, reasons: dict[str, str]) -> TargetResult:
    said = TargetResult(
        name=f"{case}.{target.name}",
        label=target.of.label,
        measure=target.of.measure,
        unit=target.of.unit,
        bound=target.bound,
    )
    for name in target.of.variants:
        if name in reasons:
            return replace(said, not_measured=reasons[name])
    try:
        found = target.of.work_out(measured)
    except NotMeasured as exc:
        return replace(said, not_measured=one_line(str(exc)))
    passed = target.keeps(found.value)
    cause = None if passed else target.cause
    return replace(said, value=found.value, low=found.low, high=found.high, passed=passed, cause=cause)
