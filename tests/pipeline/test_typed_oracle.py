"""Typed columns against plain Python: the same verdict and values, for what hypothesis makes."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from penstock.errors import NoColumns
from penstock.pipeline import decode
from penstock.pipeline.lake.reconcile.field_values import agrees
from penstock.pipeline.lake.typed.decoding import typed_columns
from tests.pipeline.typed_events import REJECTED, Closed, Everything, Model, Placed, oracle
from tests.services.budget import Budget

pytestmark = pytest.mark.slow
GOOD: dict[type, dict[str, Any]] = {
    Everything: {
        "orderId": 1,
        "name": "ü😀",
        "price": "12.50",
        "ratio": 1,
        "paid": True,
        "placedAt": "2024-01-02T03:04:05.123456+02:00",
        "day": "2024-02-29",
        "token": "12345678123456781234567812345678",
        "color": "blue ü",
        "level": 2,
        "size": "m",
        "address": {"street": "x"},
        "tags": ["a", "b"],
        "byName": {"k": 1},
        "note": None,
    },
    Placed: {"order_id": "o", "total": 3},
    Closed: {},
    Model: {"orderId": 1, "price": "1.25", "at": "2024-01-02T03:04:05Z"},
}
OPTIONAL = ["local", "blob", "many", "names", "places", "either", "count", "code", "at", "lines", "a", "type"]
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
dates = st.datetimes(min_value=dt.datetime(1, 1, 3), max_value=dt.datetime(9999, 12, 29))  # noqa: DTZ001
zones = st.integers(-18 * 60, 18 * 60).map(lambda each: dt.timezone(dt.timedelta(minutes=each)))
likely = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    text,
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.decimals(-(10**6), 10**6, places=2).map(str),
    st.builds(lambda moment, zone: moment.replace(tzinfo=zone).isoformat(), dates, zones),
    st.dates().map(str),
    st.uuids().map(str),
    st.sampled_from(["red", "s", "2024-02-30", "2024-02-30T00:00:00Z", "aGk=", "aGk", "NaN", "1e3", 1, 2, {}]),
)
values = st.recursive(
    likely,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["street", "number", "name", "1", "-5", "sku"]), inner, max_size=3)
    ),
    max_leaves=4,
)


def documents(cls: type) -> st.SearchStrategy[list[bytes]]:
    """Return values of which most nearly fit: a good one with some fields changed, missing or added."""
    good = GOOD[cls]
    changes = st.dictionaries(st.sampled_from([*good, *OPTIONAL]), values, max_size=2)
    without = st.sets(st.sampled_from([*good, "x"]), max_size=1)
    document = st.builds(
        lambda change, gone: json.dumps({k: v for k, v in (good | change).items() if k not in gone}).encode(),
        changes,
        without,
    )
    torn = st.builds(lambda data, at: data[: at % (len(data) + 1)], document, st.integers(0, 500))
    return st.lists(
        st.one_of(document, document, document, document, torn, st.binary(max_size=4)), min_size=150, max_size=150
    )


def check(spark: Any, cls: type, data: list[bytes]) -> None:
    frame = spark.createDataFrame([(each,) for each in data], "value binary")
    for value, row in zip(data, decode(frame, cls).toArrow().to_pylist(), strict=True):
        wanted = oracle(cls, value)
        rejected = row["rejected"]
        assert (rejected is None) == (wanted is not REJECTED), (value, rejected, wanted)
        if rejected is None:
            found = {name: _plain(each) for name, each in row.items() if name not in ("value", "rejected")}
            assert {name: _alike(found[name], each) for name, each in wanted.items()} == wanted, value
            assert agrees(value, {name: row[name] for name in found}), "what reconcile says of it"
        else:
            assert all(each is None for name, each in row.items() if name not in ("value", "rejected"))


def _plain(value: Any) -> Any:
    """Return a value of Arrow's as Python's: maps are lists of pairs there."""
    if isinstance(value, list):
        pairs = value and all(isinstance(each, tuple) for each in value)
        return {key: _plain(each) for key, each in value} if pairs else [_plain(each) for each in value]
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, dict) else value


def _alike(found: Any, wanted: Any) -> Any:
    """Return what was found in the form of what is wanted, where two forms mean the same."""
    if found == [] and wanted == {}:
        return {}
    if isinstance(found, str) and not isinstance(wanted, str | None):
        return json.loads(found)  # JSON text of a field with several types
    if isinstance(found, str) and found.startswith('"') and json.loads(found) == wanted:
        return wanted
    if isinstance(found, list) and isinstance(wanted, list) and all(isinstance(each, str) for each in found):
        return sorted(found) if sorted(found) == sorted(wanted) == wanted else found
    if isinstance(found, dict) and isinstance(wanted, dict):
        return {key: _alike(each, wanted.get(key)) for key, each in found.items()}
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        return [_alike(each, other) for each, other in zip(found, wanted, strict=True)]
    return found


@pytest.mark.parametrize("cls", GOOD, ids=lambda cls: cls.__name__)
def test_columns_and_verdicts_are_those_of_plain_python(spark: Any, cls: type, budget: Budget) -> None:
    @settings(
        max_examples=2,  # the first is always the simplest there is
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
        database=None,
    )
    @given(documents(cls))
    def run(data: list[bytes]) -> None:
        check(spark, cls, [json.dumps(GOOD[cls]).encode(), *data])

    for each in budget("pipeline.typed"):
        seed(each.seed)(run)()


def test_the_edges_of_each_type_are_those_of_plain_python(spark: Any) -> None:
    edges: dict[str, list[Any]] = {
        "orderId": [2**63 - 1, -(2**63), 2**63, 1.0, "1", True, None],
        "name": [5, "", "a\x00b", "😀" * 50, None],
        "price": [
            "1E+3",
            "1e-18",
            "1e-19",
            "0E-20",
            "99999999999999999999",
            "100000000000000000000",
            "NaN",
            12.5,
            "abc",
        ],
        "ratio": [1.7976931348623157e308, 5e-324, 0.1, -0.0, "1"],
        "placedAt": [
            "2024-01-02 03:04:05.1-0530",
            "2024-01-02t03:04:05z",
            "2024-01-02T24:00:00Z",
            "2024-01-02T03:04:60Z",
            "0000-01-02T03:04:05Z",
            "1969-12-31T23:59:59.999999Z",
            "1582-10-10T00:00:00Z",
            5,
        ],
        "day": ["0001-01-01", "9999-12-31", "2023-02-29", "2024-1-1", "1582-10-10"],
        "blob": ["", "aGk=", "aGk", "a Gk="],
        "tags": [[], ["a", None], ["a", 1], {}, None],
        "byName": [{}, {"k": None}, {"k": 1.5}, []],
        "places": [None, {"1": [{"street": "a"}, None]}, {"01": []}, {"x": []}],
        "either": [1, "s", 1.5, None, [1]],
        "count": [0, 100, -1, 101],
        "code": ["", "abc", "abcd"],
    }
    good = GOOD[Everything]
    whole = json.dumps(good).encode()
    data = [json.dumps(good | {name: each}).encode() for name, some in edges.items() for each in some]
    data += [whole + b" x", whole + b",{}", whole + b"]", b" \n" + whole, b"\xef\xbb\xbf" + whole, b"", b"{}", b"[]"]
    data += [
        whole.replace(b'"ratio": 1', each) for each in (b'"ratio": NaN', b'"ratio": 1e400', b'"ratio": 1, "ratio": 2')
    ]
    data += [whole.replace(b"\\ud83d\\ude00", b"\\ud83d"), whole.replace(b"\\u00fc", b"\xff")]
    check(spark, Everything, data)


def test_what_a_column_cannot_hold_exactly_is_rejected_though_python_takes_it(spark: Any) -> None:
    good = GOOD[Everything]
    changes = [
        {"placedAt": "2024-01-02T03:04:05"},
        {"placedAt": "2024-01-02T03:04:05.1234567Z"},
        {"cents": "1.505"},
        {"cents": "10000000000.00"},
    ]
    data = [json.dumps(good | each).encode() for each in changes]
    frame = spark.createDataFrame([(each,) for each in data], "value binary")
    said = [row["rejected"] for row in decode(frame, Everything).toArrow().to_pylist()]
    assert ["offset" in each or "digits" in each for each in said] == [True] * 4, said


def test_a_class_that_has_no_columns_is_refused_by_name() -> None:
    class Tree:
        pass

    with pytest.raises(NoColumns, match="Tree has no columns"):
        typed_columns(Tree, [])
