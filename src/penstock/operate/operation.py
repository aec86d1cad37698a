"""What every operation takes first: an outbox, a store, or the database that holds one whole."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from penstock.log.store import Store, StoreLike, store_of

P = ParamSpec("P")
R = TypeVar("R")


def operation(function: Callable[Concatenate[Store, P], R]) -> Callable[Concatenate[StoreLike, P], R]:
    """Let a function that works on a store take whatever has one."""

    @wraps(function)
    def with_store(source: StoreLike, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(store_of(source), *args, **kwargs)

    return with_store
