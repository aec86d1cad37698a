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
from penstock.errors import InvalidInput, SchemaUnreleased
from tests.conformance.next_release import KNOWN, NEXT, add_next

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
    script = "-- one; two\nCREATE TABLE a (\n    -- inside; too\n    b text DEFAULT 'x;y'\n);\n\nDROP TABLE a;\n"
    assert list(statements_of(script)) == ["CREATE TABLE a (\n    b text DEFAULT 'x;y'\n)", "DROP TABLE a"]


def test_the_lock_is_that_of_our_own_migrations() -> None:
    sql = statement("database", "postgres", "migrations_lock", Names())
    assert str(postgres._MIGRATION_LOCK) in sql


def test_what_is_there_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    add_next(monkeypatch)
    conn = sqlite3.connect(":memory:")

    def execute(sql: str) -> Sequence[Any]:
        return conn.execute(sql).fetchall()

    assert [step.version for step in upgrade("sqlite", Names(), execute, to=KNOWN)] == [KNOWN]
    assert [step.version for step in upgrade("sqlite", Names(), execute)] == [NEXT]
    assert upgrade("sqlite", Names(), execute, to=KNOWN) == []
    conn.close()


def test_tables_of_an_unreleased_version_are_refused() -> None:
    conn = sqlite3.connect(":memory:")

    def execute(sql: str) -> Sequence[Any]:
        return conn.execute(sql).fetchall()

    upgrade("sqlite", Names(), execute)
    conn.execute("UPDATE penstock_meta SET value = '16' WHERE name = 'schema_version'")
    with pytest.raises(SchemaUnreleased, match="schema version 16, of an unreleased version"):
        upgrade("sqlite", Names(), execute)
    conn.close()


def test_a_later_step_is_found_by_the_version_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    add_next(monkeypatch)
    assert [step.version for step in steps_between("sqlite", Names(), 0)] == [KNOWN, NEXT]
    assert [step.version for step in steps_between("sqlite", Names(), KNOWN)] == [NEXT]
    assert [step.version for step in steps_between("sqlite", Names(), 0, KNOWN)] == [KNOWN]


@pytest.mark.parametrize(("since", "to"), [(-1, KNOWN), (KNOWN, 0), (0, 16), (3, None), (0, 99), (99, None)])
def test_versions_that_there_are_not_are_refused(since: int, to: int | None) -> None:
    with pytest.raises(InvalidInput, match=f"this Penstock has {KNOWN} to {KNOWN}"):
        steps_between("sqlite", Names(), since, to)
