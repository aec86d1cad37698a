"""A remedy destroys nothing, or says what it destroys: a command that deletes stands beside its warning."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "penstock"
# The command, and the words one of which must stand in the same function's messages.
DESTROYS = {
    r"groups delete": r"deletes its offsets",
    r"topics (delete|clear)": r"which deletes",
    r"--rebuild": r"stay|keep|old one",
    r"--drop-old": r"needed|until you|look at what",
    r"--from-table": r"keep|stay|as they were",
    r"--allow-loss": r"without them",
    r"penstock restored": r"accept|lost",
    r"penstock retain": r"deletes them",
    r"penstock drop": r"lost|asks",
    r"groups reset": r"without the records|passes over|again",
    r"rm -r|remove the directory|remove it\b": r"unreadable|nothing",
}
# The commands themselves, whose help says what they do, and the values that a message is made from.
EXEMPT = ("cli/", "testing/", "django/tables.py", "pipeline/lake/paths.py", "operate/why/history.py")


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield the strings of each function as one text, without its docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.get_docstring(node, clean=False)
            found = (each for each in ast.walk(node) if isinstance(each, ast.Constant))
            texts = [each.value for each in found if isinstance(each.value, str) and each.value != said]
            yield node.lineno, " ".join(" ".join(texts).split())


def unwarned(source: str) -> list[str]:
    return [
        f"line {line}: {command}"
        for line, text in messages(source)
        for command, warning in DESTROYS.items()
        if re.search(command, text) and not re.search(warning, text)
    ]


def files() -> list[Path]:
    found = sorted(PACKAGE.rglob("*.py"))
    return [each for each in found if not str(each.relative_to(PACKAGE)).startswith(EXEMPT)]


def test_a_remedy_that_destroys_stands_beside_its_warning() -> None:
    bare = {str(each.relative_to(PACKAGE)): unwarned(each.read_text("utf-8")) for each in files()}
    assert {name: lines for name, lines in bare.items() if lines} == {}


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("make it again: penstock pipeline reset --rebuild", 1),
        ("make it again, while the old one stays: penstock pipeline reset --rebuild", 0),
        ("or `penstock topics delete orders`", 1),
    ],
)
def test_a_planted_remedy_is_found(planted: str, found: int) -> None:
    assert len(unwarned(f'def refuse():\n    """Say it."""\n    raise Refused("{planted}")\n')) == found
