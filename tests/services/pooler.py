"""A transaction pooler between clients and PostgreSQL, as PgBouncer in its transaction mode.

Each transaction of a client goes over another connection to the server, taken in turn from a few that all
clients share; between transactions a client has none. So what a session remembers (LISTEN, SET, prepared
statements) is lost, and a notification for a connection that serves nobody reaches nobody. It reads messages
(a byte of type, four of length) and listens on the loopback only.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import deque
from contextlib import suppress
from threading import Lock, Thread
from types import TracebackType
from typing import Self
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

SERVERS = 3
_MADE_UP_PID = 4_000_000
_ANSWERED = (b"Q", b"S")  # each is answered by one ReadyForQuery


class TransactionPooler:
    """Takes clients until it is closed. Safe from any thread."""

    def __init__(self, url: str) -> None:
        server = conninfo_to_dict(url)
        self._address = f"{server['host']}/.s.PGSQL.{server['port']}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        options = f"&options={quote(str(server['options']))}" if "options" in server else ""
        self.url = (
            f"postgresql://postgres@127.0.0.1:{port}/{server['dbname']}?sslmode=disable&gssencmode=disable{options}"
        )
        self._lock = Lock()
        self._idle: dict[bytes, deque[socket.socket]] = {}
        self._open: list[socket.socket] = []
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Cut everything and stop listening."""
        with self._lock:
            sides, self._open = [*self._open, self._listener], []
        for side in sides:
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
            side.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.append(client)
            Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            (length,) = struct.unpack("!i", _exactly(client, 4))
            start = _exactly(client, length - 4)
            server, greeting = self._connected(start)
            self._give_back(start, server)
            client.sendall(greeting)
            while True:
                kind, message = _message(client)
                if kind == b"X":
                    return
                self._transaction(client, start, kind, message)

    def _transaction(self, client: socket.socket, start: bytes, kind: bytes, message: bytes) -> None:
        """Hand messages to and fro until the server says that no transaction is open."""
        server, unanswered = self._take(start), 0
        try:
            while True:
                if message:
                    server.sendall(message)
                    unanswered += kind in _ANSWERED
                    message = b""
                ready, _, _ = select.select([client, server], [], [])
                if client in ready:
                    kind, message = _message(client)
                if server in ready:
                    answer, words = _message(server)
                    client.sendall(words)
                    unanswered -= answer == b"Z"
                    if answer == b"Z" and words[-1:] == b"I" and not unanswered and not message:
                        break
        except BaseException:
            server.close()
            raise
        self._give_back(start, server)

    def _take(self, start: bytes) -> socket.socket:
        """Return the connection that has rested longest, with what came for nobody thrown away."""
        with self._lock:
            idle = self._idle.setdefault(start, deque())
            server = idle.popleft() if len(idle) >= SERVERS else None
        if server is None:
            return self._connected(start)[0]
        while select.select([server], [], [], 0)[0]:
            _message(server)
        return server

    def _give_back(self, start: bytes, server: socket.socket) -> None:
        with self._lock:
            self._idle.setdefault(start, deque()).append(server)

    def _connected(self, start: bytes) -> tuple[socket.socket, bytes]:
        """Open a connection to the server; return it with what a client is to be greeted with."""
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._address)
        with self._lock:
            self._open.append(server)
        server.sendall(struct.pack("!i", len(start) + 4) + start)
        greeting, kind = b"", b""
        while kind != b"Z":
            kind, words = _message(server)
            if kind == b"K":  # whom to cancel: a pooler makes that up
                words = words[:5] + struct.pack("!i", _MADE_UP_PID) + words[9:]
            greeting += words
        return server, greeting

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _message(side: socket.socket) -> tuple[bytes, bytes]:
    """Return the type of the next message, and the whole of it."""
    head = _exactly(side, 5)
    return head[:1], head + _exactly(side, struct.unpack("!i", head[1:])[0] - 4)


def _exactly(side: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        chunk = side.recv(count - len(found))
        if not chunk:
            raise EOFError
        found += chunk
    return bytes(found)
