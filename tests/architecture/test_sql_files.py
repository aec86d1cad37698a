"""Every statement has a name, says what it locks or walks, and is one."""

from pathlib import Path

import pytest

from tests.architecture.source import ROOT, assert_none, plant
from tests.architecture.sql_files import breaches

BREACHES = {
    "no name": ("-- Locks it.\nSELECT 1;", "a statement has no name"),
    "a name twice": ("-- name: a\n-- Locks.\nSELECT 1;\n-- name: a\n-- Locks.\nSELECT 2;", "a is there 2 times"),
    "no comment": ("-- name: a\nSELECT 1;", "a does not begin with a comment"),
    "silent comment": ("-- name: a\n-- A fact.\nSELECT 1;", "a does not say in its first lines what it locks"),
    "two statements": ("-- name: a\n-- Locks it.\nSELECT 1;\nSELECT 2;", "a has 2 statements"),
    "no statement": ("-- name: a\n-- Locks it.\n", "a has 0 statements"),
    "locks again for each row": (
        "-- name: a\n-- Locks.\nUPDATE a SET b = 1 WHERE b IN (\n  SELECT b FROM a ORDER BY b FOR UPDATE);",
        "use = ANY(ARRAY(SELECT",
    ),
    "unknown index": ("-- name: a\n-- Walks ix_gone.\nSELECT 1;", "the index ix_gone"),
    "second of two": ("-- name: a\n-- Locks it.\nSELECT 1;\n\n-- name: b\n-- A fact.\nSELECT 1;", "b does not say"),
}
LAWFUL = {
    "one": "-- name: a\n-- Walks the primary key.\nSELECT 1;\n",
    "several lines of comment": "-- name: a\n-- Give the next one.\n-- Locks that row.\nSELECT 1",
    "semicolon in a string": "-- name: a\n-- Locks that row.\nSELECT ';';",
    "semicolon in a comment": "-- name: a\n-- Locks that row.\nSELECT 1 -- first; then\n;",
    "only a second form": "-- name: a\n-- Locks.\n-- without returning: instead(b)\n",
    "known index": "-- name: a\n-- Walks ix_penstock_x.\nSELECT 1;",
    "head of the file and of a section": (
        "-- What there is.\n\n-- == First\n\n-- name: a\n-- Locks.\nSELECT 1;\n\n"
        "-- == Then\n\n-- name: b\n-- Reads.\nSELECT 1;"
    ),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give the root of a tree with two dialects, whose tables have one index in common."""
    plant(tmp_path, "database/one/migrations/0001_a.sql", "CREATE TABLE a (b);\nCREATE INDEX ix_penstock_x ON a (b);")
    plant(
        tmp_path,
        "database/two/migrations/0001_a.sql",
        "CREATE INDEX ix_penstock_x ON a (b); CREATE INDEX ix_two ON a (b);",
    )
    return tmp_path


def test_every_statement_keeps_the_rules() -> None:
    assert_none(breaches(ROOT))


@pytest.mark.parametrize("case", BREACHES, ids=str)
@pytest.mark.parametrize("file", ["common", "one"])
def test_a_planted_breach_is_found(file: str, case: str, tree: Path) -> None:
    text, words = BREACHES[case]
    plant(tree, f"outbox/sql/{file}.sql", text)
    (found,) = breaches(tree)
    assert words in found


@pytest.mark.parametrize("case", LAWFUL, ids=str)
@pytest.mark.parametrize("file", ["common", "one"])
def test_a_lawful_file_is_not_reported(file: str, case: str, tree: Path) -> None:
    plant(tree, f"outbox/sql/{file}.sql", LAWFUL[case])
    assert list(breaches(tree)) == []


def test_an_index_of_one_dialect_is_not_for_all(tree: Path) -> None:
    plant(tree, "outbox/sql/two.sql", "-- name: a\n-- Walks ix_two.\nSELECT 1;")
    assert list(breaches(tree)) == []
    plant(tree, "outbox/sql/common.sql", "-- name: a\n-- Walks ix_two.\nSELECT 1;")
    assert len(list(breaches(tree))) == 1


def test_a_file_for_one_statement_is_found(tree: Path) -> None:
    plant(tree, "outbox/sql/one/a.sql", "-- Locks it.\nSELECT 1;")
    (found,) = breaches(tree)
    assert "one file a dialect" in found


def test_schema_and_migrations_are_scripts_and_free(tree: Path) -> None:
    plant(tree, "database/planted/migrations/0001_x.sql", "CREATE TABLE a (b); CREATE TABLE c (d);")
    assert list(breaches(tree)) == []
