"""What a statement is written with has a second form, so that a database without it can come as a dialect."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from penstock.database.second_forms import SecondForm, read_form
from penstock.database.statements import split
from tests.architecture.sql_files import statements_of

# Those that need no second form, each with the reason.
EXCEPTIONS = {
    "log/move_at_once": "outbox/sequencer.py moves step by step where something is lacking",
    "log/move_scheduled": "outbox/move.py moves by ids where a write cannot feed another",
    "log/move_staged": "outbox/move.py moves by ids where a write cannot feed another",
    "outbox/token_take": "runs on the caller's connection, for which a database brings an adapter of its own",
    "outbox/token_take_many": "runs on the caller's connection, by adapters for PostgreSQL",
}
_TABLE_FIRST = ("for_each", "update_or_insert_each")  # their first argument is a parameter
_WITHIN = re.compile(r"\(([^()]*)\)")
_WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE)\b")
_PATTERNS = {
    "returning": re.compile(r"\bRETURNING\b"),
    "on_conflict": re.compile(r"\bON CONFLICT\b"),
    "update_from": re.compile(r"\bUPDATE\b(?!.*\bUPDATE\b).*\bSET\b.*\bFROM\b|\bDELETE\b.*\bUSING\b", re.DOTALL),
}


def breaches(root: Path, exceptions: Mapping[str, str] = EXCEPTIONS) -> Iterator[str]:
    """Yield a sentence per statement without a second form, or with one that cannot do without either."""
    needed = set()
    for folder in sorted(root.glob("*/sql")):
        room = folder.parent.name
        common = _read(folder / "common.sql")
        for path in sorted(folder.glob("*.sql")):
            for name, text in _read(path).items():
                missing = _missing(name, text, common, is_common=path.stem == "common")
                if missing and f"{room}/{name}" in exceptions:
                    needed.add(f"{room}/{name}")
                elif missing:
                    yield f"{room}/sql/{path.name}: {name} has no second form without {', '.join(missing)}"
        for name, text in common.items():
            yield from (f"{room}/sql/common.sql: {name} {what}" for what in _faults(text, common))
    for name in sorted(exceptions.keys() - needed):
        yield f"{name} is no longer an exception"


def features(text: str) -> set[str]:
    """Return what a text is written with; each level of parentheses is looked at by itself."""
    found = set()
    for level, part in enumerate(_levels(text)):
        found |= {name for name, pattern in _PATTERNS.items() if pattern.search(part)}
        if level and _WRITES.match(part):
            found.add("writing_with")
    return found


def _missing(name: str, text: str, common: Mapping[str, str], *, is_common: bool) -> list[str]:
    """Return what a statement is written with and has no way to do without."""
    form = read_form(common.get(name, ""))
    without = set(form.without) if form else set()
    if not is_common and statements_of(common.get(name, "")):
        return sorted(features(text) & features(common[name]) - without)
    return sorted(features(text) - without)


def _faults(text: str, common: Mapping[str, str]) -> Iterator[str]:
    form = read_form(text)
    for name in _portable(form) if form else ():
        if not statements_of(common.get(name, "")):
            yield f"has a second form with {name}, which is not there"
        elif features(common[name]):
            yield f"has a second form with {name}, which is not portable: {', '.join(features(common[name]))}"


def _portable(form: SecondForm) -> tuple[str, ...]:
    return form.arguments[1:] if form.function in _TABLE_FIRST else form.arguments


def _levels(text: str) -> Iterator[str]:
    """Yield the text outside all parentheses, then what is in each pair without what is in pairs within."""
    within: list[str] = []
    (outside,) = statements_of(text) or [""]
    while found := _WITHIN.search(outside):
        within.append(found[1])
        outside = f"{outside[: found.start()]} {outside[found.end() :]}"
    yield outside
    yield from within


def _read(path: Path) -> dict[str, str]:
    return dict(split(path.read_text("utf-8"))) if path.exists() else {}
