"""Decisions are numbered without gaps and each answers the same four questions."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import assert_none
from tests.docs.pages import PROJECT, prose

FOLDER = PROJECT / "docs" / "decisions"
QUESTIONS = ["Context", "Choice", "Cost", "What would change our mind"]
_FILE = re.compile(r"(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md")


def breaches(folder: Path) -> Iterator[str]:
    """Yield one sentence for each decision that is out of number or does not answer the questions."""
    for wanted, path in enumerate(sorted(folder.glob("*.md")), 1):
        named = _FILE.fullmatch(path.name)
        if named is None or int(named[1]) != wanted:
            yield f"{path.name} should be {wanted:04}-its-title.md"
        text = path.read_text("utf-8")
        asked = [line.removeprefix("## ") for _, line in prose(text) if line.startswith("## ")]
        if asked != QUESTIONS:
            yield f"{path.name} has the headings {asked}, not {QUESTIONS}"
        if not text.startswith(f"# {wanted:04}: "):
            yield f"{path.name} begins with its number and title: '# {wanted:04}: …'"


def test_every_decision_keeps_the_rules() -> None:
    assert_none(breaches(FOLDER))
    assert any(FOLDER.iterdir())


def a_decision(number: int, questions: list[str]) -> str:
    return f"# {number:04}: Title\n\n" + "\n\n".join(f"## {each}\n\nText." for each in questions)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("0003-gap.md", a_decision(2, QUESTIONS), "should be 0002"),
        ("0002_underscore.md", a_decision(2, QUESTIONS), "should be 0002"),
        ("0002-short.md", a_decision(2, QUESTIONS[:3]), "has the headings"),
        ("0002-other.md", a_decision(7, QUESTIONS), "begins with its number"),
    ],
)
def test_a_planted_breach_is_found(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "0001-first.md").write_text(a_decision(1, QUESTIONS), "utf-8")
    assert list(breaches(tmp_path)) == []
    (tmp_path / name).write_text(text, "utf-8")
    (found,) = breaches(tmp_path)
    assert words in found
