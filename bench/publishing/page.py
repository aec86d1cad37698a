"""The page on latency and cost by rate, from the report of one run.

Its words are in `rates.template.md`; the numbers come from the report, every one.
"""

from collections.abc import Sequence
from pathlib import Path
from string import Template

from bench.home import PAGES, ROOT
from bench.publishing.chart import Chart, Line, svg
from bench.publishing.figures import Flow, point, shown
from bench.report import write_json
from bench.result import CaseResult, Report, TargetResult
from bench.words import number, verdict

CASES = ("rates", "rates_sqlite", "rates_in_process", "sustained")
FOLDER = ROOT / PAGES

_TEMPLATE = Path(__file__).with_name("rates.template.md")
_TITLES = {"rates": "PostgreSQL", "rates_sqlite": "SQLite"}
_WORK = {
    "rates": {"worker": "worker_cpu_us", "database": "postgres_cpu_us"},
    "rates_sqlite": {"worker": "worker_cpu_us", "publisher": "publisher_cpu_us"},
}
_LATENCIES = {
    "p50": "latency_p50_ms",
    "p90": "latency_p90_ms",
    "p99": "latency_p99_ms",
    "p99 from due": "due_p99_ms",
    "published/s": "published_per_second",
}
_SUSTAINED = {
    "sustained, records/s": "sustained_per_second",
    "Namastack's, from its own page, records/s": "namastack_per_second",
    "reached, records/s": "reached_per_second",
    "backlog growth, records/s": "growth_per_second",
    "backlog at the end, records": "final_backlog",
    "drain time, s": "drain_seconds",
    "commit to handler, p50, ms": "wait_p50_ms",
    "commit to handler, p95, ms": "wait_p95_ms",
    "commit to handler, p99, ms": "wait_p99_ms",
    "rates tried in a round": "attempts",
    "of these not sustained": "refused",
}


def publish(report: Report, folder: Path = FOLDER) -> list[Path]:
    """Write the page, its plots and the numbers; return what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = {case.name: case for case in report.cases}
    files = {"rates.md": page(report)}
    for name in _TITLES:
        files[f"{name}-latency.svg"] = svg(latency_chart(cases[name]))
        files[f"{name}-cost.svg"] = svg(cost_chart(cases[name]))
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    write_json(report, folder / "rates.json")
    return [folder / name for name in (*files, "rates.json")]


def page(report: Report) -> str:
    """Return the text of the page. Raises KeyError when the report lacks one of its cases."""
    cases = {case.name: case for case in report.cases}
    [crew] = cases["sustained"].variants
    parts = {
        "postgres_latency": _latency(cases["rates"]),
        "postgres_cost": _cost(cases["rates"], ("publisher", "publisher_cpu_us")),
        "sqlite_latency": _latency(cases["rates_sqlite"]),
        "sqlite_cost": _cost(cases["rates_sqlite"]),
        "in_process": table(
            ("who", "p50", "p95"),
            [
                (one.name, *(shown(point(one, f"latency_{part}_us")) for part in ("p50", "p95")))
                for one in cases["rates_in_process"].variants
            ],
        ),
        "sustained": table(
            ("what", "median (lowest..highest)"),
            [(words, shown(point(crew, measure))) for words, measure in _SUSTAINED.items()],
        ),
        "targets": table(
            ("target", "measure", "of", "value", "bound", "verdict", "cause"),
            [_target(target) for case in report.cases for target in case.targets],
        ),
        "machine": _machine(report),
    }
    return Template(_TEMPLATE.read_text("utf-8")).substitute(parts)


def latency_chart(case: CaseResult) -> Chart:
    """Return the plot of latency over the rate."""
    flow = Flow(case)
    return Chart(
        title=f"{_TITLES[case.name]}: commit to handler, milliseconds",
        about=f"solid: p50, dashed: p99; {_spread(case)}",
        places=flow.rates,
        lines=[
            Line(
                name=who,
                points=[flow.point(who, rate, f"latency_{part}_ms") for rate in flow.rates],
                dashed=part == "p99",
            )
            for part in ("p99", "p50")
            for who in flow.contenders
        ],
    )


def cost_chart(case: CaseResult) -> Chart:
    """Return the plot of CPU per event over the rate."""
    flow, work = Flow(case), _WORK[case.name]
    return Chart(
        title=f"{_TITLES[case.name]}: CPU per event of {' and '.join(work)}, microseconds",
        about=_spread(case),
        places=flow.rates,
        lines=[
            Line(name=who, points=[flow.point(who, rate, " + ".join(work.values())) for rate in flow.rates])
            for who in flow.contenders
        ],
    )


def _spread(case: CaseResult) -> str:
    if case.rounds == 1:
        return "one round"
    return f"median of {case.rounds} rounds, bars from the lowest to the highest"


def _latency(case: CaseResult) -> str:
    flow = Flow(case)
    rows = [
        (rate, flow.label(who, rate), *(shown(flow.point(who, rate, name)) for name in _LATENCIES.values()))
        for rate in flow.rates
        for who in flow.contenders
    ]
    return table(("rate", "who", *_LATENCIES), rows)


def _cost(case: CaseResult, *more: tuple[str, str]) -> str:
    """Return the table of cost: the parts, their sum, and what is not in the sum."""
    flow, work = Flow(case), _WORK[case.name]
    columns = {**work, "together": " + ".join(work.values()), **dict(more)}
    rows = [
        (rate, flow.label(who, rate), *(shown(flow.point(who, rate, name)) for name in columns.values()))
        for rate in flow.rates
        for who in flow.contenders
    ]
    return table(("rate", "who", *columns), rows)


def _target(target: TargetResult) -> Sequence[str]:
    what = (target.name, f"`{target.measure}`", target.label)
    if target.value is None or target.low is None or target.high is None or target.passed is None:
        return (*what, f"not measured: {target.not_measured}", target.bound, "–", "")
    spread = f"{number(target.low)}..{number(target.high)}"
    value = f"{number(target.value)} {target.unit} ({spread})"
    return (*what, value, target.bound, verdict(target.passed), target.cause or "")


def _machine(report: Report) -> str:
    versions = {name: text for case in report.cases for name, text in case.versions.items()}
    rounds = ", ".join(f"{case.name} {case.rounds}" for case in report.cases)
    size = "full" if report.settings.full else "quick"
    return table(("what", "which"), [*report.machine.facts(), *versions.items(), ("size", size), ("rounds", rounds)])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    cells = [" | ".join(cell.replace("|", "/") for cell in row) for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {row} |" for row in cells)])
