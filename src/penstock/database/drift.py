"""Drift: differences between the tables in a database and those of the migrations.

The expected columns, indexes and views are read from a scratch copy: the chain of migrations applied under
another prefix, inside a transaction that is rolled back. So the tables have one description.
"""

import re
from dataclasses import dataclass
from uuid import uuid4

from .database import Database, Transaction
from .migrations import chain_of
from .naming import Names


@dataclass(frozen=True, slots=True)
class Described:
    """A description of our tables, views and functions, by names without prefix."""

    tables: dict[str, set[tuple[str, ...]]]  # columns and indexes of each table
    defined: dict[tuple[str, str], str]  # definition of each view and function


def differences(database: Database) -> list[str]:
    """Return a sentence for each missing or differing object."""
    names, expected = database.names, _expected(database)
    actual = database.look(lambda tx: _described(tx, names, names.prefix))
    found = []
    for table, columns in sorted(expected.tables.items()):
        name = database.names.table(table)
        if table not in actual.tables:
            found.append(f"table {name} is missing")
            continue
        found += [f"{name} lacks {' '.join(column)}" for column in sorted(columns - actual.tables[table])]
        found += [f"{name} has unexpected {' '.join(column)}" for column in sorted(actual.tables[table] - columns)]
    for (kind, table), definition in sorted(expected.defined.items()):
        name = database.names.table(table)
        if (kind, table) not in actual.defined:
            found.append(f"{kind} {name} is missing")
        elif actual.defined[kind, table] != definition:
            found.append(f"{kind} {name} differs from that of the migrations")
    return found


class _Undo(Exception):
    """Rolls the scratch transaction back, and carries the description out of it."""

    def __init__(self, described: Described) -> None:
        self.described = described


def _expected(database: Database) -> Described:
    scratch = Names(f"scratch_{uuid4().hex[:8]}_", database.names.schema)

    def look(tx: Transaction) -> None:
        for step in chain_of(database.dialect.name, scratch):
            database.dialect.run_script(tx.conn, step.script)
        raise _Undo(_described(tx, scratch, database.names.prefix))

    try:
        database.run(look)
    except _Undo as found:
        return found.described
    raise AssertionError("unreachable")


def _described(tx: Transaction, names: Names, prefix: str) -> Described:
    tables: dict[str, set[tuple[str, ...]]] = {}
    own_name = re.compile(rf"(')(?:\w+\.)?{names.prefix}(?=\w+'::regclass)")  # in a sequence's default
    asked = {"prefix": names.prefix, "schema": names.schema}
    for statement in ("columns", "indexes"):
        for table, *what in tx.rows("database", statement, **asked):
            described = tuple(own_name.sub(r"\1", each) for each in what)
            tables.setdefault(table.removeprefix(names.prefix), set()).add(described)
    defined = {
        (kind, name.removeprefix(names.prefix)): " ".join(definition.replace(names.prefix, prefix).split())
        for kind, name, definition in tx.rows("database", "definitions", **asked)
    }
    return Described(tables, defined)
