"""Rules on migrations: what takes something away says which code can no longer use the tables."""

import re
from collections.abc import Iterator
from pathlib import Path

from penstock.database.hosted import statements_of

_FILE = re.compile(r"(\d{4})_\w+")
_RAISES = re.compile(r"UPDATE penstock_meta SET value = '(\d+)' WHERE name = 'usable_from'")
_STATES = re.compile(r"'usable_from', '(\d+)'")
_VIEW = re.compile(r"\b(DROP|CREATE) VIEW (?:IF EXISTS )?(\w+)", re.IGNORECASE)
_TAKES_AWAY = {
    "drops something": re.compile(r"\bDROP\b", re.IGNORECASE),
    "renames something": re.compile(r"\bRENAME\b", re.IGNORECASE),
    "alters a column": re.compile(r"\bALTER COLUMN\b", re.IGNORECASE),
    "adds a column that older code does not fill": re.compile(
        r"\bADD COLUMN\b(?=.*\bNOT NULL\b)(?!.*\bDEFAULT\b)", re.IGNORECASE | re.DOTALL
    ),
}


def breaches(root: Path) -> Iterator[str]:
    """Yield one sentence for each migration that takes away in silence, and each number that cannot be."""
    for folder in sorted(root.glob("database/*/migrations")):
        first, *later = sorted(folder.glob("*.sql"))
        stated = _STATES.search(first.read_text("utf-8"))
        usable_from = int(stated[1]) if stated else 0
        if usable_from != _number(first):
            yield f"{first.relative_to(root)}: makes all tables and says usable_from {usable_from}"
        for path in later:
            text = path.read_text("utf-8")
            raised = _RAISES.search(text)
            for what in _faults(text, _number(path), usable_from):
                yield f"{path.relative_to(root)}: {what}"
            usable_from = int(raised[1]) if raised else usable_from


def _number(path: Path) -> int:
    named = _FILE.match(path.stem)
    assert named is not None, f"{path} has no number"
    return int(named[1])


def _faults(text: str, version: int, usable_from: int) -> Iterator[str]:
    raised = _RAISES.search(text)
    if raised is None:
        for what in sorted({what for each in statements_of(text) for what in _taken_away(each, text)}):
            yield f"{what} and does not raise usable_from"
    elif not usable_from < int(raised[1]) <= version:
        yield f"raises usable_from from {usable_from} to {raised[1]}, which is not up to {version}"


def _taken_away(statement: str, script: str) -> Iterator[str]:
    view = _VIEW.match(statement)
    made = {name for kind, name in _VIEW.findall(script) if kind.upper() == "CREATE"}
    if view is not None and view[2] in made:
        return  # it is made anew
    yield from (what for what, pattern in _TAKES_AWAY.items() if pattern.search(statement))
