"""Drift: how the tables in a database differ from what the migrations made.

The expected columns and indexes are read from a scratch copy: the schema file applied under another prefix
inside a transaction that is rolled back. So one description, `schema.sql`, serves as the model.
"""

import re
from importlib.resources import files
from uuid import uuid4

from .database import Database, Transaction
from .naming import Names

# A table (without prefix) and its columns and indexes as the database describes them.
Described = dict[str, set[tuple[str, ...]]]


def differences(database: Database) -> list[str]:
    """Return a sentence per table that is missing, and per column or index that is not as it should be."""
    actual = _actual(database)
    found = []
    for table, columns in sorted(_expected(database).items()):
        name = database.names.table(table)
        if table not in actual:
            found.append(f"table {name} is missing")
            continue
        found += [f"{name} lacks {' '.join(column)}" for column in sorted(columns - actual[table])]
        found += [f"{name} has {' '.join(column)} besides" for column in sorted(actual[table] - columns)]
    return found


class _Undo(Exception):
    """Ends the scratch transaction without a trace, carrying what was seen in it."""

    def __init__(self, described: Described) -> None:
        self.described = described


def _expected(database: Database) -> Described:
    scratch = Names(f"scratch_{uuid4().hex[:8]}_", database.names.schema)
    script = files(f"penstock.log.sql.{database.dialect.name}").joinpath("schema.sql").read_text("utf-8")

    def look(tx: Transaction) -> None:
        database.dialect.run_script(tx.conn, scratch.apply(script))
        raise _Undo(_described(tx, scratch))

    try:
        database.run(look)
    except _Undo as found:
        return found.described
    raise AssertionError("unreachable")


def _actual(database: Database) -> Described:
    return database.look(lambda tx: _described(tx, database.names))


def _described(tx: Transaction, names: Names) -> Described:
    found: Described = {}
    own_name = re.compile(rf"(')(?:\w+\.)?{names.prefix}(?=\w+'::regclass)")  # in the default of a sequence
    for statement in ("columns", "indexes"):
        for table, *what in tx.rows("log", statement, prefix=names.prefix, schema=names.schema):
            described = tuple(own_name.sub(r"\1", each) for each in what)
            found.setdefault(table.removeprefix(names.prefix), set()).add(described)
    return found
