"""A TinyQ client, written from the table of the old protocol alone; and negotiated frames on top of it."""

from __future__ import annotations

import hashlib
import socket
import struct
from typing import Any, Self

from penstock.wire.tinyq.frames import TinyqCode, TinyqCommand
from penstock.wire.tinyq.messages import (
    DONE,
    MESSAGE,
    NEGOTIATED,
    NO_TOKEN,
    PROBLEM,
    PUBLISHED,
    REQUESTS,
    decode,
    encode,
)

SECONDS = 60.0


class OldClient:
    """Speaks the old protocol: one byte 100, 64 digits, then commands."""

    def __init__(self, port: int, password: str | None = "secret") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        if password is None:
            return
        try:
            assert self.code() == 100
            self.socket.sendall(hashlib.sha256(password.encode()).hexdigest().encode())
            assert self.code() == 0
        except BaseException:
            self.close()
            raise

    def code(self) -> int:
        """Read one byte; -1 at the end."""
        data = self.socket.recv(1)
        return data[0] if data else -1

    def read(self, count: int) -> bytes:
        """Read so many bytes."""
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            assert piece, "the connection ended"
            data += piece
        return data

    def send(self, command: int, body: bytes) -> None:
        """Send a request."""
        self.socket.sendall(struct.pack(">BI", command, len(body)) + body)

    def ask(self, command: int, body: bytes) -> int:
        """Send a request that is answered by one byte."""
        self.send(command, body)
        return self.code()

    def message(self) -> bytes:
        """Read one message of a subscription."""
        assert self.code() == 0
        (size,) = struct.unpack(">I", self.read(4))
        return self.read(size)

    def ends_with(self, code: int) -> bool:
        """Return whether this code comes, and then the end."""
        found = self.code()
        try:
            return found == code and self.code() == -1
        except ConnectionResetError:
            return found == code

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NewClient(OldClient):
    """Negotiates, and speaks frames whose answers name their request."""

    def __init__(
        self, port: int, *, codecs: int = 0, token: str | None = None, connected: socket.socket | None = None
    ) -> None:
        """`connected`: a connection to use; who it is has to be said then."""
        if connected is None:
            super().__init__(port, None)
        else:
            self.socket = connected
        self.messages: list[dict[str, Any]] = []
        self._number = 0
        try:
            self._negotiate(codecs, token or hashlib.sha256(b"secret").hexdigest(), connected is None)
        except BaseException:
            self.close()
            raise

    def _negotiate(self, codecs: int, secret: str, says_who: bool) -> None:
        assert self.code() == 100
        body = encode(REQUESTS[TinyqCommand.NEGOTIATE], least=1, most=3, codecs=codecs, features=0)
        self.send(TinyqCommand.NEGOTIATE, body)
        _, data = self.frame()
        self.agreed = decode(NEGOTIATED, data)
        if self.agreed["authenticates"] and says_who:
            self.call(TinyqCommand.AUTHENTICATE, secret=secret.encode())

    def frame(self) -> tuple[int, bytes]:
        """Read one answer."""
        code, size = struct.unpack(">BI", self.read(5))
        return code, self.read(size)

    def call(self, command: int, **fields: Any) -> dict[str, Any]:
        """Ask, and return the fields of the answer; messages that come before it are kept."""
        self._number += 1
        self.send(command, encode(REQUESTS[command], request=self._number, **fields))
        while True:
            code, data = self.frame()
            if code == TinyqCode.MESSAGE:
                self.messages.append(decode(MESSAGE, data))
                continue
            layout = PROBLEM if code else PUBLISHED if command == TinyqCommand.PUBLISH else DONE
            answer = decode(layout, data) | {"code": code}
            assert answer["request"] == self._number
            return answer

    def publish(self, topic: str, payload: bytes, **fields: Any) -> dict[str, Any]:
        """Publish; return where it stands."""
        own = {"token": NO_TOKEN, "tag": 0, "packed": 0, "key": None, "type": None}
        return self.call(TinyqCommand.PUBLISH, topic=topic, payload=payload, **{**own, **fields})

    def subscribe(self, topic: str, group: str | None = None, credits: int = 10, lease_ms: int = 0) -> int:
        """Subscribe; return the number of the subscription."""
        answer = self.call(TinyqCommand.SUBSCRIBE, topic=topic, group=group, credits=credits, lease_ms=lease_ms)
        assert answer["code"] == 0, answer
        return int(answer["request"])

    def receive(self) -> dict[str, Any]:
        """Return the next message."""
        if self.messages:
            return self.messages.pop(0)
        code, data = self.frame()
        assert code == TinyqCode.MESSAGE, (code, data)
        return decode(MESSAGE, data)
