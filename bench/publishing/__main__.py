"""`python -m bench.publishing [NUMBERS.json]...`: write the pages again from the numbers they have.

After their words or targets changed; or from the files of runs with `--json`, one case or more in each, where
all cases at once would take the machine for too long. The targets are judged anew from the rounds: a page has
no verdicts by a rule that it does not tell.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.beside import Comparison
from bench.catalogue import Catalogue, catalogue
from bench.publishing.before_after import NUMBERS, publish_comparison
from bench.publishing.page import CASES, FOLDER, publish
from bench.result import CaseResult, Report, case_result


def joined(reports: Sequence[Report]) -> Report:
    """Return the cases of several runs of one commit as one report; its machine is that of the first.

    Raises ValueError when they are of different commits or sizes, or a case of the page is not in them.
    """
    first = reports[0]
    for report in reports:
        if (report.machine.commit, report.settings.full) != (first.machine.commit, first.settings.full):
            raise ValueError(
                f"the runs are of {first.machine.commit} and {report.machine.commit}, or of two sizes: "
                "measure all cases at one commit"
            )
    found = {case.name: case for report in reports for case in report.cases}
    missing = [name for name in CASES if name not in found]
    if missing:
        raise ValueError(f"no run measured {', '.join(missing)}")
    return replace(first, cases=[found[name] for name in CASES])


def judged_again(report: Report, cases: Catalogue) -> Report:
    """Return a report with the targets that its cases have now."""
    return replace(report, cases=[_judged(found, cases) for found in report.cases])


def compared_again(comparison: Comparison, cases: Catalogue) -> Comparison:
    """Return a comparison with the targets that its cases have now."""
    return Comparison(
        cases=[
            replace(case, before=_judged(case.before, cases), after=_judged(case.after, cases))
            for case in comparison.cases
        ]
    )


def _judged(found: CaseResult, cases: Catalogue) -> CaseResult:
    measured = {variant.name: variant.rounds for variant in found.variants}
    reasons = {each.name: each.not_measured for each in found.variants if each.not_measured is not None}
    case = cases[found.name]()
    targets = [target for target in case.targets if set(target.of.variants) <= measured.keys()]
    kept = [variant for variant in case.variants if variant.name in measured]
    again = case_result(replace(case, variants=kept, targets=targets), found.rounds, measured, reasons)
    return replace(found, targets=again.targets)


def main(files: Sequence[str]) -> None:
    """Write the pages."""
    found = catalogue()
    kept = [Report.decode(Path(file).read_bytes()) for file in files or [str(FOLDER / "rates.json")]]
    written = publish(judged_again(joined(kept), found))
    comparison = FOLDER / NUMBERS
    if comparison.exists():
        written += publish_comparison(compared_again(Comparison.decode(comparison.read_bytes()), found))
    for path in written:
        print(f"written: {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
