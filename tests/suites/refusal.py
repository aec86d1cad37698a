"""The suites' check for an error, without a test framework."""

from collections.abc import Callable
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def refusal(error: type[E], call: Callable[..., object], /, *args: object, **options: object) -> E:
    """Return the error of this class that a call raises; fail if it raises none."""
    try:
        result = call(*args, **options)
    except error as exc:
        return exc
    raise AssertionError(f"{error.__name__} was expected, {result!r} was returned")
