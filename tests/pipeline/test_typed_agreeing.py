"""What `reconcile` says of the fields of typed rows: a difference is one that is certain."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest

from penstock.pipeline.lake.reconcile.field_values import agrees

MOMENT = dt.datetime(2024, 1, 2, 1, 4, 5, 123456, dt.UTC)
UUID = "12345678-1234-5678-1234-567812345678"
SAME: list[tuple[Any, Any]] = [
    (5, 5),
    (1, 1.0),
    (0.1, 0.1),
    ("12.50", Decimal("12.500000")),
    (12, Decimal(12)),
    (True, True),
    ("ü😀", "ü😀"),
    ("2024-01-02T03:04:05.123456+02:00", MOMENT),
    ("2024-01-02t01:04:05.123456z", MOMENT),
    ("2024-01-02 01:04:05", dt.datetime(2024, 1, 2, 1, 4, 5)),  # noqa: DTZ001 - a column without a zone
    ("2024-02-29", dt.date(2024, 2, 29)),
    (UUID.upper().replace("-", ""), UUID),
    ("aGk=", b"hi"),
    ("hi", b"hi"),
    ({"street": "x", "more": 1}, {"street": "x", "number": None}),
    (["a", "b", "a"], ["a", "b"]),
    ({"1": [2]}, [(1, [2])]),
    ({}, []),
    ({"a": [1.50, None]}, '{"a":[1.5,null]}'),
    ("1", '"1"'),
    (3, "3"),
]
OTHER: list[tuple[Any, Any]] = [
    (5, 6),
    (1, True),
    (0.1, 0.2),
    ("12.50", Decimal("12.51")),
    (True, False),
    ("a", "A"),
    ("2024-01-02T03:04:05.123456+02:00", MOMENT + dt.timedelta(microseconds=1)),
    ("2024-02-29", dt.date(2024, 2, 28)),
    (UUID, UUID.replace("1", "2")),
    ("aGk=", b"ho"),
    ({"street": "x"}, {"street": "y"}),
    (["a", "b"], ["a"]),
    (["a"], ["a", "b"]),
    (["a", "b"], ["b", "a"]),
    ({"1": [2]}, [(1, [3])]),
    ({"1": [2]}, []),
    ({"a": [1.5]}, '{"a":[2.5]}'),
    ("1", "2"),
    (3, "4"),
    (None, 5),
]


@pytest.mark.parametrize(("said", "found"), SAME)
def test_what_a_field_says_in_another_form_is_the_same(said: Any, found: Any) -> None:
    assert agrees(json.dumps({"field": said}).encode(), {"field": found})


@pytest.mark.parametrize(("said", "found"), OTHER)
def test_what_a_field_does_not_say_is_a_difference(said: Any, found: Any) -> None:
    assert not agrees(json.dumps({"field": said}).encode(), {"field": found})


def test_what_only_the_class_knows_is_none() -> None:
    value = b'{"field": 1, "timestamp": 5}'
    assert agrees(value, {"field": None}), "the column may be younger than the row"
    assert agrees(value, {"field": 1, "with_default": 7})
    assert agrees(value, {"event_timestamp": 6})
    assert agrees(b"\xff", {"field": 2}), "a value that Python cannot read"
