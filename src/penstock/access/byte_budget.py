"""Bytes in memory at a door, over all its connections: of requests under way, and of answers not taken yet.

Requests of the largest size on all connections would exceed any machine's memory, as would answers that
clients ask for and never read. Bytes count from the first one, as they arrive and never as announced, until a
request is answered or a client has taken its answer.

| door       | without room                                                                          |
|------------|---------------------------------------------------------------------------------------|
| REST, gRPC | a request is refused with GatewayBusy (`admit`); the reading of a stream waits (`wait`) |
| Kafka      | nothing is read (`broker/flow_control.py`)                                            |

One holder gets a part of the room (`places.py`), but always enough for one request. An answer may use a fraction of the
room that is left (`share`): clients that read nothing shrink the share of the others, and never cut them off.
"""

import asyncio
from collections.abc import Iterable
from threading import Lock
from types import TracebackType

from penstock.errors import GatewayBusy

from .places import Holder, SharedPlaces

_LEAST_ANSWER = 64 * 1024
_PARTS = 4  # an answer may use one such part of the room that is left


class ByteBudget(SharedPlaces):
    """Bytes of one kind at one door. Safe from any thread, except `wait`: in the door's event loop."""

    def __init__(self, most: int, *, least: int = 0, busy: str = "it has {} bytes of requests in hand") -> None:
        """`least`: one holder may always have this much. `busy`: the reason of a refusal."""
        super().__init__(max(most, least), least=least)
        self._busy, self._lock, self._freed = busy, Lock(), asyncio.Event()

    @property
    def is_short(self) -> bool:
        """Whether more than half of the room is taken."""
        return self.used > self.most // 2

    def has(self, holder: Holder | None, size: int = 1) -> bool:
        """Return whether there is room; a single request or answer is taken however large it is."""
        return not self.used or super().has(holder, size)

    def count(self, holder: Iterable[str] | None, change: int) -> None:
        """Change the count of a holder, whether there is room or not."""
        with self._lock:
            super().count(holder, change)

    def admit(self, holder: Holder | None, size: int) -> None:
        """Count bytes. Raises GatewayBusy if there is no room for them."""
        with self._lock:
            if self.has(holder, size):
                super().count(holder, size)
                return
        raise self.refusal()

    async def wait(self, holder: Holder | None, size: int) -> None:
        """Count bytes once there is room for them."""
        while not self.has(holder, size):
            self._freed.clear()
            await self._freed.wait()
        self.count(holder, size)

    def give_back(self, holder: Holder | None, size: int = 1) -> None:
        """Give bytes back."""
        self.count(holder, -size)
        self._freed.set()

    def share(self, most: int) -> int:
        """Return how many bytes an answer may have, `most` at most."""
        return min(most, max(_LEAST_ANSWER, (self.most - self.used) // _PARTS))

    def refusal(self) -> GatewayBusy:
        """Return the error for a client that finds no room."""
        return GatewayBusy(f"{self._busy.format(self.used)}, of {self.most}")


class ByteShare:
    """The bytes that one request, answer or stream holds; the end of a `with` block gives them back."""

    __slots__ = ("_budget", "_size", "holder")

    def __init__(self, budget: ByteBudget, holder: Holder | None = None) -> None:
        self._budget, self._size, self.holder = budget, 0, holder

    def admit(self, size: int) -> None:
        """Count more bytes. Raises GatewayBusy if there is no room for them."""
        self._budget.admit(self.holder, size)
        self._size += size

    async def wait(self, size: int) -> None:
        """Count more bytes once there is room for them."""
        await self._budget.wait(self.holder, size)
        self._size += size

    def count(self, size: int) -> None:
        """Set how many bytes it holds, whether there is room or not."""
        self._budget.count(self.holder, size - self._size)
        self._size = size

    def give_back(self, size: int | None = None) -> None:
        """Give some bytes back, or all of them."""
        size = self._size if size is None else size
        self._size -= size
        self._budget.give_back(self.holder, size)

    def __enter__(self) -> "ByteShare":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._size:
            self.give_back()
