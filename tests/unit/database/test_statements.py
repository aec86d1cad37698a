"""Statements are read from a room's files and put into each dialect's words."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from penstock.database import statements as loader
from penstock.database.contract import Wording
from penstock.database.naming import Names
from penstock.database.postgres.wording import POSTGRES
from penstock.database.sqlite.wording import SQLITE
from penstock.database.statements import statement, statements, translate
from tests.architecture.source import plant

ROOMS = ("access", "broker", "database", "delivery", "log", "membership", "operate", "outbox")
WORDS = {  # neutral: PostgreSQL's, SQLite's
    "a = :a AND b = ?": ("a = %(a)s AND b = %s", None),
    "a LIKE 'x%'": ("a LIKE 'x%%'", None),
    ":a::text IS NULL OR sum(b)::bigint": ("%(a)s::text IS NULL OR sum(b)::bigint", ":a IS NULL OR sum(b)"),
    "a = ANY(:a::text[])": ("a = ANY(%(a)s::text[])", "a IN (SELECT value FROM json_each(:a))"),
    "a <> ALL(:a::text[])": ("a <> ALL(%(a)s::text[])", "a NOT IN (SELECT value FROM json_each(:a))"),
    "a = ANY(ARRAY(SELECT f(b) FROM c ORDER BY b FOR UPDATE)) AND (d)": (
        "a = ANY(ARRAY(SELECT f(b) FROM c ORDER BY b FOR UPDATE)) AND (d)",
        "a IN (SELECT f(b) FROM c ORDER BY b) AND (d)",
    ),
    "SELECT a FOR UPDATE OF c SKIP LOCKED": ("SELECT a FOR UPDATE OF c SKIP LOCKED", "SELECT a"),
    "SELECT a\nFOR KEY SHARE": ("SELECT a\nFOR KEY SHARE", "SELECT a"),
    "FROM a CROSS JOIN b c ON b.x = c.x CROSS JOIN d": ("FROM a JOIN b c ON b.x = c.x CROSS JOIN d", None),
    "greatest(a, least(b, octet_length(c)))": ("greatest(a, least(b, octet_length(c)))", "max(a, min(b, length(c)))"),
    "FROM rows(:w, a integer, b text) AS x": (
        "FROM unnest(%(w.a)s::integer[], %(w.b)s::text[]) AS x (a, b)",
        "FROM (SELECT json_extract(value, '$[0]') AS a, json_extract(value, '$[1]') AS b FROM json_each(:w)) AS x",
    ),
}


@pytest.mark.parametrize("neutral", WORDS, ids=str)
def test_each_dialect_says_it_in_its_words(neutral: str) -> None:
    postgres, sqlite = WORDS[neutral]
    assert translate(neutral, POSTGRES) == postgres
    assert translate(neutral, SQLITE) == (sqlite or neutral)


def test_the_time_is_a_parameter_or_the_databases() -> None:
    postgres, sqlite = (translate("now_ms(:at)", each) for each in (POSTGRES, SQLITE))
    assert postgres.startswith("(SELECT coalesce(%(at)s::bigint, floor(extract(epoch")
    assert sqlite.startswith("coalesce(:at, CAST((julianday('now')")


# As MySQL would write the forms: a third dialect fills in the table, and needs no other translation.
THIRD = Wording(
    rows="JSON_TABLE(%({param})s, '$[*]' COLUMNS ({columns})) AS {alias}",
    rows_column="{name} TEXT PATH '$[{at}]'",
    in_select="IN (SELECT * FROM ({query}) AS q)",
    in_list="MEMBER OF (%({list})s)",
    not_in_list="NOT MEMBER OF (%({list})s)",
    now_ms="coalesce(%({param})s, floor(unix_timestamp(now(3)) * 1000))",
    ordered_join="STRAIGHT_JOIN",
    cast="",
    percent="%",
    position="%s",
    parameter="%({name})s",
)
# A form of the neutral SQL that only some databases know.
LEFT = re.compile(r"::|\bANY\(|\bALL\(:|\brows\(:|\bnow_ms\(|[^:\w%(]:[a-z]|IS (NOT )?DISTINCT FROM")


@pytest.mark.parametrize("room", ROOMS)
def test_a_third_dialect_needs_only_its_words(room: str) -> None:
    texts = {name: loader._body(text) for name, text in loader._read(room, "common").items()}
    assert any(LEFT.search(text) for text in texts.values())
    translated = {name: translate(text, THIRD) for name, text in texts.items()}
    assert {name: text for name, text in translated.items() if LEFT.search(text)} == {}


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
@pytest.mark.parametrize("room", ROOMS)
def test_every_statement_takes_other_names(room: str, dialect: str) -> None:
    """No statement names a table in a way that the chosen prefix would not reach."""
    found = statements(room, dialect, Names("acme_"))
    assert found
    assert not [name for name, text in found.items() if "penstock_" in text]


def test_a_statement_comes_without_comments_and_semicolon() -> None:
    text = statement("log", "sqlite", "topic_list", Names())
    assert text.startswith("SELECT")
    assert "--" not in text
    assert not text.endswith(";")


def test_one_that_is_not_there_is_named() -> None:
    with pytest.raises(LookupError, match="outbox/sql/ has no statement gone for postgres"):
        statement("outbox", "postgres", "gone", Names())


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the folder of a room of its own, which may take files."""
    monkeypatch.setattr(loader, "files", lambda name: tmp_path if ".planted." in name else files(name))
    statements.cache_clear()
    yield tmp_path
    statements.cache_clear()


def test_a_dialects_file_overrides_what_is_common(room: Path) -> None:
    plant(room, "common.sql", "-- All.\n\n-- name: a\n-- Reads.\nSELECT :a;\n\n-- name: b\nSELECT 2;\n")
    plant(room, "sqlite.sql", "-- name: b\n-- Reads.\nSELECT 3;\n\n-- name: c\n-- Reads.\nSELECT 4;\n")
    assert statements("planted", "sqlite", Names()) == {"a": "SELECT :a", "b": "SELECT 3", "c": "SELECT 4"}
    assert statements("planted", "postgres", Names()) == {"a": "SELECT %(a)s", "b": "SELECT 2"}


def test_a_name_twice_in_one_file_is_refused(room: Path) -> None:
    plant(room, "sqlite.sql", "-- name: a\n-- Reads.\nSELECT 1;\n-- name: a\n-- Reads.\nSELECT 2;\n")
    with pytest.raises(ValueError, match=r"planted/sql/sqlite\.sql has two statements of the name a"):
        statements("planted", "sqlite", Names())
