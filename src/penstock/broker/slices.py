"""Long requests in slices: none blocks the loop for long, and all of them together get half of it.

A request with a long list works until its slice is used up, measured in CPU time of the loop's thread, so
that a busy machine does not blur it. Then it waits for its turn. Turns are given one at a time, in the order
of asking, and after each the loop is left to other work for as long as the turn took. Short requests end
within their first slice and never wait.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

from penstock.clock import SYSTEM, Clock, cpu_seconds
from penstock.wire.kafka.stepwise import CodecSteps

T = TypeVar("T")

SLICE_SECONDS = 0.003
_MOST_REST = 10  # slices: work of others since then does not lengthen the rest
_PART = 256
_QUESTIONS = 32  # to the store in one slice: each costs the loop some work that is not counted here


def parts_of(items: list[T]) -> list[list[T]]:
    """Split a list into parts short enough for one step."""
    return [items[at : at + _PART] for at in range(0, len(items), _PART)]


class Slices:
    """Hands out turns. Lives in the loop's thread."""

    def __init__(self, clock: Clock = SYSTEM, cpu: Callable[[], float] = cpu_seconds) -> None:
        self._clock, self._cpu = clock, cpu
        self._began = 0.0  # when the present work began, or earlier
        self._rest_until = 0.0
        self._asked = 0  # queries that the store has answered
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_due = False  # a turn is due to a waiter

    def begin(self) -> None:
        """Start the first slice of a request."""
        self._began = self._cpu()

    def go_on(self) -> None:
        """Continue a request with the result of a store query in a thread."""
        self._asked += 1
        self._began = self._cpu()

    @property
    def is_over(self) -> bool:
        """Whether the slice is used up; then code in the loop calls `turn`."""
        return self._cpu() - self._began >= SLICE_SECONDS

    async def turn(self) -> None:
        """Wait for the next slice."""
        used = min(self._cpu() - self._began, _MOST_REST * SLICE_SECONDS)
        self._rest_until = max(self._rest_until, self._clock.monotonic() + used)
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.append(mine)
        if not self._is_due:
            self._is_due = True
            loop.call_later(used, self._give)
        await mine
        self._began = self._cpu()

    def _give(self) -> None:
        """Give the next turn, once the loop was left to other work for long enough."""
        loop = asyncio.get_running_loop()
        left = self._rest_until - self._clock.monotonic()
        if left > 0:
            loop.call_later(left, self._give)
            return
        while self._waiting and self._waiting[0].done():  # it was cancelled
            self._waiting.popleft()
        self._is_due = bool(self._waiting)
        if self._is_due:
            self._waiting.popleft().set_result(None)
            loop.call_later(2 * SLICE_SECONDS, self._give)

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Yield items one after another, and wait between them when the slice is used up."""
        questions = 0
        for item in items:
            if self.is_over or questions >= _QUESTIONS:
                questions = 0
                await self.turn()
            asked = self._asked
            yield item
            questions += self._asked != asked

    def at_once(self, steps: CodecSteps[T]) -> tuple[T] | None:
        """Run the steps that fit into the slice; return their result, or None if there are more."""
        while not self.is_over:
            try:
                next(steps)
            except StopIteration as done:
                return (done.value,)
        return None

    async def run(self, steps: CodecSteps[T]) -> T:
        """Run all steps and return their result; wait between them when the slice is used up."""
        while True:
            if self.is_over:
                await self.turn()
            try:
                next(steps)
            except StopIteration as done:
                found: T = done.value
                return found
