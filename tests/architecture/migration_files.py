"""Rules on migrations: what takes something away says which code can no longer use the tables.

From version 9 on: version 8 brought the fact `usable_from` into the tables.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from penstock.database.hosted import statements_of

_FIRST = 9
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
        usable_from = 0
        for path in sorted(folder.glob("*.sql")):
            text = path.read_text("utf-8")
            stated = _STATES.search(text)
            usable_from = int(stated[1]) if stated else usable_from
            named = _FILE.match(path.stem)
            if named is None or int(named[1]) < _FIRST:
                continue
            raised = _RAISES.search(text)
            for what in _faults(text, int(named[1]), usable_from):
                yield f"{path.relative_to(root)}: {what}"
            usable_from = int(raised[1]) if raised else usable_from
        in_schema = _STATES.search((folder.parent / "schema.sql").read_text("utf-8"))
        if in_schema is not None and int(in_schema[1]) != usable_from:
            schema = (folder.parent / "schema.sql").relative_to(root)
            yield f"{schema}: says usable_from {in_schema[1]}, the migrations say {usable_from}"


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
