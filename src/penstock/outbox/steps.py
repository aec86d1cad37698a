"""Steps: requests to run on the caller's connection, and two drivers that run them, sync and async.

A rule is written once, as a generator that yields steps and receives their results; it does no I/O.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Step(NamedTuple):
    """One request on the caller's connection: the statement's name and its rows of values."""

    statement: str
    rows: Sequence[tuple[Any, ...]]
    counts: bool = False  # the count of changed rows is needed, so the driver waits for the end
    reads: bool = False  # the found rows are needed


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
