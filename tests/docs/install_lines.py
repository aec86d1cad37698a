"""The lines that install something, on every page: in blocks and in sentences."""

import re
import shlex
from pathlib import Path

from tests.docs.pages import pages

_LINE = re.compile(r"pip install (?P<rest>\.(?=[`\s])|[^`\n#]*[^`\n# .)])")
_OURS = re.compile(r"(?:penstock-outbox|\.)(?:\[([\w,-]+)\])?")
NOT_YET = "not on PyPI yet"


def install_lines(text: str) -> list[list[str]]:
    """Return what each line of a text installs, in words."""
    return [shlex.split(match["rest"]) for match in _LINE.finditer(text)]


def all_lines() -> dict[tuple[str, ...], list[Path]]:
    """Return every distinct line of the documentation that installs Penstock, with the pages that have it."""
    found: dict[tuple[str, ...], list[Path]] = {}
    for page in pages():
        for words in install_lines(page.read_text("utf-8")):
            if any(_OURS.fullmatch(word) for word in words):
                found.setdefault(tuple(words), []).append(page)
    return found


def extras(words: tuple[str, ...]) -> set[str]:
    """Return the extras of Penstock that a line asks for."""
    given = [match[1] for word in words if (match := _OURS.fullmatch(word)) and match[1]]
    return {name for names in given for name in names.split(",")}


def distributions(words: tuple[str, ...]) -> set[str]:
    """Return the other packages that a line names."""
    return {word for word in words if not _OURS.fullmatch(word)}
