"""Every error has a code of its own, and no table of a face names one without need."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from penstock import errors
from penstock.broker.error_codes import ERROR_NUMBERS
from penstock.cli.exit_codes import EXIT_CODES
from penstock.errors import Error, Fault, tree
from penstock.errors.base import ErrorTable
from penstock.gateway.grpc.problems import CODES
from penstock.gateway.problem import STATUSES
from penstock.gateway.tinyq.door import ANSWERS
from tests.architecture.source import assert_none
from tools.tree import import_everything

HOME = errors.__name__
# Without what other tests have derived in this process.
CLASSES = [cls for cls in tree() if cls.__module__ == HOME]
TABLES: dict[str, ErrorTable[Any]] = {
    "exit codes": EXIT_CODES,
    "HTTP": STATUSES,
    "Kafka": ERROR_NUMBERS,
    "TinyQ": ANSWERS,
}


def code_breaches(classes: Sequence[type[Error]]) -> Iterator[str]:
    """Yield a sentence for each class that has no docstring, or no plain code of its own."""
    owners: dict[str, str] = {}
    for cls in classes:
        if "code" not in vars(cls):
            yield f"{cls.__name__} has no code of its own"
        elif (owner := owners.setdefault(cls.code, cls.__name__)) != cls.__name__:
            yield f"{cls.__name__} has the code {cls.code} of {owner}"
        if not re.fullmatch(r"[a-z][a-z_]*", cls.code):
            yield f"{cls.__name__}: the code {cls.code!r} is not words joined by _"
        if not vars(cls).get("__doc__"):
            yield f"{cls.__name__} has no docstring"


def table_breaches(classes: Sequence[type[Error]], table: ErrorTable[Any]) -> Iterator[str]:
    """Yield a sentence for each named class without which all answers would be the same."""
    for named in table.named:
        without = ErrorTable(table.rule, {})
        without.named = {cls: answer for cls, answer in table.named.items() if cls is not named}
        below = [cls for cls in classes if issubclass(cls, named)]
        if all(without.of(cls) == table.of(cls) for cls in below):
            yield f"{named.__name__} need not be named"


def test_every_code_is_its_own() -> None:
    assert_none(code_breaches(CLASSES))


def test_every_error_is_in_the_errors_package() -> None:
    import_everything()
    assert [cls for cls in tree() if cls.__module__.startswith("penstock.") and cls.__module__ != HOME] == []


def test_every_error_has_the_public_name_of_the_package() -> None:
    assert [cls for cls in CLASSES if getattr(errors, cls.__name__, None) is not cls] == []


@pytest.mark.parametrize("face", TABLES)
def test_a_table_names_only_the_exceptions_of_its_rule(face: str) -> None:
    assert_none(table_breaches(CLASSES, TABLES[face]))


def test_every_status_of_http_has_one_of_grpcs() -> None:
    assert {STATUSES.of(cls) for cls in CLASSES} <= CODES.keys()


def test_planted_breaches_of_the_codes_are_found() -> None:
    # Built on a copy of the root, so that the real tree does not grow by what a test plants.
    root = type("Root", (Exception,), {"code": "root", "__doc__": "A root."})
    silent = type("Silent", (root,), {"__doc__": "Borrows its code."})
    taken = type("Taken", (root,), {"code": "root", "__doc__": "Takes a code."})
    shouted = type("Shouted", (root,), {"code": "Shouted-1", "__doc__": "A code that is no word."})
    mute = type("Mute", (root,), {"code": "mute"})
    assert list(code_breaches([root, silent, taken, shouted, mute])) == [
        "Silent has no code of its own",
        "Taken has the code root of Root",
        "Shouted: the code 'Shouted-1' is not words joined by _",
        "Mute has no docstring",
    ]


def test_planted_breaches_of_a_table_are_found() -> None:
    table = ErrorTable(lambda cls: int(cls.fault is Fault.CALLER), {1: [errors.StoreError], 2: [errors.LogError]})
    assert list(table_breaches(CLASSES, table)) == []
    table.named[errors.StoreDamaged] = 1
    table.named[errors.InvalidInput] = 1
    assert list(table_breaches(CLASSES, table)) == ["StoreDamaged need not be named", "InvalidInput need not be named"]


def test_a_class_has_the_answer_of_its_nearest_named_parent() -> None:
    table = ErrorTable(lambda cls: "rule", {"store": [errors.StoreError], "file": [errors.FileUnreadable]})
    of = [table.of(cls) for cls in (errors.FileUnreadable, errors.StoreFull, errors.UnknownTopic)]
    assert of == ["file", "store", "rule"]
