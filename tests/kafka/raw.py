"""Kafka's protocol by hand: requests as bytes over a socket, for what no client would send."""

import socket
import struct
from typing import Self

from penstock.wire.kafka.layout import Api, Message


def frame(api: Api, version: int, body: bytes, id: int = 1, client: bytes = b"raw") -> bytes:
    """Return a request as it goes over the wire."""
    head = struct.pack(">hhi", api.key, version, id) + struct.pack(">h", len(client)) + client
    data = head + (b"\0" if api.is_flexible(version) else b"") + body
    return struct.pack(">i", len(data)) + data


class RawClient:
    """One connection."""

    def __init__(self, address: str, seconds: float = 30, *, holds: int = 0) -> None:
        """`holds`: so many bytes of answers, or a little more, are taken before they are received; 0: as usual."""
        host, _, port = address.rpartition(":")
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.socket.settimeout(seconds)
        if holds:  # said before it connects: else the other end has made room for more by then
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, holds)
        self.socket.connect((host.strip("[]"), int(port)))

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """Return the next answer without its size; nothing when the connection has ended."""
        head = self._take(4)
        return self._take(struct.unpack(">i", head)[0]) if head else b""

    def ask(self, api: Api, message: Message, version: int) -> Message:
        """Ask something and return the answer."""
        self.send(frame(api, version, api.encode_request(message, version)))
        answer = self.receive()
        tagged = api.is_flexible(version) and api.key != 18
        return api.decode_answer(answer, version, 5 if tagged else 4)

    def _take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                piece = self.socket.recv(count - len(data))
            except ConnectionResetError:
                return b""
            if not piece:
                return b""
            data += piece
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
