"""Dialects that lack all that a database may lack: every statement of theirs runs in its second form."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.database import statements as loader
from penstock.database.contract import Rows
from penstock.database.postgres.dialect import PostgresDialect
from penstock.database.second_forms import FEATURES
from penstock.database.sqlite.dialect import SqliteDialect
from tests.architecture.sql_features import EXCEPTIONS, features
from tests.services.budget import level_from_environment

CALLERS = {name for name, reason in EXCEPTIONS.items() if "the caller's connection" in reason}
KINDS = ("memory", "postgres")
ON_POSTGRES = ("test_group_store", "test_log", "test_outbox")  # the long set asks it everything


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out other engines that a module asks for; the fast set has the group's rows, in memory."""
    here = str(Path(__file__).parent)
    mine = {each: _kind(each) for each in items if str(each.path).startswith(here)}
    for each, kind in mine.items():
        if kind == "postgres" or each.path.stem != "test_group_store":
            each.add_marker(pytest.mark.slow)
    others = {each for each, kind in mine.items() if kind not in KINDS}
    if level_from_environment() != "long":
        others |= {each for each, kind in mine.items() if kind == "postgres" and each.path.stem not in ON_POSTGRES}
    config.hook.pytest_deselected(items=list(others))
    items[:] = [each for each in items if each not in others]


def _kind(item: pytest.Item) -> str:
    return item.callspec.params.get("kind", KINDS[0]) if hasattr(item, "callspec") else KINDS[0]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Give the name of each engine in turn."""
    name: str = request.param
    return name


@pytest.fixture(autouse=True)
def lacking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let both dialects lack everything; what is common comes before what is a dialect's own."""
    for dialect in (SqliteDialect, PostgresDialect):
        monkeypatch.setattr(dialect, "lacks", FEATURES)
    texts = loader._texts

    def portable(room: str, dialect: str) -> dict[str, str]:
        found = texts(room, dialect) | texts(room, "common")
        return {name: text for name, text in found.items() if not features(text) or f"{room}/{name}" in CALLERS}

    monkeypatch.setattr(loader, "_texts", portable)
    monkeypatch.setattr(PostgresDialect, "bulk", _one_by_one)
    is_conflict = PostgresDialect.is_conflict
    monkeypatch.setattr(
        PostgresDialect,
        "is_conflict",
        lambda self, error: isinstance(error, psycopg.errors.UniqueViolation) or is_conflict(self, error),
    )
    _forget_texts()
    yield
    _forget_texts()


def _forget_texts() -> None:
    for known in (loader.statements, loader.statement):
        known.cache_clear()


def _one_by_one(_: PostgresDialect, conn: psycopg.Connection[Any], sql: str, rows: Rows) -> None:
    """Run a statement for one row after the other: without UPDATE … FROM there is no other way."""
    conn.cursor().executemany(sql, zip(*rows.columns.values(), strict=True))
