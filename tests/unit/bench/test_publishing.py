"""The page has every number from the report, and its plots are drawn to scale."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench import Case, Paired, Run, Target, Variant
from bench.__main__ import Bench, main
from bench.case import Extra
from bench.catalogue import catalogue, of
from bench.publishing import CASES, FOLDER, publish
from bench.publishing.__main__ import judged_again
from bench.publishing.chart import Chart, Line, Point, svg
from bench.publishing.page import page
from bench.result import Report
from tests.unit.bench.fakes import SpentTime

SVG = "{http://www.w3.org/2000/svg}"


def a_chart(*values: float | None, low: float = 1.0, high: float = 1.0) -> Chart:
    points = [None if value is None else Point(value, value * low, value * high) for value in values]
    return Chart(
        title="Wait & see",
        about="made up",
        places=[f"{at}/s" for at in range(len(values))],
        lines=[Line(name="ours <us>", points=points), Line(name="theirs", points=points, dashed=True)],
    )


def circles(text: str) -> list[tuple[float, float]]:
    return [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in ET.fromstring(text).iter(f"{SVG}circle")]


def test_a_tenfold_value_is_the_same_step_upwards_everywhere() -> None:
    dots = circles(svg(a_chart(1.0, 10.0, 100.0)))[:3]

    assert dots[0][1] - dots[1][1] == pytest.approx(dots[1][1] - dots[2][1], abs=0.1)
    assert dots[0][1] > dots[1][1] > dots[2][1]
    assert dots[1][0] - dots[0][0] == pytest.approx(dots[2][0] - dots[1][0], abs=0.2)


FLOW = {
    "latency_p50_ms": 2.0,
    "latency_p90_ms": 3.0,
    "latency_p99_ms": 4.0,
    "due_p99_ms": 5.0,
    "published_per_second": 10.0,
    "worker_cpu_us": 100.0,
    "postgres_cpu_us": 20.0,
    "publisher_cpu_us": 7.0,
    "unhandled": 0.0,
}


def a_variant(name: str, **measures: float) -> Variant[None]:
    def body(run: Run) -> Extra:
        return {key: value * run.round for key, value in measures.items()}

    return Variant(name, body)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Give the cases of the page, their numbers made up: twice as high in the second round."""

    def broken(run: Run) -> None:
        raise RuntimeError("no such | database")

    who = ("ours", "theirs")
    flow = [a_variant(f"{name}, {rate}", **FLOW) for rate in ("1/s", "2/s") for name in who]
    behind = a_variant("theirs, 2/s", **{**FLOW, "unhandled": 9.0})
    target = Target("p50", Paired("ours, 1/s", ("theirs, 1/s",), "latency_p50_ms"), at_most=0.5)
    crew = a_variant("ours, 4 workers", sustained_per_second=8000, namastack_per_second=9982)
    cases = [
        Case(name="rates", about="a", variants=[*flow[:3], behind], targets=[target], rounds=2, warm_up=False),
        Case(name="rates_sqlite", about="b", variants=[*flow[:3], Variant("theirs, 2/s", broken)], rounds=1),
        Case(name="rates_in_process", about="c", variants=[a_variant("one", latency_p50_us=77.0)], rounds=1),
        Case(name="sustained", about="d", variants=[crew], rounds=1),
    ]
    return Bench(cases=of(cases), meter=SpentTime(), home=tmp_path / "home", pages=tmp_path / "pages")


def published(bench: Bench, *args: str) -> str:
    result = CliRunner().invoke(main, ["--publish", *args], obj=bench)
    assert result.exit_code == 1, result.output  # a target is not kept
    return (bench.pages / "rates.md").read_text("utf-8")


def test_the_command_measures_the_cases_of_the_page_and_writes_it(bench: Bench) -> None:
    text = published(bench)

    assert tuple(bench.cases) == CASES
    report = Report.decode((bench.pages / "rates.json").read_bytes())
    assert report.settings.full
    assert text == page(report)
    for name in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert ET.parse(bench.pages / name).getroot().tag == f"{SVG}svg"
    assert not published(bench, "--quick").count("| size | full |")


def test_cells_have_the_median_and_the_spread_of_the_rounds(bench: Bench) -> None:
    rows = published(bench).splitlines()

    latency = "3.00 (2.00..4.00) | 4.50 (3.00..6.00) | 6.00 (4.00..8.00) | 7.50 (5.00..10.0) | 15.0 (10.0..20.0)"
    assert f"| 1/s | ours | {latency} |" in rows
    assert f"| 2/s | theirs * | {latency} |" in rows  # it left something undone
    assert (
        "| 1/s | ours | 150.0 (100.0..200.0) | 30.0 (20.0..40.0) | 180.0 (120.0..240.0) | 10.5 (7.00..14.0) |" in rows
    )
    assert "| 1/s | ours | 100.0 | 7.00 | 107.0 |" in rows
    assert "| one | 77.0 | – |" in rows
    assert "| sustained, records/s | 8,000 |" in rows
    assert "| Namastack's, from its own page, records/s | 9,982 |" in rows


def test_targets_and_what_is_missing_are_on_the_page(bench: Bench) -> None:
    text = published(bench)

    of = "`latency_p50_ms` | ours, 1/s / theirs, 1/s | 1.00 x (1.00..1.00) | at most 0.5 x | MISS |  |"
    assert f"| rates.p50 | {of}" in text
    assert "| 2/s | theirs: not measured: RuntimeError: no such / database | – | – | – | – | – |" in text


def test_a_page_that_is_written_again_is_judged_by_the_rules_of_today(bench: Bench) -> None:
    published(bench)
    report = Report.decode((bench.pages / "rates.json").read_bytes())
    assert judged_again(report, bench.cases) == report

    lenient = replace(bench.cases["rates"]().targets[0], at_most=2)
    today = {**bench.cases, "rates": lambda: replace(bench.cases["rates"](), targets=[lenient])}
    [target] = judged_again(report, today).cases[0].targets
    assert (target.bound, target.passed) == ("at most 2 x", True)


def test_the_page_of_the_documentation_is_what_its_numbers_make(tmp_path: Path) -> None:
    report = Report.decode((FOLDER / "rates.json").read_bytes())

    for path in publish(judged_again(report, catalogue()), tmp_path):
        assert (FOLDER / path.name).read_bytes() == path.read_bytes(), "run python -m bench.publishing"
