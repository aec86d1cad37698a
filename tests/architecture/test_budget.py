"""The tables of rounds and of long tests, and the tests themselves, name the same things."""

from __future__ import annotations

import re
from pathlib import Path

from tests.services.budget import read_table
from tests.services.longest import LONGEST_SECONDS

TESTS = Path(__file__).resolve().parents[1]
ASKED = re.compile(r"""\bbudget\(\s*["']([^"']+)["']""")


def asked_names() -> set[str]:
    sources = (path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    return {name for source in sources for name in ASKED.findall(source)}


def test_every_budget_is_asked_for_by_a_test() -> None:
    unused = set(read_table()) - asked_names()
    assert not unused, f"tests/budget.toml has tables no test asks for: {sorted(unused)}"


def test_every_budget_a_test_asks_for_is_in_the_table() -> None:
    unknown = asked_names() - set(read_table())
    assert not unknown, f"tests/budget.toml lacks: {sorted(unknown)}"


def test_what_is_said_to_take_longest_is_there() -> None:
    for name in LONGEST_SECONDS:
        place, _, test = name.partition("::")
        found = TESTS.parent / place
        assert found.is_dir() if place.endswith("/") else f"def {test}" in found.read_text("utf-8"), name
