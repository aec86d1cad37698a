"""Calling handlers, sync or async, one after the other.

Async handlers share one event loop, so that what one of them made in it (a session, a pool) serves the next.
A caller that stands in a loop of its own cannot run another there: then they run in a thread, while it waits.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Calls:
    """The loop of async handlers, made by the first of them. Not thread-safe."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def answer(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function, wait for its answer if it is async, and return it."""
        result = function(*args)
        return _apart(lambda: self._runner.run(_await(result))) if inspect.isawaitable(result) else result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _apart(self._runner.close)


def _apart(call: Callable[[], T]) -> T:
    """Make a call where no loop runs: here, or else in a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, call).result()


async def _await(result: Awaitable[T]) -> T:
    return await result
