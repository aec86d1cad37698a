"""Every statement can do without what some databases lack, or is a known exception."""

from pathlib import Path

import pytest

from tests.architecture.source import ROOT, assert_none, plant
from tests.architecture.sql_features import breaches, features

FEATURES = {
    "DELETE FROM a RETURNING b": {"returning"},
    "INSERT INTO a (b) VALUES (1) ON CONFLICT (b) DO UPDATE SET b = excluded.b": {"on_conflict"},
    "INSERT INTO a (b) SELECT c FROM d WHERE true ON CONFLICT DO NOTHING": {"on_conflict"},
    "UPDATE a SET b = c.d FROM c WHERE a.e = c.e": {"update_from"},
    "WITH w AS (SELECT 1 AS b FOR UPDATE)\nUPDATE a\nSET b = w.b\nFROM w": {"update_from"},
    "DELETE FROM a USING b WHERE a.c = b.c": {"update_from"},
    "WITH w AS (DELETE FROM a RETURNING b) INSERT INTO c (d) SELECT b FROM w": {"returning", "writing_with"},
    "UPDATE a SET b = (SELECT max(c) FROM d) WHERE e = ANY(ARRAY(SELECT e FROM a FOR UPDATE))": set(),
    "DELETE FROM a WHERE (b, c) IN (SELECT d, e FROM f)": set(),
    "SELECT a FROM b WHERE c = 'RETURNING' FOR UPDATE": set(),
}
TAKE = "-- name: take\n-- Locks.\n{}DELETE FROM a RETURNING b;\n"
FORM = "-- without returning: find_then_change(find, drop)\n"
FIND = "-- name: find\n-- Reads.\nSELECT b FROM a;\n"
DROP = "-- name: drop\n-- Locks.\nDELETE FROM a;\n"
PUT = "-- name: put\n-- Locks.\n{}INSERT INTO a (b) VALUES (1) ON CONFLICT DO NOTHING;\n"
BREACHES = {
    "no second form": ({"common": TAKE.format("")}, "take has no second form without returning"),
    "one for something else": (
        {"common": PUT.format(FORM) + FIND + DROP},
        "put has no second form without on_conflict",
    ),
    "a statement that is not there": ({"common": TAKE.format(FORM) + FIND}, "with drop, which is not there"),
    "a statement that is not portable": (
        {"common": TAKE.format(FORM) + FIND + DROP.replace("a;", "a USING b;")},
        "drop has no second form without update_from",
    ),
    "only in a dialect's file": ({"one": TAKE.format("")}, "sql/one.sql: take has no second form"),
    "common to all, and no better": (
        {"common": "-- name: take\n-- Locks.\n" + FORM + FIND + DROP, "one": PUT.format("")},
        "put has no second form without on_conflict",
    ),
}
LAWFUL = {
    "declared": {"common": TAKE.format(FORM) + FIND + DROP},
    "declared for a dialect's": {"common": "-- name: take\n-- Locks.\n" + FORM + FIND + DROP, "one": TAKE.format("")},
    "portable for all others": {"common": DROP.replace("drop", "take"), "one": TAKE.format("")},
    "each row": {
        "common": PUT.format("-- without on_conflict: update_or_insert_each(rows, change, add)\n")
        + "-- name: change\n-- Locks.\nUPDATE a SET b = 1;\n"
        + "-- name: add\n-- Locks.\nINSERT INTO a (b) VALUES (1);\n"
    },
}


def test_every_statement_can_do_without() -> None:
    assert_none(breaches(ROOT))


@pytest.mark.parametrize("text", FEATURES, ids=str)
def test_what_a_statement_is_written_with_is_seen(text: str) -> None:
    assert features(text) == FEATURES[text]


@pytest.mark.parametrize("case", BREACHES, ids=str)
def test_a_planted_breach_is_found(case: str, tmp_path: Path) -> None:
    texts, words = BREACHES[case]
    for file, text in texts.items():
        plant(tmp_path, f"outbox/sql/{file}.sql", text)
    assert words in "\n".join(breaches(tmp_path, {}))


@pytest.mark.parametrize("case", LAWFUL, ids=str)
def test_what_is_lawful_is_not_reported(case: str, tmp_path: Path) -> None:
    for file, text in LAWFUL[case].items():
        plant(tmp_path, f"outbox/sql/{file}.sql", text)
    assert list(breaches(tmp_path, {})) == []


def test_an_exception_is_passed_over_and_found_when_it_is_none(tmp_path: Path) -> None:
    plant(tmp_path, "outbox/sql/common.sql", TAKE.format(""))
    assert list(breaches(tmp_path, {"outbox/take": "it is known"})) == []
    plant(tmp_path, "outbox/sql/common.sql", FIND)
    (found,) = breaches(tmp_path, {"outbox/take": "it is known"})
    assert "no longer an exception" in found
