"""`python -m bench.publishing`: write the page again from its numbers, after its words or targets changed.

The targets are judged anew from the rounds: a page has no verdicts by a rule that it does not tell.
"""

from dataclasses import replace

from bench.catalogue import Catalogue, catalogue
from bench.publishing.page import FOLDER, publish
from bench.result import CaseResult, Report, case_result


def judged_again(report: Report, cases: Catalogue) -> Report:
    """Return a report with the targets that its cases have now."""
    return replace(report, cases=[_judged(found, cases) for found in report.cases])


def _judged(found: CaseResult, cases: Catalogue) -> CaseResult:
    measured = {variant.name: variant.rounds for variant in found.variants}
    reasons = {each.name: each.not_measured for each in found.variants if each.not_measured is not None}
    again = case_result(cases[found.name](), found.rounds, measured, reasons)
    return replace(found, targets=again.targets)


if __name__ == "__main__":
    kept = Report.decode((FOLDER / "rates.json").read_bytes())
    for path in publish(judged_again(kept, catalogue())):
        print(f"written: {path}")
