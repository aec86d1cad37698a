"""N-22: whose retry policy counts for a handler, level by level."""

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from penstock import Exponential, Fixed, Linear, Outbox, PowerOfTwo, Record
from penstock.errors import InvalidHandler, InvalidInput
from penstock.redaction import ErrorText
from penstock.worker.handler import Handler
from penstock.worker.handler_options import Origin

OWN, GIVEN, WHOLE = Fixed(1), Linear(2), PowerOfTwo()


class Mailer:
    """An object that says how it is retried."""

    retry_policy = OWN

    def send(self, record: Record) -> None: ...

    def __call__(self, record: Record) -> None: ...


def plain(record: Record) -> None:
    """A function that says nothing."""


def said(record: Record) -> None:
    """A function that says how it is retried."""


said.retry_policy = OWN  # type: ignore[attr-defined]


def registered(function: Callable[..., Any], *, retry: Any = None, outbox: Any = None) -> Handler:
    """Return the handler that a function becomes."""
    made = Outbox("memory://", retry=outbox)
    made.handler("a", group="g", id="h", retry=retry)(function)
    ((handler,),) = [each.handlers for each in made.handlers.subscriptions()]
    made.close()
    return handler


LEVELS: dict[str, tuple[Callable[..., Any], Any, Any, Any, Origin]] = {
    "function": (said, GIVEN, WHOLE, OWN, Origin.HANDLER),
    "partial of it": (partial(said), GIVEN, WHOLE, OWN, Origin.HANDLER),
    "object": (Mailer(), GIVEN, WHOLE, OWN, Origin.HANDLER),
    "method of an object": (Mailer().send, GIVEN, WHOLE, OWN, Origin.HANDLER),
    "decorator": (plain, GIVEN, WHOLE, GIVEN, Origin.DECORATOR),
    "a mock that has any attribute": (Mock(), GIVEN, WHOLE, GIVEN, Origin.DECORATOR),
    "outbox": (plain, None, WHOLE, WHOLE, Origin.OUTBOX),
    "settings": (plain, None, None, Exponential(max_retries=7), Origin.SETTINGS),
}


@pytest.mark.parametrize("level", LEVELS)
def test_the_policy_of_the_first_level_that_says_one_counts(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, retry, outbox, policy, origin = LEVELS[level]
    monkeypatch.setenv("PENSTOCK_RETRY_MAX_RETRIES", "7")
    handler = registered(function, retry=retry, outbox=outbox)
    assert (handler.rules.retry, handler.retry_from) == (policy, origin)


def test_empty_settings_and_a_policy_built_with_nothing_are_the_same() -> None:
    assert registered(plain).rules.retry == Exponential()


def test_what_is_no_policy_is_refused_at_every_level() -> None:
    class Odd(Mailer):
        retry_policy = 3  # type: ignore[assignment]

    with pytest.raises(InvalidHandler, match=r"retry_policy=3 of its handler must be a retry policy"):
        registered(Odd())
    with pytest.raises(InvalidHandler, match=r"retry=3 must be a retry policy"):
        registered(said, retry=3)
    with pytest.raises(InvalidInput, match=r"Outbox\(retry=3\) must be a retry policy"):
        Outbox("memory://", retry=3)  # type: ignore[arg-type]


def test_an_object_may_leave_it_open() -> None:
    class Open(Mailer):
        retry_policy = None  # type: ignore[assignment]

    assert registered(Open(), retry=GIVEN).retry_from is Origin.DECORATOR


def test_how_much_of_an_error_is_told_comes_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert registered(plain).rules.error_text is ErrorText.REDACTED
    for word in ErrorText:
        monkeypatch.setenv("PENSTOCK_PROCESSING_ERROR_TEXT", word.value)
        assert registered(plain).rules.error_text is word
