"""The chain of migrations as statements that a framework runs."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.database.hosted import statements_of, steps_between, upgrade
from penstock.database.migrations import chain_of
from penstock.database.naming import Names
from penstock.database.postgres import dialect as postgres
from penstock.database.statements import statement
from penstock.errors import InvalidInput

DIALECTS = ("sqlite", "postgres")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_scripts_hold_nothing_that_a_framework_would_misread(dialect: str) -> None:
    """No `$$`, whose inside would be split, and no `%`, which drivers take for a parameter."""
    for step in chain_of(dialect, Names()):
        assert "$$" not in step.script
        for each in statements_of(step.script):
            assert "%" not in each
            assert each.split()[0] in ("CREATE", "ALTER", "INSERT", "UPDATE", "DROP", "DELETE", "WITH"), each


def test_a_script_is_split_where_statements_end() -> None:
    script = (
        "-- one; two\nCREATE TABLE a (\n    -- inside; too\n    b text DEFAULT 'x;y'\n);\n\nDROP TABLE a;\n"
    )
    assert list(statements_of(script)) == ["CREATE TABLE a (\n    b text DEFAULT 'x;y'\n)", "DROP TABLE a"]


def test_the_lock_is_that_of_our_own_migrations() -> None:
    sql = statement("database", "postgres", "migrations_lock", Names())
    assert str(postgres._MIGRATION_LOCK) in sql


def test_what_is_there_is_not_made_again() -> None:
    conn = sqlite3.connect(":memory:")

    def execute(sql: str) -> Sequence[Any]:
        return conn.execute(sql).fetchall()

    newest = chain_of("sqlite", Names())[-1].version
    assert [step.version for step in upgrade("sqlite", Names(), execute, to=2)] == [1, 2]
    assert [step.version for step in upgrade("sqlite", Names(), execute)] == list(range(3, newest + 1))
    assert upgrade("sqlite", Names(), execute, to=1) == []
    conn.close()


@pytest.mark.parametrize(("since", "to"), [(-1, 2), (3, 2), (0, 99), (99, None)])
def test_versions_that_there_are_not_are_refused(since: int, to: int | None) -> None:
    with pytest.raises(InvalidInput, match="this Penstock has 1 to"):
        steps_between("sqlite", Names(), since, to)
