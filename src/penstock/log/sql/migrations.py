"""The one chain of migrations for all of Penstock's tables, and the check that it has been walked.

`migrations/NNNN_name.sql` of each dialect; the number of the last one applied stands in `meta`, written by
the migration itself, so that one run by hand is known too. Each runs in one transaction, so a crash leaves
either all of it or nothing. Two processes may
migrate at once: the second waits, then finds nothing to do. `publish` never looks at the version.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from penstock.errors import SchemaBehind, SchemaMissing, SchemaTooNew, SequenceCached

from .database import Database, Transaction
from .naming import Names

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the chain."""

    version: int
    name: str
    script: str


def chain(database: Database) -> list[Migration]:
    """Return all migrations of the database's dialect, oldest first."""
    return chain_of(database.dialect.name, database.names)


def chain_of(dialect: str, names: Names) -> list[Migration]:
    """Return all migrations of a dialect, under these names, oldest first."""
    return sorted(_read(dialect, names), key=lambda migration: migration.version)


def version(tx: Transaction, database: Database) -> int:
    """Return the version of the schema in the database; 0 when there is none."""
    if not tx.rows("log", "table_find", table=database.names.table("meta")):
        return 0
    found = tx.rows("log", "meta_read", name="schema_version")
    return int(found[0][0]) if found else 0


def pending(database: Database) -> list[Migration]:
    """Return the migrations that have not been applied yet. Raises SchemaTooNew."""
    return database.look(lambda tx: _after(database, version(tx, database)))


def check(database: Database) -> None:
    """Refuse a database that is not up to date. Raises SchemaMissing, SchemaBehind, SchemaTooNew."""
    found = database.look(lambda tx: version(tx, database))
    waiting = _after(database, found)
    if waiting and not found:
        raise SchemaMissing(database.names.table("meta"))
    if waiting:
        raise SchemaBehind(found, waiting[-1].version)


def migrate(database: Database) -> list[Migration]:
    """Apply what is pending and return it. Raises SchemaTooNew, SequenceCached."""
    applied: list[Migration] = []
    while True:
        step = database.run(lambda tx: _step(tx, database))
        if step is None:
            _check_order(database)
            return applied
        applied.append(step)


def _step(tx: Transaction, database: Database) -> Migration | None:
    database.dialect.serialize_migrations(tx.conn)
    waiting = _after(database, version(tx, database))
    if not waiting:
        return None
    step = waiting[0]
    database.dialect.run_script(tx.conn, step.script)
    assert version(tx, database) == step.version, f"{step.name} does not write its number"
    return step


def _check_order(database: Database) -> None:
    """Refuse a sequence that hands out numbers in blocks: they would not rise in the order asked for."""
    sequence = database.names.table("staged_seq")
    rows = database.look(lambda tx: tx.rows("log", "sequence_cache", sequence=sequence))
    if rows and rows[0][0] != 1:
        raise SequenceCached(sequence, rows[0][0])


def _after(database: Database, current: int) -> list[Migration]:
    steps = chain(database)
    if current > steps[-1].version:
        raise SchemaTooNew(current, steps[-1].version)
    return [step for step in steps if step.version > current]


def _read(dialect: str, names: Names) -> Iterator[Migration]:
    folder = files(f"penstock.log.sql.{dialect}").joinpath("migrations")
    for file in folder.iterdir():
        named = _FILE.fullmatch(file.name)
        if named:
            yield Migration(int(named[1]), named[2], names.apply(file.read_text("utf-8")))
