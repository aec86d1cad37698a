"""The SQLite file beside the segments: topics, groups, cursors and lanes, in the usual tables.

SQLite keeps no checksums of its data. Its own check finds damage to a page, and compares every index with its
table, value by value. So each table has a second copy of its rows here: an index over all its columns, made
when a writer starts, and again once a migration has changed the columns. Without it a flipped bit in the
start of a partition would have the writer remove good segments. The checksum of the tables' definitions is
in `meta`, with the version of the schema. SQLite does not check its write-ahead log; `write_ahead.py` does.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from fastcrc.crc32 import iscsi as crc32c

from penstock.database.contract import Row
from penstock.database.database import Database, Transaction
from penstock.database.migrations import stated
from penstock.database.naming import Names
from penstock.database.sqlite.dialect import SqliteConnection, SqliteDialect
from penstock.database.statements import statement
from penstock.errors import StoreDamaged

from .disk import FOLDER_MODE, writer_pid
from .write_ahead import write_ahead_damage

NAME = "penstock.db"
WRITE_AHEAD = "-wal"
_SCHEMA = "files_schema"  # the checksum of the definitions, in `meta`
_CHANGED_DEFINITION = "the definition of a table has changed"
_WHOLE_BYTES = 64 << 20  # a file up to this size is checked whole at every start of a writer
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last: unknown format
# The tables that decide which records are served; checked at every start, whatever the size of the file.
_SMALL = (
    *("meta", "topic", "topic_config", "head", "generation", "hold", "group", "cursor", "pending_offset"),
    *("producer", "kafka_producer", "kafka_group", "access_rule"),
)


def start_damage(directory: Path, names: Names) -> str | None:
    """Return the damage to the file; of a large one, only that to the tables that decide about records."""
    path = directory / NAME
    try:
        is_large = path.stat().st_size > _WHOLE_BYTES
    except FileNotFoundError:
        return None
    return _damage(path, names, tuple(names.table(each) for each in _SMALL) if is_large else (None,))


def damage(directory: Path, names: Names = Names()) -> str | None:  # noqa: B008  # it is frozen
    """Check the whole file; return the damage, or None."""
    path = directory / NAME
    if not path.exists():
        return None
    return _lost_behind(directory) or _damage(path, names, (None,))


def _damage(path: Path, names: Names, checked: tuple[str | None, ...]) -> str | None:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as conn:
            conn.text_factory = partial(str, encoding="utf-8", errors="replace")
            return next(_found(conn, names, checked), None)
    except UnicodeDecodeError:
        return "the definition of a table cannot be read"  # and SQLite's error message neither
    except sqlite3.Error as exc:
        code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        return str(exc) if code in _DAMAGED else None


def _found(conn: sqlite3.Connection, names: Names, checked: tuple[str | None, ...]) -> Iterator[str]:
    """Yield the damage that SQLite's check finds in all tables (None) or in some."""

    def rows(name: str, /, **params: Any) -> list[Any]:
        return conn.execute(statement("database", "sqlite", name, names), params).fetchall()

    for table in checked:
        if table is None or rows("table_find", table=table):
            check = "PRAGMA integrity_check" if table is None else f"PRAGMA integrity_check({table})"
            yield from (found for (found,) in conn.execute(check).fetchmany(1) if found != "ok")
    conn.execute("BEGIN")  # one snapshot: a migration may run meanwhile
    if rows("table_find", table=names.table("meta")):
        facts = dict(rows("schema_read"))
        noted = "".join(value for (value,) in rows("meta_read", name=_SCHEMA))
        why = _schema_damage({**facts, _SCHEMA: noted}, rows("table_texts", prefix=names.prefix))
        if why is not None:
            yield why
    elif rows("table_texts", prefix=names.prefix):
        yield _CHANGED_DEFINITION


def _lost_behind(directory: Path) -> str | None:
    """Return the damage to the write-ahead log, unless a writer elsewhere has checked it already."""
    if writer_pid(directory) not in (None, os.getpid()):
        return None
    return write_ahead_damage(directory / f"{NAME}{WRITE_AHEAD}")


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
    noted = _schema_mark(stated(tx).version, tx.rows("database", "table_texts", prefix=prefix))
    if tx.rows("database", "meta_read", name=_SCHEMA) != [(noted,)]:
        tx.change("database", "meta_forget", name=_SCHEMA)
        tx.change("database", "meta_add", name=_SCHEMA, value=noted)


def _schema_damage(facts: dict[str, str], texts: Iterable[Row]) -> str | None:
    """Return the damage to the table definitions, by their checksum in `meta`; None if none is known."""
    noted = facts.get(_SCHEMA, "")
    version = facts.get("schema_version", "")
    if not noted or noted.split(" ")[0] != version or noted == _schema_mark(int(version), texts):
        return None
    return _CHANGED_DEFINITION


def _schema_mark(version: int, texts: Iterable[Row]) -> str:
    whole = "\n".join(f"{name} {text}" for name, text in texts)
    return f"{version} {crc32c(whole.encode()):08x}"


def _columns(rows: Iterable[Row]) -> dict[str, list[str]]:
    return {table: [column for _, column in own] for table, own in groupby(rows, key=itemgetter(0))}


class TablesDialect(SqliteDialect):
    """SQLite in the directory of a log; file and directory are created on first use, for their owner only."""

    def __init__(self, directory: str) -> None:
        super().__init__(os.path.join(directory, NAME))
        self._looked = False

    def connect(self) -> SqliteConnection:
        """Open the file, creating it and its directory if they do not exist. Raises StoreDamaged."""
        folder = Path(self.path).parent
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if not self._looked:  # before SQLite, which takes damage for the end and removes the rest
            why = _lost_behind(folder)
            if why is not None:
                raise StoreDamaged(f"{self.path}{WRITE_AHEAD}", why)
            self._looked = True
        return super().connect()

    def missing_file(self) -> str | None:
        return None if os.path.exists(self.path) else self.path
