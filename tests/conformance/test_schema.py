"""Every dialect has the same tables; the facts by which tests compare two stores see every difference."""

from typing import Any

import pytest

from penstock.database.database import Database
from penstock.database.dialects import open_database
from penstock.database.migrations import migrate
from penstock.database.naming import Names
from tests.conformance.engines import connect
from tests.conformance.introspection import columns, facts

# Each makes one difference that the comparison must see.
ALTERATIONS = {
    "sqlite": [
        "ALTER TABLE penstock_log ADD COLUMN extra INTEGER",
        "ALTER TABLE penstock_dead DROP COLUMN headers",
        "ALTER TABLE penstock_dead RENAME COLUMN owner TO tag",
        "DROP INDEX ix_penstock_scheduled_due",
        "CREATE INDEX ix_other ON penstock_log (id)",
        "DELETE FROM penstock_slot WHERE slot = 255",
        "UPDATE penstock_meta SET value = '1' WHERE name = 'schema_version'",
        "CREATE TABLE penstock_other (a)",
        "DROP VIEW penstock_events",
    ],
    "postgres": [
        "ALTER TABLE penstock_log ADD COLUMN extra integer",
        "ALTER TABLE penstock_dead DROP COLUMN headers",
        "ALTER TABLE penstock_log ALTER COLUMN value SET NOT NULL",
        "ALTER TABLE penstock_dead ALTER COLUMN id TYPE text",
        "ALTER TABLE penstock_head ALTER COLUMN max_ms DROP DEFAULT",
        "ALTER TABLE penstock_cursor DROP CONSTRAINT penstock_cursor_pkey",
        "ALTER TABLE penstock_head SET (fillfactor = 90)",
        "DROP INDEX ix_penstock_scheduled_due",
        "DROP VIEW penstock_events",
        "ALTER FUNCTION penstock_text VOLATILE",
        "ALTER SEQUENCE penstock_staged_seq CACHE 5",
        "ALTER SEQUENCE penstock_staged_seq OWNED BY NONE",
        "DELETE FROM penstock_slot WHERE slot = 255",
        "UPDATE penstock_meta SET value = '1' WHERE name = 'schema_version'",
    ],
}


def made_by_migrations(url: str) -> Database:
    """Walk the whole chain."""
    database = open_database(url, Names())
    migrate(database)
    return database


def seen(url: str) -> Any:
    """Return the facts as a connection of its own sees them."""
    conn = connect(url)
    try:
        return facts(conn)
    finally:
        conn.close()


@pytest.mark.parametrize(
    ("kind", "alteration"), [(engine, each) for engine, them in ALTERATIONS.items() for each in them], indirect=["kind"]
)
def test_the_comparison_sees_every_difference(url: str, alteration: str) -> None:
    database = made_by_migrations(url)
    before = seen(url)
    database.run(lambda tx: tx.conn.execute(alteration))
    assert seen(url) != before
    database.close()


def test_every_dialect_has_the_same_columns(sqlite_store: str, postgres_store: str) -> None:
    """Of the same kind, and null where the other is."""
    described = []
    for url in (sqlite_store, postgres_store):
        database = made_by_migrations(url)
        conn = connect(url)
        described.append(columns(conn))
        conn.close()
        database.close()
    assert described[0] == described[1]
    assert ("penstock_log", "value", "BLOB", True) in described[0]


def test_the_log_has_a_name_of_its_own(url: str, second_url: str) -> None:
    """Given by the migration, so that also one run by hand gives it."""
    names = []
    for each in (url, second_url):
        database = made_by_migrations(each)
        names += database.look(lambda tx: tx.rows("database", "meta_read", name="log_id"))
        database.close()
    assert len(names) == len(set(names)) == 2
