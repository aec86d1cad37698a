"""Every series stands in the one table, is named like the others and explained."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from penstock import metrics
from penstock.metrics import Series, SeriesKind
from tests.architecture.source import ROOT, assert_none, modules, nodes, plant, room_of


def made_elsewhere(root: Path) -> Iterator[str]:
    """Yield the places outside `metrics.py` that make a series."""
    for path in modules(root):
        if room_of(path, root) == "metrics":
            continue
        for node in nodes(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Series":
                yield f"{path.relative_to(root)}:{node.lineno}"


def breaches(declared: Iterable[Series], table: tuple[Series, ...]) -> Iterator[str]:
    """Yield one sentence for each series that is missing from the table, badly named or not explained."""
    for series in declared:
        if series not in table:
            yield f"{series.name} is not in SERIES"
        if not series.name.startswith("penstock_"):
            yield f"{series.name} does not begin with penstock_"
        if series.name.endswith("_total") != (series.kind is SeriesKind.COUNTER):
            yield f"{series.name}: a counter, and nothing else, ends in _total"
        if series.kind is SeriesKind.HISTOGRAM and not series.name.endswith("_seconds"):
            yield f"{series.name}: a histogram has its unit in its name"
        if not series.help.endswith("."):
            yield f"{series.name} is not explained by a sentence"
    names = [series.name for series in table]
    if len(names) != len(set(names)):
        yield "two series have one name"


def test_every_series_keeps_the_rules() -> None:
    declared = [thing for thing in vars(metrics).values() if isinstance(thing, Series)]
    assert_none(breaches(declared, metrics.SERIES))
    assert len(declared) == len(metrics.SERIES)


def test_a_series_is_made_in_the_one_table_only(tmp_path: Path) -> None:
    assert list(made_elsewhere(ROOT)) == []
    plant(tmp_path, "log/x.py", "from penstock import metrics\nX = metrics.Series('penstock_x', 1, 'X.')")
    plant(tmp_path, "metrics.py", "Y = Series('penstock_y', 1, 'Y.')")
    assert list(made_elsewhere(tmp_path)) == ["log/x.py:2"]


@pytest.mark.parametrize(
    ("series", "words"),
    [
        (Series("published_total", SeriesKind.COUNTER, "Events."), "begin with penstock_"),
        (Series("penstock_published", SeriesKind.COUNTER, "Events."), "ends in _total"),
        (Series("penstock_depth_total", SeriesKind.GAUGE, "Events."), "ends in _total"),
        (Series("penstock_wait", SeriesKind.HISTOGRAM, "Waiting."), "unit in its name"),
        (Series("penstock_depth", SeriesKind.GAUGE, ""), "not explained"),
    ],
    ids=lambda case: getattr(case, "name", case),
)
def test_a_planted_breach_is_found(series: Series, words: str) -> None:
    (found,) = breaches([series], (series,))
    assert words in found


def test_a_series_outside_the_table_or_twice_in_it_is_found() -> None:
    series = Series("penstock_depth", SeriesKind.GAUGE, "Events waiting.")
    assert list(breaches([series], ())) == ["penstock_depth is not in SERIES"]
    assert list(breaches([series], (series, series))) == ["two series have one name"]
