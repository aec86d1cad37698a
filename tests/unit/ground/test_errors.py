import copy
import inspect
import pickle
import re
from collections.abc import Iterable
from typing import Any

import pytest

from penstock import errors
from penstock.errors import Error, Fault, shown, tree

EVERY = [cls for cls in tree() if cls.__module__ == errors.__name__]
LINE = re.compile(r"^    (?P<branches>[│├└─ ]*)(?P<name>[A-Z]\w+)(?:  +(?P<remark>\S.*))?$")


def an_error(cls: type[Error]) -> Error:
    """Return an error of a class, its arguments made up from their types."""
    made_up: dict[Any, Any] = {
        str: "text",
        int: 1,
        int | None: 1,
        str | None: "text",
        float: 2.5,
        object: "thing",
        type: Error,
        bool: True,
        list[str]: ["one", "two"],
        Iterable[str]: ["one", "two"],
        tuple[int, int | None]: (1, 2),
        Iterable[Any]: ["one", b"two"],
    }
    if "__init__" not in vars(cls):
        return cls("text")
    parameters = list(inspect.signature(cls).parameters.values())
    return cls(*(made_up[each.annotation] for each in parameters))


def drawn() -> list[tuple[str, str]]:
    """Return each name in the drawing with the name it hangs on, top to bottom."""
    found: list[tuple[str, str]] = []
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        depth, rest = divmod(len(match["branches"]), 4)
        assert rest == 0, line
        path[depth:] = [match["name"]]
        found.append((match["name"], path[-2] if depth else ""))
    return found


def test_the_drawing_is_the_tree() -> None:
    real = [(cls.__name__, "" if cls is Error else cls.__bases__[0].__name__) for cls in EVERY]

    assert drawn() == real


def test_every_error_class_of_the_file_hangs_on_the_tree() -> None:
    classes = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, BaseException)
    ]

    assert set(classes) == set(EVERY)
    assert len(EVERY) == len(set(EVERY))


def test_penstock_has_no_error_class_outside_this_file() -> None:
    strays = [cls for cls in tree() if cls.__module__.split(".")[0] == "penstock" and cls not in EVERY]

    assert strays == []


def test_a_tree_can_begin_at_any_class() -> None:
    assert tree(errors.SettingError) == [
        errors.SettingError,
        errors.UnknownSetting,
        errors.WrongSettingType,
        errors.SettingOutOfRange,
        errors.SettingsFileUnreadable,
    ]


def test_each_class_has_a_code_of_its_own() -> None:
    codes = {cls.__name__: vars(cls).get("code") for cls in EVERY}

    assert all(
        isinstance(code, str) and re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes.values()
    ), codes
    assert len(set(codes.values())) == len(codes)


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_each_class_answers_what_happened_whose_fault_and_what_next(cls: type[Error]) -> None:
    assert vars(cls).get("__doc__", "").strip().endswith(".") or cls is Error
    assert vars(cls).get("__doc__")
    assert isinstance(cls.fault, Fault)
    assert isinstance(cls.retryable, bool)
    assert isinstance(cls.closes, bool)


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_each_error_crosses_to_another_process_whole(cls: type[Error]) -> None:
    error = an_error(cls)
    error.add_note("seen in a worker")

    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is cls
        assert str(copied) == str(error) != ""
        assert copied.__notes__ == ["seen in a worker"]


def test_a_value_in_a_message_is_quoted_and_cut() -> None:
    assert shown("a'b\n\ud800") == r'''"a'b\n\ud800"'''
    assert shown("x" * 100) == "'" + "x" * 79 + "… (100 characters)"
    assert shown(b"\xff" * 100) == r"b'" + r"\xff" * 19 + r"\x… (100 bytes)"
    assert shown("x" * 78) == "'" + "x" * 78 + "'"


def test_a_message_can_always_be_printed() -> None:
    message = str(errors.InvalidKey("\ud800", 255))

    assert message.encode("utf-8")
