"""Runs the chain of migrations inside a transaction of a framework's own migrations.

The framework runs the statements, one at a time and without parameters; it commits, and keeps its own record of applied
migrations. Ours is in `meta`, as always, so `penstock migrate` and the framework may be mixed.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.errors import InvalidInput

from .migrations import Migration, SchemaState, chain_of, drop_script, refuse_unreleased
from .naming import Names
from .statements import statement

Execute = Callable[[str], Sequence[Sequence[Any]]]  # runs one statement and returns its rows


def upgrade(dialect: str, names: Names, execute: Execute, *, to: int | None = None) -> list[Migration]:
    """Apply the missing migrations, all or up to a version, and return them. Raises InvalidInput, SchemaUnreleased."""
    steps = steps_between(dialect, names, 0, to)
    execute(statement("database", dialect, "migrations_lock", names))
    there = execute(statement("database", dialect, "meta_find", names))
    found = int(execute(statement("database", dialect, "version_read", names))[0][0]) if there else 0
    refuse_unreleased(SchemaState(found, found), chain_of(dialect, names))
    waiting = [step for step in steps if step.version > found]
    for step in waiting:
        for each in statements_of(step.script):
            execute(each)
    return waiting


def drop(dialect: str, names: Names, execute: Execute) -> None:
    """Drop every table with these names, and all their data."""
    execute(statement("database", dialect, "migrations_lock", names))
    for each in statements_of(drop_script(dialect, names)):
        execute(each)


def steps_between(dialect: str, names: Names, since: int, to: int | None = None) -> list[Migration]:
    """Return the migrations after one version and up to another (None: the newest). Raises InvalidInput."""
    steps = chain_of(dialect, names)
    first, newest = steps[0].version, steps[-1].version
    last = newest if to is None else to
    known = {0, *(step.version for step in steps)}
    if not (since <= last and {since, last} <= known):
        raise InvalidInput(
            f"no versions after {since} and up to {last}: this Penstock has {first} to {newest}; "
            "update it, or name others"
        )
    return [step for step in steps if since < step.version <= last]


def statements_of(script: str) -> Iterator[str]:
    """Yield the statements of a script, without comments; SQLite's parser finds their ends in any dialect."""
    text = ""
    for line in script.splitlines():
        if not line.lstrip().startswith("--"):
            text += f"{line}\n"
        if text.strip() and sqlite3.complete_statement(text):
            yield text.strip().removesuffix(";")
            text = ""
