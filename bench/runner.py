"""Running a case: interleaved rounds, so that a busy minute hits every variant alike.

Owns the order of things. Per variant and round: tell the watcher, set up, measure, clear away. A variant
that fails is left out from then on, with its reason; the others go on.
"""

import traceback
from collections.abc import Sequence
from typing import Any, TypeVar

from bench.case import Case, Variant
from bench.errors import NotMeasured
from bench.meter import Meter, measures_of
from bench.progress import Watcher
from bench.result import CaseResult, Settings, case_result
from bench.run import Shared, Size, pick
from bench.words import one_line

T = TypeVar("T")

ROUNDS = Size(quick=5, full=9)


def rotated(things: Sequence[T], by: int) -> list[T]:
    """Return the things in their order, beginning further on: A B C, then B C A, then C A B."""
    start = by % len(things) if things else 0
    return [*things[start:], *things[:start]]


def rounds_of(case: Case, settings: Settings) -> int:
    """Return how many rounds a case has."""
    return settings.rounds or pick(case.rounds or ROUNDS, settings.full)


class Runner:
    """Runs cases one after the other in this process."""

    def __init__(self, settings: Settings, meter: Meter, watcher: Watcher) -> None:
        self._settings = settings
        self._meter = meter
        self._watcher = watcher
        self._peers: dict[str, str | None] = {}  # by environment: why it is not there, or None

    def run(self, case: Case) -> CaseResult:
        """Measure a case and judge its targets."""
        rounds = rounds_of(case, self._settings)
        self._watcher.begin(case.name, rounds)
        reasons = self._missing_peers(case)
        measured: dict[str, list[dict[str, float]]] = {variant.name: [] for variant in case.variants}
        with Shared() as shared:
            for round in range(0 if case.warm_up else 1, rounds + 1):
                for variant in rotated(case.variants, max(0, round - 1)):
                    if variant.name in reasons:
                        continue
                    try:
                        measures = self._measure(case, variant, shared, round)
                    except Exception as exc:  # a variant is a guest here: the others go on without it
                        reasons[variant.name] = self._reason(exc)
                        continue
                    if round > 0:
                        measured[variant.name].append(measures)
            versions = dict(shared.versions)
        return case_result(case, rounds, measured, reasons, versions)

    def _measure(self, case: Case, variant: Variant[Any], shared: Shared, round: int) -> dict[str, float]:
        self._watcher.step(round, variant.name)
        run = case.run(variant, shared, full=self._settings.full, round=round)
        with variant.ready(run) as body:
            reading, extra = self._meter.measure(body, run.watched)
        return measures_of(reading, run.records, extra)

    def _missing_peers(self, case: Case) -> dict[str, str]:
        reasons = {}
        for variant in case.variants:
            if variant.peer is not None:
                key = str(variant.peer.folder)
                if key not in self._peers:
                    self._peers[key] = self._install(variant)
                reason = self._peers[key]
                if reason is not None:
                    reasons[variant.name] = reason
        return reasons

    def _install(self, variant: Variant[Any]) -> str | None:
        try:
            variant.peer.ensure(self._watcher.say) if variant.peer else None
        except NotMeasured as exc:
            return self._reason(exc)
        return None

    def _reason(self, error: Exception) -> str:
        if isinstance(error, NotMeasured):
            return one_line(str(error))
        self._watcher.say("".join(traceback.format_exception(error)))
        return one_line(f"{type(error).__name__}: {error}")
