"""What operations share: their first argument, and the topics that they may reveal."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from penstock.log.store import Store, StoreLike, store_of

P = ParamSpec("P")
R = TypeVar("R")

_NAMES = ("outbox", "store", "database")  # of the keyword argument


def operation(function: Callable[Concatenate[Store, P], R]) -> Callable[Concatenate[StoreLike, P], R]:
    """Let a function on a store take anything that has one: as the first argument or by one of `_NAMES`."""

    @wraps(function)
    def with_store(*args: Any, **kwargs: Any) -> R:
        given = [*args[:1], *(kwargs.pop(name) for name in _NAMES if name in kwargs)]
        if len(given) != 1:
            raise TypeError(f"{function.__name__}() takes one outbox, store or database, and takes it first")
        return function(store_of(given[0]), *args[1:], **kwargs)

    return with_store


SeesTopic = Callable[[str], bool]  # whether the caller may see a topic, by its name


def every_topic(_: str) -> bool:
    """Allow every topic."""
    return True
