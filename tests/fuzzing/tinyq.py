"""TinyQ: every command of both protocols, some to a connection."""

from __future__ import annotations

import random
import socket
import struct
from contextlib import suppress
from typing import Any

from penstock.wire.tinyq.frames import TinyqCode
from penstock.wire.tinyq.frames import TinyqCommand as C
from penstock.wire.tinyq.messages import REQUESTS, encode
from tests.fuzzing.feeder import TOPIC, Fed, Feeder, Place, WrongAnswer, changed
from tests.gateway.doors_process import SECRET
from tests.gateway.tinyq_client import NewClient

_MAKES = (C.CREATE_CONSUME, C.CREATE_BROADCAST, C.PUBLISH, C.SUBSCRIBE)
_OLD = 0.05
_TRIES = 20


def some_request(draw: random.Random) -> tuple[bytes, bool]:
    """Return a request with some of its bytes changed, or one of no sense; and whether its size is right."""
    command = draw.choice([*REQUESTS, draw.randrange(256)])
    if command not in REQUESTS or draw.random() < 0.1:
        body = draw.randbytes(draw.randrange(40))
    else:
        values: dict[str, Any] = {}
        for name, kind in REQUESTS[command]:
            values[name] = {
                "text": draw.choice(["a", TOPIC, "", None]),
                "token": draw.randbytes(16),
                "rest": draw.randbytes(draw.randrange(20)),
                "ranges": [(0, 0, draw.randrange(9))] * draw.randrange(3),
            }.get(kind, draw.choice([0, 1, 2, 255]))
        if command == C.AUTHENTICATE:
            values["secret"] = SECRET.encode()
        body = changed(draw, encode(REQUESTS[command], **values), names_nothing=command in _MAKES)
    size = len(body) if draw.random() < 0.98 else draw.randrange(1 << 32)
    return struct.pack(">BI", command, size) + body, size == len(body)


class TinyqFeeder(Feeder):
    """Negotiated frames on one connection, while it lasts; at times the old protocol on another."""

    def __init__(self, place: Place, seed: int) -> None:
        super().__init__(place, seed)
        self._client = self._connected()

    def some(self) -> Fed:
        """Send one, or a few of the old protocol."""
        if self.draw.random() < _OLD:
            return self._old(self.draw.randrange(1, 4))
        data, is_whole = some_request(self.draw)
        try:
            self._client.socket.sendall(data)
            if is_whole and self._is_answered():
                return Fed(1, 1)
        except ConnectionError:
            pass
        self._client.close()
        self._client = self._connected()
        return Fed(1, int(is_whole))

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    def _connected(self) -> NewClient:
        for _ in range(_TRIES):  # one that has not said yet who it is gives way while many are open
            with suppress(AssertionError, ConnectionError):
                return NewClient(self.place[1])
        raise WrongAnswer("no connection is taken any more")

    def _is_answered(self) -> bool:
        """Take what comes up to an answer; return False if the connection has ended with it."""
        code = TinyqCode.MESSAGE
        while code == TinyqCode.MESSAGE:
            try:
                frame = self._client.frame()
                code = TinyqCode(frame[0])
            except AssertionError:  # no more comes
                return False
        if code is TinyqCode.INTERNAL:
            raise WrongAnswer(f"an error of the server: {frame!r}")
        return True

    def _old(self, count: int) -> Fed:
        came = b""
        sent = SECRET.encode() + b"".join(some_request(self.draw)[0] for _ in range(count))
        with (
            suppress(ConnectionError),  # it has ended before all was taken
            socket.create_connection(self.place, timeout=30) as client,
        ):
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(65536):
                came += piece
        return Fed(count, min(count, len(came)))
