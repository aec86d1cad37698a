"""Bounds the bytes of answers in memory, over all connections of a door.

A client that asks for much and reads nothing keeps its answer in memory, and many such clients would fill any
memory. So large answers count from the read until the client has taken all but the last piece. An answer may
use a fraction of the room that is left: clients that read nothing shrink the share of the others, and never
cut them off. Beyond the bound a request is answered 503. While more than half of the room is used, a client
that takes nothing of its answer for some seconds is disconnected.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain
from threading import Lock
from typing import Any

from penstock.errors import GatewayBusy

logger = logging.getLogger("penstock.gateway")

PIECE_BYTES = 64 * 1024  # sent at a time; a smaller answer is not counted
TAKE_SECONDS = 10.0  # for a client to take a piece, while room is short
_LEAST_ANSWER = 64 * 1024
_PARTS = 4  # an answer may use one such part of the room that is left


class AnswerRoom:
    """Counts the bytes of all large answers of one door. From any thread."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self.used = most_bytes, 0
        self._lock = Lock()

    @property
    def is_short(self) -> bool:
        """Whether answers that no client takes leave too little to the others."""
        return self.used > self._most_bytes // 2

    def share(self, most: int) -> int:
        """Return how many bytes an answer may have, `most` at most. Raises GatewayBusy for none."""
        left = self._most_bytes - self.used
        if left <= 0:
            raise self._full()
        return min(most, max(_LEAST_ANSWER, left // _PARTS))

    def count(self, change: int) -> None:
        """Add bytes to the count, or subtract them."""
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
    """The room that one request's answer takes. `is_kept`: it is being sent, which gives the room back."""

    __slots__ = ("_room", "_size", "is_kept")

    def __init__(self, room: AnswerRoom) -> None:
        self._room, self._size, self.is_kept = room, 0, False

    def ask(self, most: int) -> int:
        """Return how many bytes to read for the answer, `most` at most. Raises GatewayBusy."""
        return self._room.share(most)

    def count(self, size: int) -> None:
        """Count bytes that are read for the answer, or are about to be."""
        self._room.count(size - self._size)
        self._size = size

    def keep(self, size: int, *, may_refuse: bool) -> None:
        """Count a finished answer until it is sent.

        Raises GatewayBusy if it may: not after a request that changed something, which would be repeated.
        """
        # There was room for the records that were read; that JSON is larger is not the client's fault.
        if self._size or not may_refuse:
            self.count(size)
        else:
            self._room.add(size)
            self._size = size
        self.is_kept = True

    def give_back(self) -> None:
        """Give the room back."""
        if self._size:
            self.count(0)

    async def send(self, send: Callable[[Any], Awaitable[None]], head: Any, body: bytes) -> None:
        """Send an answer piece by piece, each after the client took the ones before; then give the room back.

        If the client takes nothing while room is short, the rest is not sent: the connection ends.
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
