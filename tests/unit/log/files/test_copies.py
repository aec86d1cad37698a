"""Copies of the rows of the tables, made at a start: without room for them a log is served all the same."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.database.contract import Result
from penstock.database.migrations import migrate
from penstock.database.sqlite.dialect import SqliteConnection, SqliteDialect
from penstock.database.statements import statement
from penstock.log.files import tables
from penstock.log.files.claim import LogClaim
from penstock.log.files.log import FileLog
from penstock.log.files.verify import check_tables
from penstock.log.store import open_store
from tests.suites.records import a_record


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a log whose tables are made, and which nobody has written yet."""
    store = open_store(f"{tmp_path}/log/")
    migrate(store.database)
    store.log.create_topic("t", partitions=1)
    store.close()
    assert copies(tmp_path / "log") == []
    return tmp_path / "log"


def copies(folder: Path) -> list[str]:
    with closing(sqlite3.connect(folder / tables.NAME)) as conn:
        return [name for (name,) in conn.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'copy%'")]


@contextmanager
def no_room(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """Let the file take no page more."""
    begin = SqliteDialect.begin

    def full(self: SqliteDialect, conn: SqliteConnection, **options: Any) -> list[Result]:
        conn.execute("PRAGMA max_page_count = 1")  # SQLite takes as many as there are
        return begin(self, conn, **options)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteDialect, "begin", full)
        yield


@contextmanager
def held_by_another(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """Let another program begin to write the file, and not end it, once the start is marked."""
    mark = LogClaim._mark
    with closing(sqlite3.connect(folder / tables.NAME)) as other, monkeypatch.context() as patch:

        def marked(self: LogClaim, *args: Any) -> None:
            mark(self, *args)
            other.execute("BEGIN IMMEDIATE")

        patch.setattr(LogClaim, "_mark", marked)
        yield


@pytest.mark.parametrize(
    ("fault", "said"), [(no_room, "no space left"), (held_by_another, "is locked")], ids=["full", "locked"]
)
def test_where_copies_cannot_be_made_a_writer_starts_and_says_so(
    fault: Any, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(f"{folder}/")
    assert isinstance(store.log, FileLog)
    store.database.timeout_seconds = 0.0
    assert isinstance(store.database.dialect, SqliteDialect)
    store.database.dialect._busy_seconds = 0.01
    with fault(monkeypatch, folder), caplog.at_level(logging.WARNING, "penstock.log"):
        store.log.claim()
    (warned,) = [each.getMessage() for each in caplog.records if "copies" in each.getMessage()]
    assert said in warned
    assert copies(folder) == []
    store.log.append("t", [a_record()])
    assert len(store.log.read("t", 0, 0)) == 1
    store.close()
    assert list(check_tables(folder)) == []

    store = open_store(f"{folder}/")
    assert isinstance(store.log, FileLog)
    store.log.claim()
    store.close()
    assert "copy_penstock_topic" in copies(folder), "the next start makes them"


def test_a_migration_while_it_is_looked_for_damage_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the tables is compared with what is noted of them: both have to be of one moment."""
    store = open_store(f"{folder}/")
    assert isinstance(store.log, FileLog)
    store.log.claim()
    store.close()
    asked = list[str]()

    def asking(room: str, dialect: str, name: str, *rest: Any) -> str:
        if name == "table_texts":
            with closing(sqlite3.connect(folder / tables.NAME)) as other:
                other.execute("ALTER TABLE penstock_topic ADD COLUMN later TEXT")
        asked.append(name)
        return statement(room, dialect, name, *rest)

    with closing(sqlite3.connect(folder / tables.NAME)), monkeypatch.context() as patch:
        patch.setattr(tables, "statement", asking)
        assert tables.damage(folder) is None
    assert asked[-3:] == ["schema_read", "meta_read", "table_texts"]
    assert tables.damage(folder) == "the definition of a table has changed"
