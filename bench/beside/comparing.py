"""Comparing: both runs, the targets of each judged in the same way, and our own numbers side by side.

The other libraries run once in a round, with the present package; both versions are held against them.
"""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.beside.order import Order
from bench.beside.trees import Tree
from bench.beside.turns import TurningRun, alternate
from bench.beside.values import CaseComparison, Comparison
from bench.case import Case
from bench.result import CaseResult, Report, Settings, case_result


def compare(cases: Sequence[Case], settings: Settings, earlier: Tree) -> Comparison:
    """Measure cases with an earlier package and with the present one. Raises NotMeasured."""
    with TemporaryDirectory(prefix="penstock-bench-") as folder:
        files = [Path(folder) / f"{name}.json" for name in ("before", "after")]
        environments = [earlier.environment(), dict(os.environ)]
        texts = [
            msgspec.json.encode(
                Order(
                    cases=[(case.name, [variant.name for variant in case.variants]) for case in cases],
                    full=settings.full,
                    rounds=settings.rounds,
                    peers=file is files[1],
                    json_file=str(file),
                )
            ).decode()
            for file in files
        ]
        with (
            closing(TurningRun(earlier.commit, [texts[0]], environments[0])) as first,
            closing(TurningRun("the present package", [texts[1]], environments[1])) as second,
        ):
            alternate(first, second)
        before, after = (Report.decode(file.read_bytes()) for file in files)
    found = zip(cases, before.cases, after.cases, strict=True)
    return Comparison(
        cases=[
            CaseComparison(
                earlier_commit=earlier.commit,
                machine=after.machine,
                settings=settings,
                shared=_shared(case),
                before=_judged(case, _with_shared(was, now, _shared(case))),
                after=_judged(case, now),
            )
            for case, was, now in found
        ]
    )


def _shared(case: Case) -> list[str]:
    return [variant.name for variant in case.variants if variant.peer is not None]


def _with_shared(before: CaseResult, after: CaseResult, shared: Sequence[str]) -> CaseResult:
    """Return what was measured before with the peers of the same rounds."""
    own = {variant.name: variant for variant in before.variants if variant.name not in shared}
    return replace(before, variants=[own.get(variant.name, variant) for variant in after.variants])


def _judged(case: Case, found: CaseResult) -> CaseResult:
    measured = {variant.name: variant.rounds for variant in found.variants}
    reasons = {each.name: each.not_measured for each in found.variants if each.not_measured is not None}
    return case_result(case, found.rounds, measured, reasons, found.versions)
