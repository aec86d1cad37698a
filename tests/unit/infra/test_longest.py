"""The order in which tests begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from tests.services import longest


@dataclass(frozen=True)
class Item:
    nodeid: str


def test_the_longest_begin_first_and_the_others_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"tests/b.py": 10, "tests/c.py::test_long": 60, "tests/d/": 20, "tests/d/b.py": 5}
    monkeypatch.setattr(longest, "LONGEST_SECONDS", seconds)
    names = [
        "a.py::test_z",
        "a.py::test_a",
        "b.py::test_z",
        "b.py::test_a",
        "c.py::test_a",
        "c.py::test_long[x]",
        "d/b.py::test",
        "d/a.py::test",
    ]
    ordered = longest.longest_first(cast(Any, [Item(f"tests/{name}") for name in names]))
    assert [each.nodeid.removeprefix("tests/") for each in ordered] == [
        "c.py::test_long[x]",
        "d/a.py::test",
        "b.py::test_z",
        "b.py::test_a",
        "d/b.py::test",
        "a.py::test_z",
        "a.py::test_a",
        "c.py::test_a",
    ]
