"""A name means one thing, a logger is not a log, and words that were given up stay away."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.architecture.names import RETIRED, SHARED, classes, loggers, retired_words
from tests.architecture.source import PROJECT, ROOT, assert_none, plant


def alone(root: Path) -> Iterator[str]:
    """Look for classes with the same name in a tree that needs no exceptions."""
    return classes(root, {})


TWICE: dict[str, tuple[str, str]] = {
    "classes of two rooms": ("class Head: ...", "class Head: ..."),
    "a private one": ("class Head: ...", "class _Head: ..."),
    "a type with a name": ("class Place: ...", "Place = tuple[int, int]  # partition, offset"),
    "a union with a name": ("class Outcome: ...", "Outcome = int | str"),
    "an alias that is no old name": ("class Head: ...", "class LogHead: ...\nHead = LogHead"),
    "a class in a function": ("class Head: ...", "def f():\n    class Head: ..."),
    "two in one file": ("", "class Head: ...\ndef f():\n    class Head: ..."),
}
ONCE: dict[str, tuple[str, str]] = {
    "different names": ("class Head: ...", "class LogHead: ..."),
    "an old name": ("class Head: ...", "class HeadShown: ...\nHead = HeadShown  # the old name"),
    "constants and variables": ("HEAD = x[0]\nhead = x[1]", "HEAD = x[0]\nhead = x[1]"),
    "type variables": ('T = TypeVar("T")', 'T = TypeVar("T")'),
}


@pytest.mark.parametrize("rule", [classes, loggers])
def test_the_rule_holds_in_the_house(rule: Callable[[Path], Iterator[str]]) -> None:
    assert_none(rule(ROOT))


@pytest.mark.parametrize("folder", [ROOT, PROJECT / "docs"], ids=["src", "docs"])
def test_words_that_were_given_up_are_not_used(folder: Path) -> None:
    assert_none(retired_words(folder))


def test_every_exception_has_its_reason() -> None:
    assert all(SHARED.values())


@pytest.mark.parametrize("texts", TWICE.values(), ids=list(TWICE))
def test_a_planted_second_meaning_is_found(texts: tuple[str, str], tmp_path: Path) -> None:
    plant(tmp_path, "log/x.py", texts[0])
    plant(tmp_path, "worker/x.py", texts[1])
    (found,) = alone(tmp_path)
    assert found.startswith("worker/x.py:")


@pytest.mark.parametrize("texts", ONCE.values(), ids=list(ONCE))
def test_a_lawful_name_is_not_reported(texts: tuple[str, str], tmp_path: Path) -> None:
    plant(tmp_path, "log/x.py", texts[0])
    plant(tmp_path, "worker/x.py", texts[1])
    assert list(alone(tmp_path)) == []


def test_an_exception_that_nothing_needs_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "log/x.py", "class Head: ...")
    assert list(classes(tmp_path, {"Head": "a reason"})) == ["Head may be shared, and is not"]


@pytest.mark.parametrize(
    "line",
    [
        'log = logging.getLogger("penstock")',
        "_logger = getLogger(__name__)",
        "log: Logger = logging.getLogger(__name__)",
        "class C:\n    def f(self):\n        self.log = logging.getLogger()",
    ],
)
def test_a_planted_logger_of_another_name_is_found(line: str, tmp_path: Path) -> None:
    plant(tmp_path, "log/x.py", line)
    (found,) = loggers(tmp_path)
    assert found.startswith("log/x.py:")


@pytest.mark.parametrize(
    "line", ["logger = logging.getLogger(__name__)", "logging.getLogger().setLevel(10)", "log = open_log()"]
)
def test_a_lawful_logger_or_log_is_not_reported(line: str, tmp_path: Path) -> None:
    plant(tmp_path, "log/x.py", line)
    assert list(loggers(tmp_path)) == []


@pytest.mark.parametrize("word", RETIRED)
def test_a_planted_word_is_found_alone_and_within_a_name(word: str, tmp_path: Path) -> None:
    plant(tmp_path, "x.md", f"The {word}s of the house.")
    plant(tmp_path, "x.py", f"class Big{word.title()}Loop: ...")
    plant(tmp_path, "x.sql", f"SELECT {word}_id")
    plant(tmp_path, "y.md", "shelves" if word == "shelf" else word.upper())
    assert [each.partition(":")[0] for each in retired_words(tmp_path)] == ["x.md", "x.py", "x.sql", "y.md"]


def test_a_harmless_word_is_not_reported(tmp_path: Path) -> None:
    plant(tmp_path, "x.md", "The gateway aggregates what it hears, is patient and early; shelfless pumpkins.")
    assert list(retired_words(tmp_path)) == []
