"""Calling sync and async functions, wherever the caller stands."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from penstock.worker.calling.loop import InlineCalls

asking: ContextVar[str] = ContextVar("asking")


async def doubled(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def raising() -> None:
    raise LookupError("as it was")


class Awaitable:
    """An answer that is awaitable and no coroutine."""

    def __await__(self) -> Any:
        return doubled(4).__await__()


def from_nowhere(call: Callable[[], Any]) -> Any:
    """Call where no loop runs."""
    return call()


def from_a_loop(call: Callable[[], Any]) -> Any:
    """Call inside a running loop."""

    async def inside() -> Any:
        return call()

    return asyncio.run(inside())


@pytest.fixture(params=[from_nowhere, from_a_loop], ids=lambda place: place.__name__)
def place(request: pytest.FixtureRequest) -> Callable[[Callable[[], Any]], Any]:
    """Give each place to call from."""
    found: Callable[[Callable[[], Any]], Any] = request.param
    return found


def test_a_sync_function_is_called_in_this_thread(place: Callable[[Callable[[], Any]], Any]) -> None:
    with InlineCalls() as calls:
        assert place(lambda: calls.answer(threading.get_ident)) == threading.get_ident()


def test_an_async_function_is_awaited(place: Callable[[Callable[[], Any]], Any]) -> None:
    def several() -> list[int]:
        with InlineCalls() as calls:
            return [calls.answer(doubled, 2), calls.answer(lambda: doubled(3)), calls.answer(Awaitable)]

    assert place(several) == [4, 6, 8]


def test_what_is_raised_comes_out_as_it_was(place: Callable[[Callable[[], Any]], Any]) -> None:
    def failing() -> None:
        with InlineCalls() as calls:
            calls.answer(raising)

    with pytest.raises(LookupError, match="as it was"):
        place(failing)


def test_the_caller_s_context_is_seen(place: Callable[[Callable[[], Any]], Any]) -> None:
    async def asked() -> str:
        return asking.get()

    def asks() -> str:
        asking.set("me")
        with InlineCalls() as calls:
            answer: str = calls.answer(asked)
            return answer

    assert place(asks) == "me"


def test_tasks_left_behind_are_ended_with_the_calls(place: Callable[[Callable[[], Any]], Any]) -> None:
    left: list[asyncio.Task[None]] = []

    async def leaves() -> None:
        left.append(asyncio.ensure_future(asyncio.sleep(3600)))

    def run() -> None:
        with InlineCalls() as calls:
            calls.answer(leaves)

    place(run)
    assert left[0].cancelled()
