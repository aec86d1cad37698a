"""A migration that takes something away raises `usable_from`, so that older code stops instead of failing."""

from pathlib import Path

import pytest

from tests.architecture.migration_files import breaches
from tests.architecture.source import ROOT, assert_none, plant

RAISES = "UPDATE penstock_meta SET value = '{}' WHERE name = 'usable_from';\n"
SILENT = {
    "a column": ("ALTER TABLE penstock_lane DROP COLUMN held;", "drops something"),
    "a table": ("-- Old.\nDROP TABLE penstock_old;", "drops something"),
    "an index": ("DROP INDEX ix_penstock_old;", "drops something"),
    "a view": ("DROP VIEW penstock_old;", "drops something"),
    "a renamed column": ("ALTER TABLE penstock_lane RENAME COLUMN a TO b;", "renames something"),
    "a renamed table": ("alter table penstock_lane rename to penstock_way;", "renames something"),
    "a changed column": ("ALTER TABLE penstock_lane ALTER COLUMN a SET NOT NULL;", "alters a column"),
    "a column to be filled": (
        "ALTER TABLE penstock_lane ADD COLUMN a text NOT NULL;",
        "adds a column that older code does not fill",
    ),
}
LAWFUL = {
    "a new table": "CREATE TABLE penstock_new (a integer NOT NULL);",
    "a new column": "ALTER TABLE penstock_lane ADD COLUMN a text;",
    "a new column with a default": "ALTER TABLE penstock_lane ADD COLUMN a text NOT NULL DEFAULT '';",
    "a view made anew": "DROP VIEW penstock_events;\nCREATE VIEW penstock_events AS SELECT 1;",
    "words of a comment": "-- Columns to DROP and to RENAME later.\nCREATE INDEX ix_a ON a (b);",
    "a column, and it says so": f"{RAISES.format(9)}ALTER TABLE penstock_lane DROP COLUMN held;",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give the root of a tree with one dialect and the first migration, which says who can use the tables."""
    says = "INSERT INTO penstock_meta (name, value) VALUES ('usable_from', '7');"
    plant(tmp_path, "database/one/migrations/0007_first.sql", f"CREATE TABLE a (b);\n{says}")
    return tmp_path


def test_every_migration_keeps_the_rules() -> None:
    assert_none(breaches(ROOT))


@pytest.mark.parametrize("case", SILENT)
def test_what_takes_away_in_silence_is_found(tree: Path, case: str) -> None:
    text, what = SILENT[case]
    plant(tree, "database/one/migrations/0009_next.sql", text)
    assert list(breaches(tree)) == [f"database/one/migrations/0009_next.sql: {what} and does not raise usable_from"]


@pytest.mark.parametrize("case", LAWFUL)
def test_what_is_lawful_is_not_found(tree: Path, case: str) -> None:
    plant(tree, "database/one/migrations/0009_next.sql", LAWFUL[case])
    assert_none(breaches(tree))


@pytest.mark.parametrize("number", [6, 7, 10])
def test_a_number_that_cannot_be_is_found(tree: Path, number: int) -> None:
    plant(tree, "database/one/migrations/0009_next.sql", RAISES.format(number))
    (found,) = breaches(tree)
    assert f"raises usable_from from 7 to {number}" in found


def test_a_first_migration_that_says_another_number_is_found(tree: Path) -> None:
    text = "INSERT INTO penstock_meta VALUES ('usable_from', '8');"
    plant(tree, "database/one/migrations/0007_first.sql", text)
    path = "database/one/migrations/0007_first.sql"
    assert list(breaches(tree)) == [f"{path}: makes all tables and says usable_from 8"]
