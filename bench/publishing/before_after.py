"""The page on what has changed since an earlier commit, from comparisons.

Its words are in `before-after.template.md`; the numbers come from the comparisons, every one.
"""

from collections.abc import Sequence
from pathlib import Path
from string import Template

from bench.beside import CaseComparison, Comparison
from bench.publishing.page import FOLDER, table
from bench.result import Spread, TargetResult
from bench.words import number, verdict

# What issue after issue set a bound to, or has printed: the cases, and parts of their variants.
CASES = ("rates", "rates_in_process", "worker_peers", "publish_postgres", "idle_worker", "sustained")
PARTS = {"rates": ("10/s,100/s,1000/s",)}

NUMBERS = "before-after.json"
_ENOUGH_ROUNDS = 3
_TEMPLATE = Path(__file__).with_name("before-after.template.md")
_WORK = "worker_cpu_us + postgres_cpu_us"
_MEASURES: dict[str, Sequence[str]] = {
    "rates": ("latency_p50_ms", "latency_p90_ms", "latency_p99_ms", _WORK),
    "rates_in_process": ("latency_p50_us", "latency_p95_us"),
    "worker_peers": ("cpu_us", "handled_per_second"),
    "publish_postgres": ("wall_us", "transaction_cpu_us"),
    "idle_worker": ("statements_per_second", "core_percent"),
    "sustained": ("sustained_per_second", "wait_p50_ms", "wait_p95_ms", "wait_p99_ms"),
}


def publish_comparison(found: Comparison, folder: Path = FOLDER) -> list[Path]:
    """Write the page and its numbers, with the cases that were compared before and not now; return both."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = folder / NUMBERS
    kept = Comparison.decode(numbers.read_bytes()) if numbers.exists() else Comparison(cases=[])
    whole = kept.renewed_by(found)
    numbers.write_bytes(whole.encode())
    page = folder / "before-after.md"
    page.write_text(comparison_page(whole), "utf-8")
    return [page, numbers]


def comparison_page(found: Comparison) -> str:
    """Return the text of the page."""
    cases = sorted(found.cases, key=_rank)
    return Template(_TEMPLATE.read_text("utf-8")).substitute(
        targets=table(
            ("target", "measure", "of", "bound", "before", "after", "verdict", "cause"),
            [row for case in cases for row in _targets(case)],
        ),
        pairs=table(
            ("case", "variant", "measure", "before", "after", "after / before"),
            [row for case in cases for row in _pairs(case)],
        ),
        machine=table(
            ("case", "rounds", "size", "before", "after", "date", "machine", "load average", "versions"),
            [_where(case) for case in cases],
        ),
    )


def measures_of_case(case: CaseComparison) -> Sequence[str]:
    """Return which measures of a case are shown: those of the page, or else those of its targets."""
    judged = dict.fromkeys(target.measure for target in case.after.targets)
    return _MEASURES.get(case.name) or tuple(judged) or ("cpu_us", "wall_us")


def is_doubtful(case: CaseComparison) -> bool:
    """Return whether a case should be measured again before its numbers are believed."""
    return case.after.rounds < _ENOUGH_ROUNDS or case.machine.load_average[0] > case.machine.cores


def _rank(case: CaseComparison) -> tuple[int, str]:
    return (CASES.index(case.name) if case.name in CASES else len(CASES), case.name)


def _targets(case: CaseComparison) -> list[Sequence[str]]:
    pairs = zip(case.before.targets, case.after.targets, strict=True)
    return [
        (
            f"{now.name} \\*" if is_doubtful(case) else now.name,
            f"`{now.measure}`",
            now.label,
            now.bound,
            _value(was),
            _value(now),
            "–" if now.passed is None else verdict(now.passed),
            now.cause or "",
        )
        for was, now in pairs
    ]


def _value(target: TargetResult) -> str:
    if target.value is None or target.low is None or target.high is None:
        return f"not measured: {target.not_measured}"
    return f"{number(target.value)} {target.unit} ({number(target.low)}..{number(target.high)})"


def _pairs(case: CaseComparison) -> list[Sequence[str]]:
    return [
        (
            case.name,
            pair.variant,
            f"`{pair.measure}`",
            spread(pair.before),
            spread(pair.after),
            "–" if pair.ratio is None else f"{spread(pair.ratio)}",
        )
        for pair in case.pairs(measures_of_case(case))
    ]


def spread(found: Spread) -> str:
    """Return a measure as a cell: the median, and how far the rounds lay apart."""
    if found.min == found.max:
        return number(found.median)
    return f"{number(found.median)} ({number(found.min)}..{number(found.max)})"


def _where(case: CaseComparison) -> Sequence[str]:
    machine = case.machine
    return (
        case.name,
        str(case.after.rounds),
        "full" if case.settings.full else "quick",
        f"`{case.earlier_commit}`",
        f"`{machine.commit}`" + (", with changes not committed" if machine.dirty else ""),
        machine.date,
        f"{machine.cpu}, {machine.cores} cores, {machine.kernel}, {machine.python}, SQLite {machine.sqlite}",
        " ".join(f"{load:.2f}" for load in machine.load_average),
        ", ".join(f"{name} {text}" for name, text in case.after.versions.items()) or "–",
    )
