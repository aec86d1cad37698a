"""A second copy of every row in the SQLite file beside the segments: an index over all columns of each table.

SQLite keeps no checksums, but its own check compares each index with its table, value by value. So a changed
value, in a table or in its copy, is found (`tables.py`). SQLite writes the copy with every row change; our
statements need not know of it. The definitions of the tables have no copy: their checksum is in `meta`, with
the version of the schema. The writer creates the indexes when it starts, and recreates one when a migration
has changed a table's columns.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from fastcrc.crc32 import iscsi as crc32c

from penstock.database.contract import Row
from penstock.database.database import Database, Transaction
from penstock.database.migrations import stated

SCHEMA = "files_schema"
CHANGED_DEFINITION = "the definition of a table has changed"


def keep_copies(tx: Transaction, database: Database) -> None:
    """Make sure that every table has its copy, and record the checksum of the definitions."""
    dialect, prefix = database.dialect, database.names.prefix
    there = _columns(tx.rows("log", "copies", prefix=prefix))
    for table, columns in _columns(tx.rows("log", "copied", prefix=prefix)).items():
        if there.get(table) != columns:
            # A statement file cannot name the columns: migrations change them, and the copy must have all.
            named = ", ".join(f'"{column}"' for column in columns)
            dialect.run_script(tx.conn, f"DROP INDEX IF EXISTS copy_{table};")
            dialect.run_script(tx.conn, f"CREATE INDEX copy_{table} ON {table} ({named});")
    noted = schema_mark(stated(tx).version, tx.rows("database", "table_texts", prefix=prefix))
    if tx.rows("database", "meta_read", name=SCHEMA) != [(noted,)]:
        tx.change("database", "meta_forget", name=SCHEMA)
        tx.change("database", "meta_add", name=SCHEMA, value=noted)


def schema_damage(facts: dict[str, str], texts: Iterable[Row]) -> str | None:
    """Return the damage to the table definitions, by their checksum in `meta`; None if none is known."""
    noted = facts.get(SCHEMA, "")
    version = facts.get("schema_version", "")
    if not noted or noted.split(" ")[0] != version or noted == schema_mark(int(version), texts):
        return None
    return CHANGED_DEFINITION


def schema_mark(version: int, texts: Iterable[Row]) -> str:
    """Return the checksum entry for table definitions of a schema version."""
    whole = "\n".join(f"{name} {text}" for name, text in texts)
    return f"{version} {crc32c(whole.encode()):08x}"


def _columns(rows: Iterable[Row]) -> dict[str, list[str]]:
    return {table: [column for _, column in own] for table, own in groupby(rows, key=itemgetter(0))}
