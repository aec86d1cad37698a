"""How many bytes of requests are in hand, of all connections of a door, and what is done with more.

So many connections with so large a body each would be more than any machine has. Bytes are counted as they
come, never as they are announced, and until the request is answered. A request that finds no room is refused
with 503; a stream is read on when there is room again.
"""

import asyncio
from types import TracebackType

from penstock.errors import GatewayBusy


class BodyRoom:
    """Counts the bytes of all requests of one door. In its event loop."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self.used = most_bytes, 0
        self._freed = asyncio.Event()

    def take(self, size: int) -> None:
        """Count bytes that came. Raises GatewayBusy if there is no room for them."""
        if self.used + size > self._most_bytes:
            raise GatewayBusy(f"it has {self.used} bytes of requests in hand, of {self._most_bytes}")
        self.used += size

    async def wait(self, size: int) -> None:
        """Count bytes that came, once there is room; one request is taken however large it is."""
        while self.used and self.used + size > self._most_bytes:
            self._freed.clear()
            await self._freed.wait()
        self.used += size

    @property
    def is_short(self) -> bool:
        """Whether more than half of the room is taken."""
        return self.used > self._most_bytes // 2

    def give_back(self, size: int) -> None:
        """Say that bytes are not in hand any more."""
        self.used -= size
        self._freed.set()


class BodyShare:
    """What one request has taken of the room; given back when a `with` block ends."""

    __slots__ = ("_room", "_size")

    def __init__(self, room: BodyRoom) -> None:
        self._room, self._size = room, 0

    def take(self, size: int) -> None:
        """Count bytes that came. Raises GatewayBusy."""
        self._room.take(size)
        self._size += size

    async def reserve(self, size: int) -> None:
        """Count bytes that may come, once there is room for them."""
        await self._room.wait(size)
        self._size += size

    def __enter__(self) -> "BodyShare":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._size:
            self._room.give_back(self._size)
