"""Steps: what is to be run on the caller's connection, and the two drivers that run it, sync and async.

A rule is written once, as a generator that yields steps and is sent what each gave; it does no I/O itself.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Step(NamedTuple):
    """One thing to run on the caller's connection: the statement's name and the rows of values it takes."""

    statement: str
    rows: Sequence[tuple[Any, ...]]
    counts: bool = False  # how many rows it changed is wanted, so its end must be waited for
    reads: bool = False  # the rows it finds are wanted


Steps = Generator[Step, Any, T]


def run(steps: Generator[Any, Any, T], execute: Callable[[Any], Any]) -> T:
    """Drive steps on a synchronous connection."""
    try:
        request = next(steps)
        while True:
            request = steps.send(execute(request))
    except StopIteration as finished:
        result: T = finished.value
        return result


async def arun(steps: Generator[Any, Any, T], execute: Callable[[Any], Awaitable[Any]]) -> T:
    """Drive steps on an async connection."""
    try:
        request = next(steps)
        while True:
            request = steps.send(await execute(request))
    except StopIteration as finished:
        result: T = finished.value
        return result
