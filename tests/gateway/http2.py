"""HTTP/2 by hand, for what no client of gRPC would send: frames, and calls whose messages are any bytes."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import NamedTuple, Self

from penstock.gateway.grpc.messages import PACKAGE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END, HEADERS_END, ACK = 1, 4, 1  # the flags END_STREAM, END_HEADERS and, of settings and pings, ACK
_INITIAL_WINDOW = 4
_DEFAULT_WINDOW, _FRAME_BYTES = 65_535, 16_384


class Http2Frame(NamedTuple):
    """A frame that came."""

    kind: int
    flags: int
    stream: int
    body: bytes

    @property
    def ends(self) -> bool:
        """Whether nothing more comes on its stream."""
        return self.kind == RST_STREAM or (self.kind in (DATA, HEADERS) and bool(self.flags & END))


def frame(kind: int, body: bytes = b"", *, stream: int = 0, flags: int = 0) -> bytes:
    """Return a frame as it goes over the wire."""
    return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body


def message(data: bytes) -> bytes:
    """Return a message of gRPC as it stands in DATA frames."""
    return struct.pack(">BI", 0, len(data)) + data


def head(method: str) -> bytes:
    """Return the header block of a call of `Topics.Get` and the like, with nothing indexed or packed."""
    path = f"/{PACKAGE}.{method.replace('.', '/')}"
    given = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    return b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in given.items()
    )


class Http2Client:
    """One connection."""

    def __init__(self, place: tuple[str, int], window: int = 1 << 20) -> None:
        """`window`: so many bytes of a stream are sent to us before we ask for more."""
        self.socket = socket.create_connection(place, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._came, self._initial = bytearray(), _DEFAULT_WINDOW
        self.send(PREFACE + frame(SETTINGS, struct.pack(">HI", _INITIAL_WINDOW, window)))

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def begin(self, method: str, *messages: bytes, stream: int = 1, ends: bool = False) -> None:
        """Begin a call."""
        body = b"".join(map(message, messages))
        self.send(
            frame(HEADERS, head(method), stream=stream, flags=HEADERS_END)
            + frame(DATA, body, stream=stream, flags=END if ends else 0)
        )

    def receive(self) -> Http2Frame | None:
        """Return the next frame, None at the end; settings and pings are answered."""
        while True:
            size = int.from_bytes(self._peek(3), "big") if len(self._peek(9)) == 9 else -1
            if size < 0 or len(self._peek(9 + size)) < 9 + size:
                return None
            kind, flags, stream = struct.unpack_from(">BBI", self._came, 3)
            found = Http2Frame(kind, flags, stream, bytes(self._came[9 : 9 + size]))
            del self._came[: 9 + size]
            if kind not in (SETTINGS, PING):
                return found
            if kind == SETTINGS:
                given = dict(struct.iter_unpack(">HI", found.body))
                self._initial = given.get(_INITIAL_WINDOW, self._initial)
            if not flags & ACK:
                self.send(frame(kind, found.body if kind == PING else b"", flags=ACK))

    def until(self, kind: int) -> Http2Frame:
        """Return the next frame of a kind."""
        while True:
            found = self.receive()
            assert found is not None, "the connection ended"
            if found.kind == kind:
                return found

    def send_data(self, data: bytes, *, stream: int = 1, patience: float) -> int:
        """Send data as the other end admits it; return how much of it, once no more was admitted for a while."""
        self.socket.settimeout(patience)
        sent, admitted = 0, {0: 0, stream: 0}  # of the connection and of the stream, by frames
        with suppress(TimeoutError):
            while sent < len(data):
                window = min(_DEFAULT_WINDOW + admitted[0], self._initial + admitted[stream]) - sent
                if window > 0:
                    piece = data[sent : sent + min(window, _FRAME_BYTES)]
                    self.send(frame(DATA, piece, stream=stream))
                    sent += len(piece)
                elif (found := self.receive()) is None or found.ends:
                    break
                elif found.kind == WINDOW_UPDATE:
                    admitted[found.stream] += int.from_bytes(found.body, "big")
        return sent

    def took(self, count: int) -> None:
        """Let the other end send so many bytes more than before on this connection."""
        if count:
            self.send(frame(WINDOW_UPDATE, struct.pack(">I", count)))

    def _peek(self, count: int) -> bytearray:
        with suppress(ConnectionError):
            while len(self._came) < count and (piece := self.socket.recv(65536)):
                self._came += piece
        return self._came[:count]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
