"""What errors may say in reasons and logs: the type and the place, never the values that they quote."""

from __future__ import annotations

import json
import sqlite3
import traceback
from collections.abc import Callable
from enum import Enum
from typing import Any, Literal

import asyncpg
import msgspec
import psycopg
import pydantic
import pytest
import sqlalchemy
from django.db import utils as django_errors

from penstock.errors import Undecodable
from penstock.redaction import ErrorText, reason, traced, words

SECRET = "canary-4711"


class Colour(Enum):
    RED = "red"


class Struct(msgspec.Struct, forbid_unknown_fields=True):
    number: int
    colour: Colour = Colour.RED
    counts: dict[str, int] = {}

    def __post_init__(self) -> None:
        if self.number == 7:
            raise ValueError(f"seven is {SECRET}")


class Model(pydantic.BaseModel, extra="forbid"):
    number: int
    kind: Literal["a"] = "a"
    counts: dict[str, int] = {}
    mail: int = pydantic.Field(0, alias="e-mail")
    inner: list[Model] = []


def raised(function: Callable[..., Any], *args: Any) -> Exception:
    """Return what a call raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 (each case has its own kind)
        function(*args)
    error: Exception = caught.value
    return error


def of_struct(data: dict[str, Any]) -> Exception:
    return raised(msgspec.json.Decoder(Struct).decode, json.dumps(data).encode())


def of_model(data: Any) -> Exception:
    return raised(Model.model_validate_json, json.dumps(data).encode())


def of_statement() -> Exception:
    with sqlalchemy.create_engine("sqlite://").connect() as conn:
        return raised(conn.execute, sqlalchemy.text("INSERT INTO nowhere VALUES (:x)"), {"x": SECRET})


def of_psycopg(state: str, message: str) -> psycopg.Error:
    error = psycopg.errors.lookup(state)(f"{message}\nDETAIL:  Key (mail)=({SECRET}) already exists.")
    error._info = {  # as psycopg itself fills it when an error was pickled
        psycopg.pq.DiagnosticField.SQLSTATE: state.encode(),
        psycopg.pq.DiagnosticField.MESSAGE_PRIMARY: message.encode(),
    }
    return error


def of_asyncpg() -> Exception:
    fields = {"C": "23505", "M": 'duplicate key violates "one_mail"', "D": f"Key (mail)=({SECRET}) exists."}
    error: Exception = asyncpg.PostgresError.new(fields)
    return error


def of_django() -> Exception:
    cause = of_psycopg("23505", 'duplicate key violates "one_mail"')
    error: Exception = django_errors.IntegrityError(str(cause))
    error.__cause__ = cause
    return error


CASES = [
    (lambda: of_struct({"number": SECRET}), "ValidationError: Expected `int`, got `str` - at `$.number`"),
    (lambda: of_struct({"number": 1, "colour": SECRET}), "ValidationError: at `$.colour`"),
    (
        lambda: of_struct({"number": 1, "counts": {SECRET: "x"}}),
        "ValidationError: Expected `int`, got `str` - at `$.counts[...]`",
    ),
    (lambda: of_struct({"number": 7}), "ValidationError"),
    (lambda: of_struct({"number": 1, SECRET: 1}), "ValidationError"),
    (lambda: of_struct({}), "ValidationError: Object missing required field `number`"),
    (lambda: of_model({"number": SECRET}), "ValidationError: Model: $.number (int_parsing)"),
    (lambda: of_model({"number": 1, "kind": SECRET}), "ValidationError: Model: $.kind (literal_error)"),
    (lambda: of_model({"number": 1, "counts": {SECRET: SECRET}}), "ValidationError: Model: $.counts.… (int_parsing)"),
    (lambda: of_model({"number": 1, SECRET: 1}), "ValidationError: Model: $.… (extra_forbidden)"),
    (
        lambda: of_model({"number": 1, "inner": [{"number": 2, "e-mail": SECRET}]}),
        "ValidationError: Model: $.inner.0.e-mail (int_parsing)",
    ),
    (
        lambda: of_psycopg("23505", 'duplicate key violates "one_mail"'),
        'UniqueViolation: duplicate key violates "one_mail" (SQLSTATE 23505)',
    ),
    (
        lambda: of_psycopg("22P02", f'invalid input syntax for type integer: "{SECRET}"'),
        "InvalidTextRepresentation: SQLSTATE 22P02",
    ),
    (of_asyncpg, 'UniqueViolationError: duplicate key violates "one_mail" (SQLSTATE 23505)'),
    (of_django, "IntegrityError"),
    (of_statement, "OperationalError"),
]


@pytest.mark.parametrize(("make", "said"), CASES, ids=[said[:60] for _, said in CASES])
def test_an_error_that_quotes_values_says_its_type_and_place(make: Callable[[], Exception], said: str) -> None:
    error = make()
    assert words(error) == said
    assert SECRET not in reason(error, 1000)
    assert SECRET not in shown(traced(error))


def test_the_driver_s_own_error_is_told_behind_the_library_s() -> None:
    assert reason(of_django(), 1000).startswith("UniqueViolation: duplicate key violates")
    assert reason(of_statement(), 1000) == "OperationalError: no such table: nowhere <- OperationalError"


def test_what_other_code_says_is_kept_with_its_causes_and_notes() -> None:
    cause = ValueError("the author's words")
    error = LookupError("outer")
    error.__cause__ = cause
    error.add_note("a note")
    assert reason(error, 1000) == "ValueError: the author's words <- LookupError: outer"
    assert traced(error) is error


def test_a_stand_in_keeps_the_names_the_frames_the_causes_and_the_members() -> None:
    def fail() -> None:
        try:
            Model.model_validate({"number": SECRET})
        except pydantic.ValidationError as error:
            raise ExceptionGroup("several", [KeyError("own"), error]) from error

    error = raised(fail)
    error.add_note("a note")
    said = shown(traced(error))
    assert "in fail" in said
    for part in ("ExceptionGroup", "KeyError: 'own'", "$.number (int_parsing)", "direct cause", "a note"):
        assert part in said
    assert "pydantic_core._pydantic_core.ValidationError" in said
    assert SECRET not in said


def test_an_error_whose_causes_go_in_a_circle_is_shown_once() -> None:
    first, second = of_psycopg("23505", "twice"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert shown(traced(first)).count("second") == 1


def test_a_group_whose_member_is_caused_by_the_group_is_shown_once() -> None:
    member = of_psycopg("23505", "twice")
    group = ExceptionGroup("several", [member])
    member.__cause__ = group
    assert shown(traced(group)).count("SQLSTATE 23505") == 1


@pytest.mark.parametrize("how", ErrorText)
@pytest.mark.parametrize("chained", ["causes", "contexts", "members", "cycle"])
def test_of_a_chain_of_thousands_the_nearest_are_shown(chained: str, how: ErrorText) -> None:
    """The stand-ins were made by recursion: a handler's error from 1,000 others ended its thread."""
    root = of_psycopg("23505", "the root")
    error: Exception = root
    for number in range(5_000):
        before, error = error, ConnectionError(f"try {number}")
        if chained == "members":
            error = ExceptionGroup(f"try {number}", [before])
        elif chained == "contexts":
            error.__context__ = before
        else:
            error.__cause__ = before
    if chained == "cycle":
        root.__cause__ = error
    stand_in = shown(traced(error, how))
    assert "4951 more errors behind it are left out" in stand_in
    assert ("try 4999" in stand_in) == (how is not ErrorText.TYPE)
    assert len(stand_in) < 20_000
    assert len(reason(error, 1000, how)) <= 1000
    assert reason(error, 1000, how).startswith("UniqueViolation")


def test_of_a_group_of_thousands_some_members_are_shown() -> None:
    members = [ConnectionError(f"try {number}") for number in range(5_000)]
    stand_in = traced(ExceptionGroup("several", members))
    assert isinstance(stand_in, BaseExceptionGroup)
    assert [str(each) for each in stand_in.exceptions] == [f"try {number}" for number in range(49)]
    assert "4951 more errors behind it are left out" in shown(stand_in)


def test_full_text_and_types_alone_are_to_be_had() -> None:
    cause = of_model({"number": SECRET})
    error = Undecodable("an event", "it is wrong")
    error.__cause__ = cause
    assert reason(error, 1000) == "Undecodable: an event cannot be decoded: it is wrong"
    assert SECRET in reason(error, 1000, ErrorText.FULL)
    assert reason(error, 1000, ErrorText.TYPE) == "Undecodable"
    assert SECRET in shown(traced(error, ErrorText.FULL))
    assert SECRET not in shown(traced(error))
    assert "it is wrong" not in shown(traced(error, ErrorText.TYPE))
    assert reason(sqlite3.OperationalError("own"), 1000, ErrorText.TYPE) == "OperationalError"


def test_a_library_of_an_unknown_form_is_shown_by_its_type() -> None:
    broken = type("Error", (Exception,), {"__module__": "psycopg", "diag": property(lambda self: 1 / 0)})
    assert words(broken(SECRET)) == "Error"


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
