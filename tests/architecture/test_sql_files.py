"""Every SQL file says what it locks or walks and holds one statement."""

from pathlib import Path

import pytest

from tests.architecture.source import ROOT, assert_none, plant
from tests.architecture.sql_files import breaches

BREACHES = {
    "no comment": ("SELECT 1;", "does not begin with a comment"),
    "silent comment": ("-- A fact.\nSELECT 1;", "do not say what it locks or walks"),
    "two statements": ("-- Locks it.\nSELECT 1;\nSELECT 2;", "has 2 statements"),
    "no statement": ("-- Locks it.\n", "has 0 statements"),
    "locks again for each row": (
        "-- Locks them.\nUPDATE a SET b = 1 WHERE b IN (\n  SELECT b FROM a ORDER BY b FOR UPDATE);",
        "use = ANY(ARRAY(SELECT",
    ),
    "unknown index": ("-- Walks ix_gone.\nSELECT 1;", "the index ix_gone"),
}
LAWFUL = {
    "one": "-- Walks the primary key.\nSELECT 1;\n",
    "several lines of comment": "-- Give the next one.\n-- Locks that row.\nSELECT 1",
    "semicolon in a string": "-- Locks that row.\nSELECT ';';",
    "semicolon in a comment": "-- Locks that row.\nSELECT 1 -- first; then\n;",
    "known index": "-- Walks ix_penstock_x.\nSELECT 1;",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give the root of a tree whose schema has one index."""
    plant(tmp_path, "log/sql/planted/schema.sql", "CREATE TABLE a (b);\nCREATE INDEX ix_penstock_x ON a (b);")
    return tmp_path


def test_every_statement_file_keeps_the_rules() -> None:
    assert_none(breaches(ROOT))


@pytest.mark.parametrize("case", BREACHES, ids=str)
def test_a_planted_breach_is_found(case: str, tree: Path) -> None:
    text, words = BREACHES[case]
    plant(tree, "outbox/sql/planted/x.sql", text)
    (found,) = breaches(tree)
    assert words in found


@pytest.mark.parametrize("case", LAWFUL, ids=str)
def test_a_lawful_file_is_not_reported(case: str, tree: Path) -> None:
    plant(tree, "outbox/sql/planted/x.sql", LAWFUL[case])
    assert list(breaches(tree)) == []


def test_schema_and_migrations_are_scripts_and_free(tree: Path) -> None:
    plant(tree, "log/sql/planted/migrations/0001_x.sql", "CREATE TABLE a (b); CREATE TABLE c (d);")
    assert list(breaches(tree)) == []
