"""Calling handlers, sync or async, one after the other.

Async handlers share one event loop, so that a resource that one of them creates in it (a session, a pool)
serves the next. A caller that runs inside a loop of its own cannot run another there: then they run in a
thread, while it waits.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self, TypeVar

from penstock.errors import HandlerTimeout

T = TypeVar("T")


class InlineCalls:
    """The loop of async handlers, made for the first of them. Not thread-safe."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def answer(self, function: Callable[..., Any], *args: Any, limit: HandlerTimeout | None = None) -> Any:
        """Call a function, wait for its answer if it is async, and return it.

        Raises `limit` when an async function takes longer than that; a sync one cannot be interrupted.
        """
        result = function(*args)
        if not inspect.isawaitable(result):
            return result
        return _apart(lambda: self._runner.run(awaited(result, limit)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _apart(self._runner.close)


def _apart(call: Callable[[], T]) -> T:
    """Make a call where no loop runs: here, or otherwise in a thread of its own."""
    if not _in_a_loop():
        return call()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, call).result()


def _in_a_loop() -> bool:
    """Return whether a loop runs here. Separate, so that its exception is not the context of a handler's."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def awaited(result: Awaitable[T], limit: HandlerTimeout | None) -> T:
    """Wait for an answer; cancel it when it takes longer than the limit, and raise the limit."""
    timer = asyncio.timeout(None if limit is None else limit.seconds)
    try:
        async with timer:
            return await result
    except TimeoutError:
        if limit is not None and timer.expired():
            raise limit from None
        raise
