"""The one chain of migrations for all of Penstock's tables, and the check that they are applied.

`migrations/NNNN_name.sql` of each dialect. The first one makes the tables of the first release; lower numbers
were never released, and tables with one are refused. `meta` holds the number of the last one applied, written
by the migration itself, so that one run by hand counts, too. Each runs in one transaction, so a crash leaves
either all of it or nothing. Two processes may migrate at once: the second waits, then finds nothing to do.
`publish` never checks the version.

Expand, then contract: code may use newer tables as long as its version is at least `usable_from` in `meta`. A
migration that adds leaves that number unchanged; one that removes raises it.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from penstock.errors import (
    SchemaBehind,
    SchemaError,
    SchemaMissing,
    SchemaTooNew,
    SchemaUnreleased,
    SequenceCached,
    StoreMissing,
    WrongEncoding,
)

from .database import Database, Transaction
from .naming import Names

logger = logging.getLogger("penstock.database")
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the chain."""

    version: int
    name: str
    script: str


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The version of a database's tables (0: there are none), and the oldest version whose code can use them."""

    version: int
    usable_from: int


def chain(database: Database) -> list[Migration]:
    """Return all migrations of the database's dialect, oldest first."""
    return chain_of(database.dialect.name, database.names)


def chain_of(dialect: str, names: Names) -> list[Migration]:
    """Return all migrations of a dialect, with these names, oldest first."""
    return sorted(_read(dialect, names), key=lambda migration: migration.version)


def drop_script(dialect: str, names: Names) -> str:
    """Return the statements that drop every table with these names."""
    return names.apply(files(f"penstock.database.{dialect}").joinpath("drop.sql").read_text("utf-8"))


def known_version(database: Database) -> int:
    """Return the newest schema version that this code knows."""
    return chain(database)[-1].version


def state(tx: Transaction, database: Database) -> SchemaState:
    """Return the schema state of the database."""
    if not tx.rows("database", "table_find", table=database.names.table("meta")):
        return SchemaState(0, 0)
    return stated(tx)


def stated(tx: Transaction) -> SchemaState:
    """Return the schema state of existing tables, with one statement."""
    found: dict[str, str] = dict(tx.rows("database", "schema_read"))
    return schema_state(found.get("schema_version"), found.get("usable_from"))


def schema_state(version: str | None, usable_from: str | None) -> SchemaState:
    """Return the schema state for two facts of `meta`; without the second, code needs that very version."""
    number = int(version or 0)
    return SchemaState(number, number if usable_from is None else int(usable_from))


def pending(database: Database) -> list[Migration]:
    """Return the migrations that have not been applied yet. Raises SchemaTooNew, SchemaUnreleased."""
    if database.dialect.missing_file() is not None:
        return chain(database)
    return database.look(lambda tx: steps_after(database, state(tx, database)))


def check(database: Database) -> SchemaState:
    """Return the schema state. Raises StoreMissing, SchemaMissing, SchemaBehind, SchemaTooNew, SchemaUnreleased."""
    missing = database.dialect.missing_file()
    if missing is not None:
        raise StoreMissing(missing)
    found = database.look(lambda tx: state(tx, database))
    waiting = steps_after(database, found)
    if waiting and not found.version:
        raise SchemaMissing(database.names.table("meta"))
    if waiting:
        raise SchemaBehind(found.version, waiting[-1].version)
    return found


def migrate(database: Database) -> list[Migration]:
    """Apply and return the pending migrations. Raises SchemaTooNew, SchemaUnreleased, WrongEncoding, SequenceCached."""
    _check_encoding(database)
    applied: list[Migration] = []
    while True:
        step = database.run(lambda tx: _step(tx, database))
        if step is None:
            _check_order(database)
            return applied
        applied.append(step)


def raise_usable_from(tx: Transaction, version: int) -> None:
    """Require a version for code that uses the tables; running workers of earlier versions leave."""
    tx.change("database", "usable_raise", version=str(version))


def refuse_too_new(found: SchemaState, known: int) -> None:
    """Refuse tables that code of this version cannot use. Raises SchemaTooNew."""
    if found.version > known and found.usable_from > known:
        raise SchemaTooNew(found.version, known, found.usable_from)


def refuse_unreleased(found: SchemaState, steps: Sequence[Migration]) -> None:
    """Refuse tables that are older than the whole chain. Raises SchemaUnreleased."""
    if 0 < found.version < steps[0].version:
        raise SchemaUnreleased(found.version, steps[0].version)


def _step(tx: Transaction, database: Database) -> Migration | None:
    database.dialect.serialize_migrations(tx.conn)
    waiting = steps_after(database, state(tx, database))
    if not waiting:
        return None
    step = waiting[0]
    database.dialect.run_script(tx.conn, step.script)
    assert stated(tx).version == step.version, f"{step.name} does not write its number"
    return step


def _check_encoding(database: Database) -> None:
    """Refuse a database that cannot store every text: one error message could stop a whole worker."""
    ((found,),) = database.look(lambda tx: tx.rows("database", "encoding"))
    encoding = found.decode() if isinstance(found, bytes) else found  # SQL_ASCII returns text as bytes
    if encoding != "UTF8":
        raise WrongEncoding(encoding)


def _check_order(database: Database) -> None:
    """Refuse a sequence that hands out numbers in blocks: they would not rise in the order of requests."""
    sequence = database.names.table("staged_seq")
    rows = database.look(lambda tx: tx.rows("database", "sequence_cache", sequence=sequence))
    if rows and rows[0][0] != 1:
        raise SequenceCached(sequence, rows[0][0])


def steps_after(database: Database, found: SchemaState) -> list[Migration]:
    """Return the migrations that tables in this state lack. Raises SchemaTooNew, SchemaUnreleased."""
    steps = chain(database)
    refuse_unreleased(found, steps)
    refuse_too_new(found, steps[-1].version)
    return [step for step in steps if step.version > found.version]


def _read(dialect: str, names: Names) -> Iterator[Migration]:
    folder = files(f"penstock.database.{dialect}").joinpath("migrations")
    for file in folder.iterdir():
        named = _FILE.fullmatch(file.name)
        if named:
            yield Migration(int(named[1]), named[2], names.apply(file.read_text("utf-8")))


class SchemaWatch:
    """Checks the tables on first use, then that no migration made them unusable; a refusal is final. One thread."""

    def __init__(self, database: Database) -> None:
        self._database, self._known = database, known_version(database)
        self._logged = self._known
        self._is_checked = False
        self.refusal: SchemaError | None = None

    def look(self) -> None:
        """Run all checks once, later only for too new tables. Raises SchemaTooNew; once SchemaMissing, SchemaBehind."""
        if self._is_checked:
            self.see(self._database.look(stated))
            return
        try:
            found = check(self._database)
        except SchemaError as exc:
            self.refusal = exc
            raise
        self._is_checked = True
        self.see(found)

    def see(self, found: SchemaState) -> None:
        """Record the present schema state. Raises SchemaTooNew."""
        try:
            refuse_too_new(found, self._known)
        except SchemaTooNew as exc:
            self.refusal = exc
            raise
        if found.version > self._logged:
            logger.info(
                "the database has schema version %d, this Penstock knows %d and can still use it; update when you can",
                found.version,
                self._known,
            )
            self._logged = found.version
