"""Which statements end a transaction that is not the caller's own."""

import pytest

from penstock.database.end_statements import refuse_end
from penstock.errors import TransactionEnded


@pytest.mark.parametrize(
    "statement",
    ["COMMIT", " ; end", "-- why\nrollback", "/* why */ abort", "/**/ /* ** */COMMIT", b"commit", "/*;*/;END;"],
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
        "/* a comment without an end, commit",
    ],
)
def test_the_words_of_other_statements_are_let_through(statement: str) -> None:
    refuse_end(statement)


def test_many_comments_take_no_time() -> None:
    """They were tried in all ways in which they could be joined: twenty took a second."""
    refuse_end("/* why */ " * 5_000 + "SELECT 1")
