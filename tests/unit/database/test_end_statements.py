"""Which statements end a transaction that is not the caller's own."""

import pytest

from penstock.database.end_statements import refuse_end
from penstock.errors import TransactionEnded


@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT",
        " ; end",
        "-- why\nrollback",
        "/* why */ abort",
        "/**/ /* ** */COMMIT",
        b"commit",
        "/*;*/;END;",
        "PRAGMA query_only = 1",
    ],
)
def test_an_end_is_refused_behind_blanks_and_comments(statement: str | bytes) -> None:
    with pytest.raises(TransactionEnded):
        refuse_end(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "/* q */ SELECT CASE WHEN x THEN 1 /* why */ END",
        "/*+ hint */ INSERT INTO notes VALUES ('/* */ commit')",
        "rollback to savepoint a",
        "SELECT 'commit'",
        "PRAGMA query_only",
        "/* a comment without an end, commit",
    ],
)
def test_the_words_of_other_statements_are_let_through(statement: str) -> None:
    refuse_end(statement)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; COMMIT; SELECT 2",
        "SELECT 1; SET TRANSACTION READ ONLY",
        "SELECT ';' /* ; */;/**/ -- ;\n end",
        "SELECT $$it's$$; commit",
        "SELECT $a$ $$ ; $a$, $1;ROLLBACK",
        r"SELECT E'it\'s;'; ABORT",
        r"SELECT '\'; commit",
        "/* /* ; */ */ SELECT 1; PREPARE TRANSACTION 'x'",
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; COMMIT",
    ],
)
def test_an_end_behind_other_statements_is_refused(text: str) -> None:
    with pytest.raises(TransactionEnded):
        refuse_end(text, several=True)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; SELECT 2;",
        "SELECT '; commit'; SELECT \"; commit\"",
        "SELECT 1 /* /* */ ; commit */; SELECT 2 --; commit",
        "DO $$ BEGIN PERFORM 1; END; $$; SELECT $a$ $$; commit; $$ $a$",
        r"SELECT e'\'; commit'; SELECT 1",
        "SAVEPOINT a; SELECT 1; ROLLBACK TO a; RELEASE a",
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; SELECT 1",
    ],
)
def test_other_texts_of_several_statements_are_let_through(text: str) -> None:
    refuse_end(text, several=True)


def test_a_trigger_is_one_statement_where_the_driver_takes_only_one() -> None:
    refuse_end("CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END")


def test_a_long_text_takes_no_time() -> None:
    refuse_end("INSERT INTO a VALUES ('it''s', $$;$$); /* ; */ " * 20_000, several=True)


def test_many_comments_take_no_time() -> None:
    """They were tried in all ways in which they could be joined: twenty took a second."""
    refuse_end("/* why */ " * 5_000 + "SELECT 1")
