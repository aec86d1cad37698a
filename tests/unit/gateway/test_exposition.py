"""What `/metrics` gives is read by Prometheus' own parser, whatever the names of groups and stores are."""

import math
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock import metrics
from penstock.gateway.exposition import exposition
from penstock.metrics import BOUNDS, SERIES, Series, SeriesKind

AWKWARD = 'a "quoted" \\ back\\nslash\nand a line, {braces}=é'


@pytest.fixture
def _fresh_series() -> Iterator[None]:
    for series in SERIES:
        series.reset()
    yield
    for series in SERIES:
        series.reset()


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return what the parser finds: names and labels, with their values."""
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


@pytest.mark.usefixtures("_fresh_series")
def test_every_series_of_the_table_is_read_with_its_kind_help_labels_and_value() -> None:
    for series in SERIES:
        labels = {name: f"{AWKWARD} {name}" for name in series.labels}
        match series.kind:
            case SeriesKind.COUNTER:
                series.add(3, **labels)
            case SeriesKind.GAUGE:
                series.set(-1.5, **labels)
            case SeriesKind.HISTOGRAM:
                series.observe(0.002, **labels)
    text = exposition(SERIES)
    families = {each.name: each for each in text_string_to_metric_families(text)}
    found = samples(text)
    for series in SERIES:
        family = families[series.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (series.kind.value, series.help)
        named = frozenset((name, f"{AWKWARD} {name}") for name in series.labels)
        counted = series.name + ("_count" if series.kind is SeriesKind.HISTOGRAM else "")
        wanted = {SeriesKind.COUNTER: 3, SeriesKind.GAUGE: -1.5, SeriesKind.HISTOGRAM: 1}[series.kind]
        assert found[counted, named] == wanted
    assert len(families) == len(SERIES)


def test_the_buckets_of_a_histogram_include_those_below() -> None:
    series = Series("penstock_x_seconds", SeriesKind.HISTOGRAM, "X.", ("group",))
    series.observe(0.0, BOUNDS[0], BOUNDS[0] + 1e-9, BOUNDS[-1] + 1, group="g")
    (family,) = text_string_to_metric_families(exposition([series]))
    by_bound = {each.labels["le"]: each.value for each in family.samples if each.name.endswith("_bucket")}
    counts = list(by_bound.values())
    assert [float(each) for each in by_bound] == [*BOUNDS, math.inf]
    assert counts == [2.0, *([3.0] * (len(BOUNDS) - 1)), 4.0]
    totals = {each.name: each.value for each in family.samples if not each.name.endswith("_bucket")}
    assert totals["penstock_x_seconds_count"] == 4
    assert totals["penstock_x_seconds_sum"] == pytest.approx(2 * BOUNDS[0] + BOUNDS[-1] + 1)


def test_what_has_no_label_and_was_never_counted_is_0_and_a_gauge_that_nobody_took_is_not_there() -> None:
    found = samples(
        exposition(
            [
                Series("penstock_x_total", SeriesKind.COUNTER, "X."),
                Series("penstock_x_seconds", SeriesKind.HISTOGRAM, "X."),
                Series("penstock_x", SeriesKind.GAUGE, "X."),
                Series("penstock_y_total", SeriesKind.COUNTER, "Y.", ("group",)),
            ]
        )
    )
    assert found["penstock_x_total", frozenset()] == 0
    assert found["penstock_x_seconds_count", frozenset()] == 0
    assert {name for name, _ in found if not name.startswith("penstock_x_")} == set()


def test_numbers_that_are_none_are_written_as_prometheus_reads_them() -> None:
    series = Series("penstock_x", SeriesKind.GAUGE, "A help with \\ and\na line.", ("store",))
    for name, value in {"a": math.inf, "b": -math.inf, "c": math.nan, "d": 1e20, "e": 1794885088.928}.items():
        series.set(value, store=name)
    text = exposition([series])
    assert "# HELP penstock_x A help with \\\\ and\\na line.\n" in text
    found = {dict(labels)["store"]: value for (_, labels), value in samples(text).items()}
    assert math.isnan(found.pop("c"))
    assert found == {"a": math.inf, "b": -math.inf, "d": 1e20, "e": 1794885088.928}


def test_labels_keep_the_order_of_the_table_and_lines_that_of_their_values() -> None:
    metrics.LEASE.reset()
    for name in ("b", "a"):
        metrics.LEASE.set(1, store=name)
    lines = exposition([metrics.LEASE]).splitlines()[2:]
    assert lines == ['penstock_lease_seconds{store="a"} 1', 'penstock_lease_seconds{store="b"} 1']
    metrics.LEASE.reset()
