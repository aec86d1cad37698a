"""Decisions are numbered without gaps over both folders, listed, and answer the same four questions."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.architecture.source import assert_none
from tests.docs.pages import PROJECT, prose

FOLDER = PROJECT / "docs" / "decisions"
QUESTIONS = ["Context", "Choice", "Cost", "What would change our mind"]
# The list on the start page is for a newcomer; the archive has a list of its own.
MOST_ON_THE_START_PAGE = 40
_FILE = re.compile(r"(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md")


def decisions(folder: Path) -> list[Path]:
    """Return the decisions of a folder and of its archive, by number."""
    found = chain(folder.glob("*.md"), folder.glob("archive/*.md"))
    return sorted((path for path in found if path.name != "README.md"), key=lambda path: path.name)


def breaches(folder: Path) -> Iterator[str]:
    """Yield one sentence for each decision that is out of number or does not answer the questions."""
    for wanted, path in enumerate(decisions(folder), 1):
        named = _FILE.fullmatch(path.name)
        if named is None or int(named[1]) != wanted:
            yield f"{path.name} should be {wanted:04}-its-title.md"
        text = path.read_text("utf-8")
        asked = [line.removeprefix("## ") for _, line in prose(text) if line.startswith("## ")]
        if asked != QUESTIONS:
            yield f"{path.name} has the headings {asked}, not {QUESTIONS}"
        if not text.startswith(f"# {wanted:04}: "):
            yield f"{path.name} begins with its number and title: '# {wanted:04}: …'"


def unlisted(index: Path, folder: Path) -> Iterator[str]:
    """Yield one sentence for each decision of a folder that its index does not list under its title."""
    lines = index.read_text("utf-8").splitlines()
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text("utf-8").splitlines()[0].removeprefix("# ")
        entry = f"- [{title}]({path.relative_to(index.parent).as_posix()})"
        if entry not in lines:
            yield f"{index.name} lacks the line '{entry}'"


def test_every_decision_keeps_the_rules() -> None:
    assert_none(breaches(FOLDER))
    assert any(FOLDER.iterdir())


def test_every_decision_is_listed_under_its_title() -> None:
    assert_none(unlisted(PROJECT / "docs" / "README.md", FOLDER))
    assert_none(unlisted(FOLDER / "archive" / "README.md", FOLDER / "archive"))


def test_the_start_page_lists_few_decisions() -> None:
    assert len(list(FOLDER.glob("*.md"))) <= MOST_ON_THE_START_PAGE


def a_decision(number: int, questions: list[str]) -> str:
    return f"# {number:04}: Title\n\n" + "\n\n".join(f"## {each}\n\nText." for each in questions)


@pytest.mark.parametrize("folder", [".", "archive"])
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("0003-gap.md", a_decision(2, QUESTIONS), "should be 0002"),
        ("0001-twice.md", a_decision(2, QUESTIONS), "should be 0002"),
        ("0002_underscore.md", a_decision(2, QUESTIONS), "should be 0002"),
        ("0002-short.md", a_decision(2, QUESTIONS[:3]), "has the headings"),
        ("0002-other.md", a_decision(7, QUESTIONS), "begins with its number"),
    ],
)
def test_a_planted_breach_is_found(name: str, text: str, words: str, folder: str, tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "0001-first.md").write_text(a_decision(1, QUESTIONS), "utf-8")
    assert list(breaches(tmp_path)) == []
    (tmp_path / folder / name).write_text(text, "utf-8")
    (found,) = breaches(tmp_path)
    assert words in found


@pytest.mark.parametrize("line", ["", "- [0001: Another](decisions/0001-first.md)", "- [0001: Title](0001-first.md)"])
def test_a_planted_decision_without_its_line_is_found(line: str, tmp_path: Path) -> None:
    index, folder = tmp_path / "README.md", tmp_path / "decisions"
    folder.mkdir()
    (folder / "0001-first.md").write_text(a_decision(1, QUESTIONS), "utf-8")
    index.write_text("- [0001: Title](decisions/0001-first.md)\n", "utf-8")
    assert list(unlisted(index, folder)) == []
    index.write_text(line, "utf-8")
    assert len(list(unlisted(index, folder))) == 1
