"""The event loop of async handlers: the caller's, or one in a thread of its own that starts when needed.

A drain calls all handlers one after the other, by `InlineCalls`; its async ones share one loop, and so the sessions and
pools made in it. Inside a loop of the caller's they run in a thread, while it waits.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from threading import Lock, Thread
from typing import Any, Self, TypeVar

from penstock.errors import HandlerTimeout

T = TypeVar("T")


class InlineCalls:
    """The loop of async handlers, made for the first of them. Not thread-safe."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def answer(self, function: Callable[..., Any], *args: Any, limit: HandlerTimeout | None = None) -> Any:
        """Call a function and return its answer, awaited if it is async: then it raises `limit` after that time."""
        result = function(*args)
        if not inspect.isawaitable(result):
            return result
        return _apart(lambda: self._runner.run(awaited(result, limit)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
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


logger = logging.getLogger("penstock.handlers")


class AsyncLoop:
    """One loop for all async handlers of a runner. Methods may be called from any thread but the loop's."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._lock = Lock()
        self._stopping = False
        self._tasks: set[asyncio.Task[None]] = set()

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let handlers run in a loop that the caller runs; before the first call."""
        self._loop = loop

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Have the loop call a function soon."""
        self._started().call_soon_threadsafe(function, *args)

    def task(self, coroutine: Coroutine[Any, Any, None], context: Context) -> "asyncio.Task[None]":
        """Run a coroutine in a context of its own. In the loop's thread."""
        assert self._loop is not None
        task = self._loop.create_task(coroutine, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def answer(self, function: Callable[..., Any], *args: Any, limit: HandlerTimeout | None = None) -> Any:
        """Call a function here, and have the loop await its answer; SystemExit becomes RuntimeError."""
        try:
            result = function(*args)
            if not inspect.isawaitable(result):
                return result
            return asyncio.run_coroutine_threadsafe(awaited(result, limit), self._started()).result()
        except Exception:
            raise
        except BaseException as error:
            raise RuntimeError(f"{type(error).__name__} in a handler; the worker goes on") from error

    def stop(self, seconds: float) -> None:
        """Cancel running calls, end the loop and wait `seconds` for it; abandon a blocked one."""
        with self._lock:
            loop, thread, self._stopping = self._loop, self._thread, True
        if loop is None or loop.is_closed():
            return
        if thread is None:  # the caller's own loop goes on; only our tasks in it are cancelled
            loop.call_soon_threadsafe(self._cancel)
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(seconds)
        if thread.is_alive():
            logger.warning("an async handler blocks the event loop; it is left behind")

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._run, args=(self._loop,), name="penstock-handler-loop", daemon=True)
                self._thread.start()
            return self._loop

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._stopping:
            try:
                loop.run_forever()
            except BaseException as error:  # SystemExit of a handler's own task comes out here
                logger.error("%s in an async handler's task; the worker goes on", type(error).__name__)
        left = asyncio.all_tasks(loop)
        for each in left:
            each.cancel()
        try:
            loop.run_until_complete(asyncio.wait_for(asyncio.gather(*left, return_exceptions=True), 1.0))
            loop.run_until_complete(loop.shutdown_asyncgens())
        except BaseException as error:
            logger.warning("async handlers did not end: %s", type(error).__name__)
        finally:
            loop.close()

    def _cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()
