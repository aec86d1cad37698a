"""Statements for PostgreSQL as each driver wants them, from one SQL file each."""

import pytest

from penstock.database.naming import Names
from penstock.outbox.adapters.postgres_calls import missing_relation, numbered_sql, postgres_call, postgres_sql
from penstock.outbox.contract import Step

STATEMENTS = {"stage": 10, "stage_many": 10, "schedule": 11, "schedule_many": 11, "cancel": 2}


@pytest.mark.parametrize(("name", "count"), STATEMENTS.items())
def test_placeholders_are_numbered_in_order_and_nothing_else_changes(name: str, count: int) -> None:
    plain, numbered = postgres_sql(name, Names()), numbered_sql(name, Names())
    assert "%" not in numbered
    for number in range(1, count + 1):
        plain = plain.replace("%s", f"${number}", 1)
    assert plain == numbered


def test_numbered_statements_carry_the_chosen_names() -> None:
    assert 'INTO "shop".own_staged' in numbered_sql("stage", Names("own_", "shop"))


def test_many_rows_are_an_array_a_column() -> None:
    assert postgres_call(Step("stage", [(1, "a")])) == ("stage", (1, "a"))
    assert postgres_call(Step("stage", [(1, "a"), (2, None)])) == ("stage_many", ([1, 2], ["a", None]))


class Answer(Exception):
    """A driver's error, with the code of the server's answer."""

    def __init__(self, text: str, **codes: str) -> None:
        super().__init__(text)
        vars(self).update(codes)


@pytest.mark.parametrize("attribute", ["sqlstate", "pgcode"])
def test_a_missing_table_is_known_by_its_code_and_named(attribute: str) -> None:
    error = Answer('relation "shop.penstock_staged" does not exist', **{attribute: "42P01"})
    assert "shop.penstock_staged" in str(missing_relation(error))
    assert "penstock_*" in str(missing_relation(Answer("gone", **{attribute: "42P01"})))
    assert missing_relation(Answer('column "x" does not exist', **{attribute: "42703"})) is None
    assert missing_relation(None) is None
