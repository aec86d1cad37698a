"""The page of promises names tests that exist, and for each promise some of the fast set."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import SLOW_FOLDERS
from tests.docs.pages import PROJECT

PAGE = (PROJECT / "docs" / "why" / "promises.md").read_text("utf-8")
FAST = dict(re.findall(r"^\| (P\d): [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE))
NAMED = [(promise, *each) for promise, said in FAST.items() for each in re.findall(r"`(\S+)::(\w+)`", said)]


@cache
def parsed(path: Path) -> ast.Module:
    """Return a file's code."""
    return ast.parse(path.read_text("utf-8"))


def is_slow(path: Path, test: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether all of a test is in the slow set: by its folder, its file or itself."""
    whole = [node.value for node in parsed(path).body if isinstance(node, ast.Assign) and _is_marks(node)]
    marks = [ast.unparse(each) for each in (*whole, *test.decorator_list)]
    return str(path).startswith(SLOW_FOLDERS) or any(
        re.search(r"mark\.(slow|long)\b", each) and "parametrize" not in each for each in marks
    )


def _is_marks(node: ast.Assign) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "pytestmark" for each in node.targets)


def found(path: Path, name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the tests of a name in a file, of a class or alone."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in ast.walk(parsed(path)) if isinstance(node, kinds) and node.name == name]


def test_every_promise_of_the_design_has_fast_tests() -> None:
    assert sorted({promise for promise, _, _ in NAMED}) == [f"P{number}" for number in range(1, 10)]


@pytest.mark.parametrize(("promise", "path", "name"), NAMED, ids=[f"{p}-{name}" for p, _, name in NAMED])
def test_a_named_test_is_there_and_fast(promise: str, path: str, name: str) -> None:
    (test,) = found(PROJECT / path, name)
    assert not is_slow(PROJECT / path, test)


def test_a_slow_test_and_a_missing_one_are_told_apart() -> None:
    """The check itself: it would find both."""
    delivery = PROJECT / "tests" / "property" / "test_delivery.py"
    (slow,) = found(delivery, "test_delivery_keeps_its_promises_in_ten_thousand_steps")
    assert is_slow(delivery, slow)
    assert found(delivery, "test_nothing_of_the_kind") == []
