import copy
import inspect
import pickle
from collections.abc import Iterable
from typing import Any

import pytest

from penstock import errors
from penstock.errors import Error, Fault, shown, tree

EVERY = [cls for cls in tree() if cls.__module__ == errors.__name__]


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


def test_a_tree_can_begin_at_any_class() -> None:
    assert tree(errors.SettingError) == [
        errors.SettingError,
        errors.UnknownSetting,
        errors.WrongSettingType,
        errors.SettingOutOfRange,
        errors.SettingsFileUnreadable,
    ]


def test_a_class_answers_as_its_parent_unless_its_first_line_says_otherwise() -> None:
    class Late(errors.StoreError, code="late", retryable=True):
        """A class of a test."""

    class Later(Late):
        """Another one."""

    assert (Late.code, Late.fault, Late.retryable, Late.closes) == ("late", Fault.OUTSIDE, True, False)
    assert (Later.code, Later.fault, Later.retryable) == ("late", Fault.OUTSIDE, True)
    assert Late.__module__ == __name__


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
