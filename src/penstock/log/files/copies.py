"""A second copy of every row in the SQLite file beside the segments: an index over all columns of each table.

SQLite keeps no checksums, but its own check compares each index with its table, value by value. So a value
that has become another one, in a table or in its copy, is found (`tables.py`). SQLite writes the copy
together with the row, whoever changes it; no statement of ours knows of it. The text of the tables themselves
has no copy: its checksum stands in `meta`, with the version of the schema.

Made by the writer when it starts, and made again where a migration has given a table other columns.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from fastcrc.crc32 import iscsi as crc32c

from ..sql.contract import Row
from ..sql.database import Database, Transaction
from ..sql.migrations import stated

SCHEMA = "files_schema"
CHANGED_DEFINITION = "the definition of a table has become another one"


def keep_copies(tx: Transaction, database: Database) -> None:
    """Make sure that every table has its copy, and that what the tables are is noted."""
    dialect, prefix = database.dialect, database.names.prefix
    there = _columns(tx.rows("log", "copies", prefix=prefix))
    for table, columns in _columns(tx.rows("log", "copied", prefix=prefix)).items():
        if there.get(table) != columns:
            # No file can name the columns: a migration changes them, and the copy has to have all.
            named = ", ".join(f'"{column}"' for column in columns)
            dialect.run_script(tx.conn, f"DROP INDEX IF EXISTS copy_{table};")
            dialect.run_script(tx.conn, f"CREATE INDEX copy_{table} ON {table} ({named});")
    said = schema_mark(stated(tx).version, tx.rows("log", "table_texts", prefix=prefix))
    if tx.rows("log", "meta_read", name=SCHEMA) != [(said,)]:
        tx.change("log", "meta_forget", name=SCHEMA)
        tx.change("log", "meta_add", name=SCHEMA, value=said)


def schema_damage(facts: dict[str, str], texts: Iterable[Row]) -> str | None:
    """Return what is wrong with the text of the tables, by what `meta` says; None if nothing is known."""
    noted = facts.get(SCHEMA, "")
    version = facts.get("schema_version", "")
    if not noted or noted.split(" ")[0] != version or noted == schema_mark(int(version), texts):
        return None
    return CHANGED_DEFINITION


def schema_mark(version: int, texts: Iterable[Row]) -> str:
    """Return what is noted of tables of a version of the schema, by their texts."""
    whole = "\n".join(f"{name} {text}" for name, text in texts)
    return f"{version} {crc32c(whole.encode()):08x}"


def _columns(rows: Iterable[Row]) -> dict[str, list[str]]:
    return {table: [column for _, column in own] for table, own in groupby(rows, key=itemgetter(0))}
