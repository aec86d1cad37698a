"""The dashboard and the alert rules ask only for series and labels that are in the table."""

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from penstock.metrics import SERIES, Series, SeriesKind
from tests.docs.pages import PROJECT

FOLDER = PROJECT / "deploy" / "grafana"
OF_SCRAPES = {"instance", "job"}  # labels that Prometheus adds
VARIABLES = {"$__rate_interval": "5m", "$store": "x", "$group": "x"}


def sampled() -> dict[str, set[str]]:
    """Return the names that can be asked for, each with its labels."""
    found: dict[str, set[str]] = {}
    for series in SERIES:
        labels = set(series.labels) | OF_SCRAPES
        if series.kind is SeriesKind.HISTOGRAM:
            found |= {f"{series.name}_sum": labels, f"{series.name}_count": labels}
            found[f"{series.name}_bucket"] = labels | {"le"}
        else:
            found[series.name] = labels
    return found


def breaches(query: str) -> Iterator[str]:
    """Yield what a query asks for that is not there; one that is no PromQL raises ValueError."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    asked = list(_parts(promql_parser.parse(query)))
    labels = set[str]()
    for part in asked:
        if isinstance(part, promql_parser.VectorSelector):
            known = sampled().get(part.name or "")
            if known is None:
                yield f"{part.name} is no series"
                continue
            labels |= known
            yield from (
                f"{part.name} has no label {each.name}" for each in part.matchers.matchers if each.name not in known
            )
    for modifier in re.findall(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)", query):
        yield from (
            f"no series here has the label {each}" for each in re.findall(r"\w+", modifier) if each not in labels
        )


def _parts(expression: Any) -> Iterator[Any]:
    yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        part = getattr(expression, name, None)
        if part is not None:
            yield from _parts(part)
    for part in getattr(expression, "args", None) or ():
        yield from _parts(part)


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "penstock.json").read_text("utf-8"))
    return found


def panel_queries() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text("utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def queries() -> list[str]:
    return [*panel_queries(), *(rule["expr"] for rule in rules())]


@pytest.mark.parametrize("query", queries())
def test_a_query_asks_only_for_what_is_in_the_table(query: str) -> None:
    assert list(breaches(query)) == []


def test_the_dashboard_shows_every_series() -> None:
    shown = " ".join(panel_queries())
    assert [each.name for each in SERIES if not re.search(rf"\b{each.name}(_bucket)?\b", shown)] == []


def test_the_variables_of_the_dashboard_and_its_legends_are_labels_of_the_table() -> None:
    by_name: dict[str, Series] = {each.name: each for each in SERIES}
    asked = [each["definition"] for each in dashboard()["templating"]["list"] if "definition" in each]
    assert asked
    for each in asked:
        match = re.fullmatch(r"label_values\((\w+), (\w+)\)", each)
        assert match is not None
        assert match[2] in by_name[match[1]].labels
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert re.search(rf"by \([^)]*\b{label}\b|^penstock_\w+{{[^(]*$", target["expr"]), (label, target)


def test_every_panel_says_what_it_shows_and_has_a_place_of_its_own() -> None:
    panels = [each for each in dashboard()["panels"] if each["type"] != "row"]
    assert all(each["title"] and each["description"].endswith(".") and each["targets"] for each in panels)
    ids = [each["id"] for each in dashboard()["panels"]]
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in dashboard()["panels"]]
    assert len(set(ids)) == len(ids)
    assert len(set(places)) == len(places)


def test_every_rule_has_a_name_a_severity_a_summary_and_what_to_do() -> None:
    for rule in rules():
        assert re.fullmatch(r"Penstock[A-Z]\w+", rule["alert"])
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert set(rule["annotations"]) == {"summary", "description"}
        assert all(text.endswith(".") for text in rule["annotations"].values())
        labels = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        by = re.findall(r"by \(([^)]*)\)", rule["expr"])
        kept = {each for group in by for each in re.findall(r"\w+", group)}
        assert labels <= (kept or sampled()[re.findall(r"penstock_\w+", rule["expr"])[0]]), rule["alert"]
    assert len({rule["alert"] for rule in rules()}) == len(rules())


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("rate(penstock_nothing_total[5m])", ["penstock_nothing_total is no series"]),
        ('penstock_members{group="g"}', ["penstock_members has no label group"]),
        ("sum by (handler) (penstock_pending_records)", ["no series here has the label handler"]),
        ("penstock_handler_seconds", ["penstock_handler_seconds is no series"]),
        ('sum(rate(penstock_dead_total{key="k"}[5m])) / 2', ["penstock_dead_total has no label key"]),
        ("time() - max(up)", ["up is no series"]),
        ("histogram_quantile(0.9, penstock_x_bucket)", ["penstock_x_bucket is no series"]),
    ],
)
def test_a_planted_query_is_found(query: str, found: list[str]) -> None:
    assert list(breaches(query)) == found


def test_a_query_that_cannot_be_read_is_found() -> None:
    with pytest.raises(ValueError, match=r"."):
        list(breaches("sum by (group (penstock_members)"))
