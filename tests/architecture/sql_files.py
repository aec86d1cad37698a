"""Rules on SQL files: a database administrator reviews them without Python."""

import re
from collections.abc import Iterator
from pathlib import Path

# What a statement's first lines must speak of: what it locks, or which way it walks.
_SAYS = re.compile(r"\b(lock(s|ed)?|walks?|probes?|takes?|appends?|reads?|writes|waits?)\b", re.IGNORECASE)
_INDEX = re.compile(r"\bix_\w+")
_LOCKS_IN = re.compile(r"\bIN\s*\(\s*SELECT[^;]*\bFOR UPDATE", re.IGNORECASE)
_QUOTED = re.compile(r"'[^']*'")


def breaches(root: Path) -> Iterator[str]:
    """Yield a sentence per breach in a statement file; schema, drop and migrations are scripts and free."""
    for path in sorted(root.rglob("*.sql")):
        if path.name not in ("schema.sql", "drop.sql") and path.parent.name != "migrations":
            for what in _faults(path.read_text("utf-8"), _indexes(root, path.parent.name)):
                yield f"{path.relative_to(root)}: {what}"


def _faults(text: str, indexes: set[str]) -> Iterator[str]:
    lines = text.splitlines()
    opening = " ".join(_opening(lines))
    if not opening:
        yield "does not begin with a comment"
    elif not _SAYS.search(opening):
        yield "its first lines do not say what it locks or walks"
    for name in sorted(set(_INDEX.findall(opening)) - indexes):
        yield f"speaks of the index {name}, which the schema does not have"
    body = _QUOTED.sub("''", "\n".join(line.partition("--")[0] for line in lines)).strip()
    count = len([part for part in body.split(";") if part.strip()])
    if count != 1:
        yield f"has {count} statements, not one"
    if _LOCKS_IN.search(body):
        yield "locks in an IN (SELECT …): a plan may run that again for each row; use = ANY(ARRAY(SELECT …))"


def _opening(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("--"):
            return
        yield line.removeprefix("--").strip()


def _indexes(root: Path, dialect: str) -> set[str]:
    """Return the indexes that the one schema of a dialect creates."""
    schema = root / "log" / "sql" / dialect / "schema.sql"
    text = schema.read_text("utf-8") if schema.exists() else ""
    return set(re.findall(r"CREATE (?:UNIQUE )?INDEX (ix_\w+)", text))
