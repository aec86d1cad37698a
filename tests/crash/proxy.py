"""A proxy between a client and PostgreSQL that fails on purpose: at a COMMIT, altogether, or by silence.

It reads what the client sends message by message (a byte of type, four of length) and so knows a COMMIT when
it passes; what the server answers it hands on as it comes. It listens on the loopback only.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from enum import Enum, auto
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict

_CHUNK = 65536


class Cut(Enum):
    """When a connection is cut at a COMMIT."""

    BEFORE_IT_ARRIVES = auto()  # the server never sees it and rolls back
    WHILE_IT_RUNS = auto()  # the server has it and goes on alone
    BEFORE_ITS_ANSWER = auto()  # the server has committed; the client never hears of it


class FaultProxy:
    """Hands connections on to a server until it is told otherwise. Safe from any thread."""

    def __init__(self, url: str) -> None:
        server = conninfo_to_dict(url)
        self._server = f"{server['host']}/.s.PGSQL.{server['port']}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{port}/{server['dbname']}?sslmode=disable&gssencmode=disable"
        self._lock = Lock()
        self._pairs: set[_Pair] = set()
        self._cut: Cut | None = None
        self._commits_left = 0
        self._is_down = False
        self._flows = Event()
        self._flows.set()
        self.has_cut = Event()
        Thread(target=self._accept, daemon=True).start()

    def cut_at_commit(self, when: Cut, *, number: int = 1) -> None:
        """Cut the connection that sends the next COMMIT but `number - 1`, once."""
        with self._lock:
            self._cut, self._commits_left = when, number
            self.has_cut.clear()

    def go_down(self) -> None:
        """Cut every connection and refuse new ones."""
        with self._lock:
            self._is_down = True
            pairs = list(self._pairs)
        for pair in pairs:
            pair.close()

    def come_up(self) -> None:
        """Accept connections again."""
        with self._lock:
            self._is_down = False

    def stall(self) -> None:
        """Keep every connection, accept new ones, and let nothing pass: a server that hangs."""
        self._flows.clear()

    def flow(self) -> None:
        """Let pass what has come in meanwhile, and all that follows."""
        self._flows.set()

    def wait_to_flow(self) -> None:
        """Return when things may pass."""
        self._flows.wait()

    def close(self) -> None:
        """Cut everything and stop listening."""
        self.go_down()
        self.flow()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def passing_commit(self) -> Cut | None:
        """Count a COMMIT; return how its connection is to be cut, if it is."""
        with self._lock:
            self._commits_left -= 1
            return self._cut if self._cut and self._commits_left == 0 else None

    def forget(self, pair: _Pair) -> None:
        """A connection has ended."""
        with self._lock:
            self._pairs.discard(pair)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if not self._is_down:
                    with suppress(OSError):  # the server itself may be away
                        self._pairs.add(_Pair(self, client, self._server))
                        continue
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Pair:
    """One client's connection and the one to the server that belongs to it."""

    def __init__(self, proxy: FaultProxy, client: socket.socket, server: str) -> None:
        self._proxy, self._client = proxy, client
        self._server = socket.socket(socket.AF_UNIX)
        try:
            self._server.connect(server)
        except OSError:
            self._server.close()
            raise
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._silent = Event()
        for pump in (self._requests, self._answers):
            Thread(target=pump, daemon=True).start()

    def close(self) -> None:
        """Cut both sides."""
        for side in (self._client, self._server):
            _cut(side)

    def _requests(self) -> None:
        with suppress(OSError, EOFError):
            (length,) = struct.unpack("!i", first := _exactly(self._client, 4))  # the start has no type
            start = first + _exactly(self._client, length - 4)
            self._proxy.wait_to_flow()
            self._server.sendall(start)
            while True:
                head = _exactly(self._client, 5)
                message = head + _exactly(self._client, struct.unpack("!i", head[1:])[0] - 4)
                if _is_commit(message) and (cut := self._proxy.passing_commit()):
                    self._cut_at(message, cut)
                    return
                self._proxy.wait_to_flow()
                self._server.sendall(message)
        self.close()

    def _cut_at(self, message: bytes, cut: Cut) -> None:
        if cut is Cut.BEFORE_IT_ARRIVES:
            self.close()
        else:
            self._silent.set()
            self._server.sendall(message)
            if cut is Cut.WHILE_IT_RUNS:
                _cut(self._client)
        if cut is not Cut.BEFORE_ITS_ANSWER:
            self._proxy.has_cut.set()

    def _answers(self) -> None:
        with suppress(OSError):
            while answer := self._server.recv(_CHUNK):
                if self._silent.is_set():
                    break
                self._proxy.wait_to_flow()
                self._client.sendall(answer)
        self.close()
        self._proxy.forget(self)
        if self._silent.is_set():
            self._proxy.has_cut.set()
        for side in (self._client, self._server):
            side.close()


def _is_commit(message: bytes) -> bool:
    text = message[5:].rstrip(b"\0;").strip().upper()
    return message[:1] == b"Q" and (text == b"COMMIT" or text.endswith(b";COMMIT"))


def _exactly(side: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        chunk = side.recv(count - len(found))
        if not chunk:
            raise EOFError
        found += chunk
    return bytes(found)


def _cut(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
