"""Which errors are tried again (B-06): include, exclude, predicates, causes and groups."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock.model.retry import Fixed, RetryPolicy
from penstock.redaction import chain


class Transient(Exception):
    pass


class Timeout(Transient):
    pass


class Permanent(Exception):
    pass


def caused(error: Exception, cause: BaseException) -> Exception:
    """Return an error as `raise error from cause` leaves it."""
    try:
        raise error from cause
    except Exception as raised:
        return raised


def in_context(error: Exception, context: BaseException) -> Exception:
    """Return an error as it is raised while another one is handled."""
    try:
        try:
            raise context
        except BaseException:
            raise error  # noqa: B904 (the point of it)
    except Exception as raised:
        return raised


def from_none(error: Exception, context: BaseException) -> Exception:
    """Return an error as `raise error from None` leaves it: its context is hidden."""
    try:
        try:
            raise context
        except BaseException:
            raise error from None
    except Exception as raised:
        return raised


def in_a_cycle() -> Exception:
    one, two = Permanent("one"), Transient("two")
    one.__cause__, two.__cause__ = two, one
    return one


def long_chain(length: int, last: BaseException) -> BaseException:
    error = last
    for number in range(length):
        error = caused(ValueError(number), error)
    return error


def is_busy(error: BaseException) -> bool:
    return "busy" in str(error)


def never(error: BaseException) -> bool:
    return False


def broken(error: BaseException) -> bool:
    raise RuntimeError("the predicate is wrong")


RULES: dict[str, dict[str, Any]] = {
    "none": {},
    "retry_on": {"retry_on": Transient},
    "no_retry_on": {"no_retry_on": Permanent},
    "both": {"retry_on": Exception, "no_retry_on": Permanent},
    "retry_if": {"retry_if": is_busy},
    "on_function": {"retry_on": is_busy},
    "on_class_or_function": {"retry_on": [Transient, is_busy]},
    "not_on_function": {"no_retry_on": [Permanent, is_busy]},
    "two_ifs": {"retry_if": [never, is_busy]},
    "never": {"retry_if": never},
    "retry_on_or_if": {"retry_on": Transient, "retry_if": is_busy},
    "no_retry_on_and_if": {"no_retry_on": Permanent, "retry_if": is_busy},
    "by_name": {"retry_on": "Transient"},
    "by_dotted_name": {"retry_on": f"{__name__}.Transient"},
    "by_builtin_name": {"retry_on": ["builtins.OSError", "KeyError"]},
    "not_by_name": {"no_retry_on": f"{__name__}.Permanent"},
    "wrong_module": {"retry_on": "elsewhere.Transient"},
}

TABLE: list[tuple[str, Callable[[], BaseException], bool]] = [
    # No rule: everything.
    ("none", lambda: ValueError(), True),
    ("none", lambda: in_a_cycle(), True),
    # An include list: only those, and what is derived from them.
    ("retry_on", lambda: Transient(), True),
    ("retry_on", lambda: Timeout(), True),
    ("retry_on", lambda: ValueError(), False),
    ("retry_on", lambda: caused(ValueError(), Timeout()), True),
    ("retry_on", lambda: in_context(ValueError(), Timeout()), True),
    ("retry_on", lambda: from_none(ValueError(), Timeout()), False),
    ("retry_on", lambda: caused(in_context(ValueError(), Transient()), KeyError()), False),
    ("retry_on", lambda: long_chain(2000, Transient()), True),
    ("retry_on", lambda: ExceptionGroup("several", [ValueError(), Timeout()]), True),
    ("retry_on", lambda: ExceptionGroup("several", [ValueError(), KeyError()]), False),
    ("retry_on", lambda: ExceptionGroup("a", [ExceptionGroup("b", [Transient()])]), True),
    ("retry_on", lambda: ExceptionGroup("a", [caused(ValueError(), Transient())]), True),
    ("retry_on", lambda: caused(ValueError(), ExceptionGroup("a", [Transient()])), True),
    ("retry_on", lambda: caused(ExceptionGroup("a", [ValueError()]), Transient()), True),
    ("retry_on", in_a_cycle, True),
    # An exclude list wins wherever in the chain it matches.
    ("no_retry_on", lambda: ValueError(), True),
    ("no_retry_on", lambda: Permanent(), False),
    ("no_retry_on", lambda: caused(ValueError(), Permanent()), False),
    ("no_retry_on", lambda: in_context(ValueError(), Permanent()), False),
    ("no_retry_on", lambda: from_none(ValueError(), Permanent()), True),
    ("no_retry_on", lambda: BaseExceptionGroup("a", [KeyboardInterrupt(), Permanent()]), False),
    ("no_retry_on", in_a_cycle, False),
    ("both", lambda: ValueError(), True),
    ("both", lambda: Permanent(), False),
    ("both", lambda: caused(Timeout(), Permanent()), False),
    ("both", lambda: caused(Permanent(), Timeout()), False),
    ("both", lambda: KeyboardInterrupt(), False),
    # Predicates are joined by "or", also with the include list; they see the error itself.
    ("retry_if", lambda: ValueError("busy"), True),
    ("retry_if", lambda: ValueError("gone"), False),
    ("retry_if", lambda: caused(ValueError("gone"), KeyError("busy")), False),
    ("two_ifs", lambda: ValueError("busy"), True),
    ("two_ifs", lambda: ValueError("gone"), False),
    ("never", lambda: ValueError("busy"), False),
    ("retry_on_or_if", lambda: Transient("gone"), True),
    ("retry_on_or_if", lambda: ValueError("busy"), True),
    ("retry_on_or_if", lambda: ValueError("gone"), False),
    ("no_retry_on_and_if", lambda: Permanent("busy"), False),
    ("no_retry_on_and_if", lambda: ValueError("busy"), True),
    ("no_retry_on_and_if", lambda: ValueError("gone"), False),
    # A function stands beside classes, in both lists.
    ("on_function", lambda: ValueError("busy"), True),
    ("on_function", lambda: ValueError("gone"), False),
    ("on_function", lambda: caused(ValueError("gone"), KeyError("busy")), False),
    ("on_class_or_function", lambda: caused(ValueError("gone"), Transient()), True),
    ("on_class_or_function", lambda: ValueError("busy"), True),
    ("on_class_or_function", lambda: ValueError("gone"), False),
    ("not_on_function", lambda: ValueError("busy"), False),
    ("not_on_function", lambda: Permanent("gone"), False),
    ("not_on_function", lambda: ValueError("gone"), True),
    # Classes by name, for settings: the class or a parent, with or without its module.
    ("by_name", lambda: Timeout(), True),
    ("by_name", lambda: ValueError(), False),
    ("by_dotted_name", lambda: caused(ValueError(), Timeout()), True),
    ("by_dotted_name", lambda: ValueError(), False),
    ("by_builtin_name", lambda: ConnectionResetError(), True),
    ("by_builtin_name", lambda: KeyError(), True),
    ("by_builtin_name", lambda: ValueError(), False),
    ("not_by_name", lambda: caused(ValueError(), Permanent()), False),
    ("not_by_name", lambda: ValueError(), True),
    ("wrong_module", lambda: Transient(), False),
]


def policy_of(rule: str) -> RetryPolicy:
    return Fixed(**RULES[rule])


@pytest.mark.parametrize(
    ("rule", "build", "expected"), TABLE, ids=[f"{number}-{row[0]}" for number, row in enumerate(TABLE)]
)
def test_an_error_is_tried_again_as_the_table_says(
    rule: str, build: Callable[[], BaseException], expected: bool
) -> None:
    policy, error = policy_of(rule), build()

    assert policy.accepts(error) is expected
    assert policy.retries(1, error) is expected


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_allows_more_than_max_retries(rule: str) -> None:
    assert not policy_of(rule).retries(4, Transient("busy"))


def test_retries_end_after_max_retries_failures() -> None:
    policy = Fixed(max_retries=2)

    assert [policy.retries(n, ValueError()) for n in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize("name", ["retry_on", "no_retry_on", "retry_if"])
def test_a_function_that_raises_means_another_attempt(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock.retry"):
        assert Fixed(**{name: broken}).accepts(ValueError())  # type: ignore[arg-type]
    assert "a function of a retry policy failed" in caplog.text


def test_the_chain_holds_each_error_once() -> None:
    shared = KeyError()
    group = ExceptionGroup("several", [caused(ValueError(), shared), caused(TypeError(), shared)])

    found = list(chain(group))

    assert found[0] is group
    assert sorted(type(each).__name__ for each in found) == ["ExceptionGroup", "KeyError", "TypeError", "ValueError"]


def test_the_chain_of_a_cycle_ends() -> None:
    assert [str(each) for each in chain(in_a_cycle())] == ["one", "two"]
