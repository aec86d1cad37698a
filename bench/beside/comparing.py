"""Comparing: rounds with either package by turns, the targets of each judged in the same way.

A round is a process of its own, as it imports another version of the package, and nothing of the other's is
there while it runs: a worker at rest beside a measured one made a bare wake-up a sixth slower. The other
libraries run in the rounds of the present package; both versions are held against them.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.beside.order import Order
from bench.beside.trees import Tree
from bench.beside.values import CaseComparison, Comparison
from bench.case import Case
from bench.errors import NotMeasured
from bench.home import ROOT
from bench.machine import look
from bench.result import CaseResult, Report, Settings, case_result
from bench.runner import rotated, rounds_of


def compare(case: Case, settings: Settings, earlier: Tree) -> Comparison:
    """Measure a case with an earlier package and with the present one. Raises NotMeasured."""
    machine = look()  # before the rounds: their own load is no reason to doubt them
    sides: dict[str, list[Report]] = {"before": [], "after": []}
    environments = {"before": earlier.environment(), "after": dict(os.environ)}
    rounds = rounds_of(case, settings)
    for round in range(rounds):
        for side in rotated(list(sides), round):
            sides[side].append(_round(case, settings, environments[side], peers=side == "after"))
    before, after = (_whole(case, rounds, reports) for reports in sides.values())
    shared = [variant.name for variant in case.variants if variant.peer is not None]
    found = CaseComparison(
        earlier_commit=earlier.commit,
        machine=machine,
        settings=settings,
        shared=shared,
        before=_judged(case, _with_shared(before, after, shared)),
        after=_judged(case, after),
    )
    return Comparison(cases=[found])


def _round(case: Case, settings: Settings, environment: Mapping[str, str], *, peers: bool) -> Report:
    """Measure one round in a process of its own."""
    with TemporaryDirectory(prefix="penstock-bench-") as folder:
        numbers = Path(folder) / "numbers.json"
        order = Order(
            case=case.name,
            variants=[variant.name for variant in case.variants],
            full=settings.full,
            peers=peers,
            json_file=str(numbers),
        )
        words = [sys.executable, "-m", "bench.beside", msgspec.json.encode(order).decode()]
        done = subprocess.run(words, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise NotMeasured(f"a round of {case.name} failed; its words are above")
        return Report.decode(numbers.read_bytes())


def _whole(case: Case, rounds: int, reports: Sequence[Report]) -> CaseResult:
    """Return the rounds as one result; what failed in one of them is not measured."""
    results = [report.cases[0] for report in reports]
    measured, reasons = dict[str, list[dict[str, float]]](), dict[str, str]()
    for result in results:
        for variant in result.variants:
            measured.setdefault(variant.name, []).extend(variant.rounds)
            if variant.not_measured is not None:
                reasons.setdefault(variant.name, variant.not_measured)
    had = replace(case, variants=[variant for variant in case.variants if variant.name in measured], targets=())
    return case_result(had, rounds, measured, reasons, results[0].versions)


def _with_shared(before: CaseResult, after: CaseResult, shared: Sequence[str]) -> CaseResult:
    """Return what was measured before with the peers of the same rounds."""
    own = {variant.name: variant for variant in before.variants if variant.name not in shared}
    return replace(before, variants=[own.get(variant.name, variant) for variant in after.variants])


def _judged(case: Case, found: CaseResult) -> CaseResult:
    measured = {variant.name: variant.rounds for variant in found.variants}
    reasons = {each.name: each.not_measured for each in found.variants if each.not_measured is not None}
    return case_result(case, found.rounds, measured, reasons, found.versions)
