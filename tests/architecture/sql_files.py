"""Rules on SQL files: a database administrator reviews them without Python."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from penstock.database.second_forms import read_form
from penstock.database.statements import split

# What a statement's first lines must speak of: what it locks, or which way it walks.
_SAYS = re.compile(r"\b(lock(s|ed)?|walks?|probes?|takes?|appends?|reads?|writes|waits?)\b", re.IGNORECASE)
_INDEX = re.compile(r"\bix_\w+")
_LOCKS_IN = re.compile(r"\bIN\s*\(\s*SELECT[^;]*\bFOR UPDATE", re.IGNORECASE)
_QUOTED = re.compile(r"'[^']*'")


def breaches(root: Path) -> Iterator[str]:
    """Yield one sentence for each breach in a statement; drop and migrations are scripts and free."""
    for path in sorted(root.rglob("*.sql")):
        if path.parent.name == "sql":
            for what in _faults_of_file(path.read_text("utf-8"), _indexes(root, path.stem)):
                yield f"{path.relative_to(root)}: {what}"
        elif path.name != "drop.sql" and path.parent.name != "migrations":
            yield f"{path.relative_to(root)}: statements are in common.sql and one file a dialect"


def _faults_of_file(text: str, indexes: set[str]) -> Iterator[str]:
    if statements_of(text.partition("-- name: ")[0]):
        yield "a statement has no name"
    parts = list(split(text))
    for name, count in Counter(name for name, _ in parts).items():
        if count > 1:
            yield f"{name} is there {count} times"
    for name, part in parts:
        for what in _faults(part, indexes):
            yield f"{name} {what}"


def _faults(text: str, indexes: set[str]) -> Iterator[str]:
    opening = " ".join(_opening(text.splitlines()))
    if not opening:
        yield "does not begin with a comment"
    elif not _SAYS.search(opening):
        yield "does not say in its first lines what it locks or walks"
    for name in sorted(set(_INDEX.findall(opening)) - indexes):
        yield f"speaks of the index {name}, which the schema does not have"
    statements = statements_of(text)
    declared = not statements and read_form(text) is not None  # the files of dialects have the text
    if len(statements) != 1 and not declared:
        yield f"has {len(statements)} statements, not one"
    if any(_LOCKS_IN.search(each) for each in statements):
        yield "locks in an IN (SELECT …): a plan may run that again for each row; use = ANY(ARRAY(SELECT …))"


def _opening(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("--"):
            return
        yield line.removeprefix("--").strip()


def statements_of(text: str) -> list[str]:
    """Return the statements of a text without comments and what is in quotes."""
    body = _QUOTED.sub("''", "\n".join(line.partition("--")[0] for line in text.splitlines()))
    return [part for part in body.split(";") if part.strip()]


def _indexes(root: Path, dialect: str) -> set[str]:
    """Return the indexes that the migrations of a dialect create; `common`: those of every dialect."""
    folders = (root / "database").glob("*/migrations" if dialect == "common" else f"{dialect}/migrations")
    chains = ("\n".join(path.read_text("utf-8") for path in folder.glob("*.sql")) for folder in folders)
    return set.intersection(*(set(re.findall(r"CREATE (?:UNIQUE )?INDEX (ix_\w+)", text)) for text in chains))
