"""Printing a run: the machine, a table per case, and at the end one line per target.

Rich draws on a terminal and writes plain aligned text elsewhere. A target is always one line.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.beside.values import CaseComparison
from bench.machine import Machine
from bench.meter import RECORDS
from bench.result import CaseResult, Report, TargetResult
from bench.words import number, plain, verdict

_PLAIN_WIDTH = 240  # where there is no terminal, nothing has to be folded
_GAP = "   "


def console() -> Console:
    """Return the console that a run is printed on."""
    found = Console(highlight=False, markup=False)
    return found if found.is_terminal else Console(highlight=False, markup=False, width=_PLAIN_WIDTH)


def print_machine(out: Console, machine: Machine, size: str) -> None:
    """Print the header."""
    facts = [*machine.facts(), ("size", size)]
    width = max(len(name) for name, _ in facts)
    for name, text in facts:
        out.print(f"{name:<{width}}  {plain(text)}", soft_wrap=True)


def print_case(out: Console, case: CaseResult) -> None:
    """Print one case: for each measure a block with a row per variant."""
    out.print()
    counts = {variant.spread[RECORDS].median for variant in case.variants if RECORDS in variant.spread}
    size = f"{counts.pop():,.0f} records, {case.rounds} rounds" if len(counts) == 1 else f"{case.rounds} rounds"
    out.print(Text(f"{case.name}: {case.about} ({size})", style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("measure", no_wrap=True)
    table.add_column("variant")
    for name in ("min", "median", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    for measure in _measures(case):
        title = measure
        for variant in case.variants:
            if measure in variant.spread:
                spread = variant.spread[measure]
                numbers = (spread.min, spread.median, spread.max)
                table.add_row(Text(title), Text(variant.name), *(number(value) for value in numbers))
                title = ""
    if table.row_count:
        out.print(table)
    for variant in case.variants:
        if variant.not_measured is not None:
            out.print(f"{variant.name}: not measured: {variant.not_measured}", soft_wrap=True)


def print_comparison(out: Console, case: CaseComparison, measures: Sequence[str]) -> None:
    """Print one case as it was with an earlier package and as it is now."""
    out.print()
    head = f"{case.name}: {case.earlier_commit} and {case.machine.commit} by turns ({case.after.rounds} rounds)"
    out.print(Text(head, style="bold"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("measure", "variant"):
        table.add_column(name)
    for name in ("before", "after", "after / before", "lowest", "highest"):
        table.add_column(name, justify="right", no_wrap=True)
    for pair in case.pairs(measures):
        ratio = pair.ratio
        shares = ("-",) * 3 if ratio is None else tuple(map(number, (ratio.median, ratio.min, ratio.max)))
        table.add_row(
            Text(pair.measure), Text(pair.variant), number(pair.before.median), number(pair.after.median), *shares
        )
    out.print(table)
    for words, result in (("before", case.before), ("after", case.after)):
        for variant in result.variants:
            if variant.not_measured is not None:
                out.print(f"{words}: {variant.name}: not measured: {variant.not_measured}", soft_wrap=True)


def print_targets(out: Console, targets: Sequence[TargetResult]) -> None:
    """Print the block of target lines, and below one that is not kept its cause where that is known."""
    out.print()
    for line, target in zip(target_lines(targets), targets, strict=True):
        text = Text(line)
        if target.passed is not None:
            text.stylize("green" if target.passed else "bold red", len(line) - len(verdict(target.passed)))
        out.print(text, soft_wrap=True)
        if target.cause is not None:
            out.print(Text(f"{_GAP}cause: {target.cause}"), soft_wrap=True)


def target_lines(targets: Sequence[TargetResult]) -> list[str]:
    """Return one line per target, in columns; a measured one ends in its verdict."""
    cells = [_cells(target) for target in targets]
    widths = [max((len(row[at]) for row in cells if at < len(row) - 1), default=0) for at in range(4)]
    return [_GAP.join([*(f"{cell:<{widths[at]}}" for at, cell in enumerate(row[:-1])), row[-1]]) for row in cells]


def write_json(report: Report, path: Path) -> None:
    """Write everything as JSON, making the folder when it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(report.encode())


def result_path(home: Path, machine: Machine) -> Path:
    """Return where this run's numbers are kept."""
    stamp = machine.date.removesuffix("+00:00").replace(":", "").replace("-", "")
    return home / "results" / f"{stamp}Z.json"


def _cells(target: TargetResult) -> list[str]:
    what = [target.name, f"{target.measure} of {target.label}"]
    if target.value is None or target.low is None or target.high is None or target.passed is None:
        return [*what, f"not measured: {target.not_measured}"]
    unit = f" {target.unit}" if target.unit else ""
    value = f"{number(target.value)}{unit} ({number(target.low)}..{number(target.high)})"
    return [*what, value, target.bound, verdict(target.passed)]


def _measures(case: CaseResult) -> list[str]:
    found = dict.fromkeys(measure for variant in case.variants for measure in variant.spread)
    return [measure for measure in found if measure != RECORDS]
