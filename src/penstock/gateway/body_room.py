"""Bounds the bytes of requests in memory, over all connections of a door.

All connections with bodies of the largest size would exceed any machine's memory. Bytes count as they arrive,
never as announced, until the request is answered. A request that finds no room is refused with 503; a stream
is read again once there is room. One principal or address gets a part of the room (`access/places.py`), but
always enough for one request.
"""

import asyncio
from types import TracebackType

from penstock.access.places import Holder, SharedPlaces
from penstock.errors import GatewayBusy

UNKNOWN = Holder("unknown", "unknown")


class BodyRoom:
    """Counts the bytes of all requests of one door. In its event loop."""

    def __init__(self, most_bytes: int, request_bytes: int = 0) -> None:
        """`request_bytes`: the largest request."""
        self._places = SharedPlaces(max(most_bytes, request_bytes), least=request_bytes)
        self._freed = asyncio.Event()

    @property
    def used(self) -> int:
        """The bytes in memory."""
        return self._places.used

    def take(self, size: int, holder: Holder = UNKNOWN) -> None:
        """Count received bytes. Raises GatewayBusy if there is no room for them."""
        if not self._places.take(holder, size):
            raise GatewayBusy(f"it has {self.used} bytes of requests in hand, of {self._places.most}")

    async def wait(self, size: int, holder: Holder = UNKNOWN) -> None:
        """Count received bytes once there is room; a single request is taken however large it is."""
        while self.used and not self._places.has(holder, size):
            self._freed.clear()
            await self._freed.wait()
        self._places.count(holder, size)

    @property
    def is_short(self) -> bool:
        """Whether more than half of the room is taken."""
        return self.used > self._places.most // 2

    def give_back(self, size: int, holder: Holder = UNKNOWN) -> None:
        """Give bytes back."""
        self._places.give_back(holder, size)
        self._freed.set()


class BodyShare:
    """The room that one request takes, given back at the end of a `with` block, and its holder."""

    __slots__ = ("_room", "_size", "holder")

    def __init__(self, room: BodyRoom, holder: Holder = UNKNOWN) -> None:
        self._room, self._size, self.holder = room, 0, holder

    def take(self, size: int) -> None:
        """Count received bytes. Raises GatewayBusy."""
        self._room.take(size, self.holder)
        self._size += size

    async def reserve(self, size: int) -> None:
        """Count bytes that may arrive, once there is room for them."""
        await self._room.wait(size, self.holder)
        self._size += size

    def __enter__(self) -> "BodyShare":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._size:
            self._room.give_back(self._size, self.holder)
