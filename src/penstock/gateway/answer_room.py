"""How many bytes of answers are in hand, of all connections of a door, and who is ended for them.

A client that asks for much and takes nothing has its answer kept for it, and so many clients would fill any
memory. So large answers are counted from the read until the client has taken them, but for a last piece. An
answer has at most a part of the room that is left: those who take nothing leave less and less to the others,
and never end them. Beyond the bound a request is answered 503. While more than half of the room is used, who
takes nothing of its answer for some seconds is ended.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain
from threading import Lock
from typing import Any

from penstock.errors import GatewayBusy

logger = logging.getLogger("penstock.gateway")

PIECE_BYTES = 64 * 1024  # that are sent at a time; a smaller answer is not counted
TAKE_SECONDS = 10.0  # in which a client takes a piece, while there is little room
_LEAST_ANSWER = 64 * 1024
_PARTS = 4  # an answer has at most such a part of the room that is left


class AnswerRoom:
    """Counts the bytes of all large answers of one door. From any thread."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self.used = most_bytes, 0
        self._lock = Lock()

    @property
    def is_short(self) -> bool:
        """Whether answers that nobody takes leave too little to the others."""
        return self.used > self._most_bytes // 2

    def share(self, most: int) -> int:
        """Return how many bytes an answer may have, with so many at most. Raises GatewayBusy for none."""
        left = self._most_bytes - self.used
        if left <= 0:
            raise self._full()
        return min(most, max(_LEAST_ANSWER, left // _PARTS))

    def count(self, change: int) -> None:
        """Count bytes of an answer, or say that they are gone."""
        with self._lock:
            self.used += change

    def add(self, size: int) -> None:
        """Count an answer that was made without asking for room. Raises GatewayBusy if there is none."""
        with self._lock:
            if self.used and self.used + size > self._most_bytes:
                raise self._full()
            self.used += size

    def _full(self) -> GatewayBusy:
        return GatewayBusy(f"its clients have not taken {self.used} bytes of answers, of {self._most_bytes}")


class AnswerShare:
    """What the answer to one request has of the room. `is_kept`: it is being sent, and gives it back then."""

    __slots__ = ("_room", "_size", "is_kept")

    def __init__(self, room: AnswerRoom) -> None:
        self._room, self._size, self.is_kept = room, 0, False

    def ask(self, most: int) -> int:
        """Return how many bytes may be read for the answer, with so many at most. Raises GatewayBusy."""
        return self._room.share(most)

    def count(self, size: int) -> None:
        """Count bytes that are read for the answer, or are about to be."""
        self._room.count(size - self._size)
        self._size = size

    def keep(self, size: int, *, may_refuse: bool) -> None:
        """Count an answer, as it is made now, until it is sent.

        Raises GatewayBusy if it may: not after a request that changed something, which would be repeated.
        """
        # There was room for what was read; that it takes more as JSON is not the client's fault.
        if self._size or not may_refuse:
            self.count(size)
        else:
            self._room.add(size)
            self._size = size
        self.is_kept = True

    def give_back(self) -> None:
        """Say that the answer is not in hand any more."""
        if self._size:
            self.count(0)

    async def send(self, send: Callable[[Any], Awaitable[None]], head: Any, body: bytes) -> None:
        """Send an answer piece by piece, each once the client has taken those before; then give it back.

        Where it takes nothing while there is little room, the rest is not sent: that ends the connection.
        """
        try:
            for message in chain([head], _pieces(body)):
                if not await self._sent(asyncio.ensure_future(send(message))):
                    logger.warning("a connection is ended: its client takes no answer, and there is no room")
                    return
        finally:
            self.give_back()

    async def _sent(self, sending: "asyncio.Future[None]") -> bool:
        try:
            while not (await asyncio.wait([sending], timeout=TAKE_SECONDS))[0]:
                if self._room.is_short:
                    return False
            sending.result()
            return True
        finally:
            sending.cancel()


def _pieces(body: bytes) -> Iterator[dict[str, Any]]:
    view = memoryview(body)
    for at in range(0, len(body), PIECE_BYTES):
        piece, end = bytes(view[at : at + PIECE_BYTES]), at + PIECE_BYTES
        yield {"type": "http.response.body", "body": piece, "more_body": end < len(body)}
