"""Dialects that lack all that a database may lack: every statement of theirs runs in its second form."""

from collections.abc import Iterator

import pytest

from penstock.log.sql import statements as loader
from penstock.log.sql.postgres.dialect import PostgresDialect
from penstock.log.sql.second_forms import FEATURES
from penstock.log.sql.sqlite.dialect import SqliteDialect
from tests.architecture.sql_features import EXCEPTIONS, features

CALLERS = {name for name, reason in EXCEPTIONS.items() if "the caller's connection" in reason}
OWN = {"append", "entries_copy"}  # go with `Dialect.bulk`, which hands many rows over in its own way


@pytest.fixture(params=["memory", "postgres"])
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
        own, common = texts(room, dialect), texts(room, "common")
        found = own | common | {name: own[name] for name in OWN & own.keys()}
        return {
            name: text for name, text in found.items() if not features(text) or f"{room}/{name}" in CALLERS
        }

    monkeypatch.setattr(loader, "_texts", portable)
    loader.statements.cache_clear()
    yield
    loader.statements.cache_clear()
