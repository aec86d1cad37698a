"""Drift: how the tables in a database differ from what the migrations made.

The expected columns are read from a scratch copy: the schema file applied under another prefix inside a
transaction that is rolled back. So one description, `schema.sql`, serves as the model.
"""

from importlib.resources import files
from uuid import uuid4

from penstock.log.sql.database import Database, Transaction
from penstock.log.sql.naming import Names

Columns = dict[
    str, set[tuple[str, ...]]
]  # table (without prefix) -> its columns as the database describes them


def differences(database: Database) -> list[str]:
    """Return a sentence per table that is missing or has other columns than it should; none is good."""
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
    """Ends the scratch transaction without a trace."""


def _expected(database: Database) -> Columns:
    scratch = Names(f"scratch_{uuid4().hex[:8]}_", database.names.schema)
    script = files(f"penstock.log.sql.{database.dialect.name}").joinpath("schema.sql").read_text("utf-8")
    found: Columns = {}
    try:
        with database.transaction() as tx:
            database.dialect.run_script(tx.conn, scratch.apply(script))
            found = _columns(tx, scratch)
            raise _Undo
    except _Undo:
        return found


def _actual(database: Database) -> Columns:
    return database.look(lambda tx: _columns(tx, database.names))


def _columns(tx: Transaction, names: Names) -> Columns:
    found: Columns = {}
    for table, *column in tx.rows("log", "columns", prefix=names.prefix, schema=names.schema):
        described = tuple(str(each).replace(names.prefix, "penstock_") for each in column)
        found.setdefault(table.removeprefix(names.prefix), set()).add(described)
    return found
