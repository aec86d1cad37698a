"""What every listener begins with: a socket on an address, and an event loop."""

import asyncio
import socket
from threading import Thread
from typing import Any

from penstock.errors import AddressRefused

try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]


class ListeningPort:
    """A listener's address, taken by `open` in the caller's thread: one that is not available is refused at once."""

    _backlog: int | None = None

    def __init__(self, host: str, port: int) -> None:
        """`port` 0 picks a free one."""
        self._host, self._port = host, port
        self._socket: socket.socket | None = None
        self._thread: Thread | None = None

    @property
    def address(self) -> str:
        """The address it listens on, with the port that was picked: `127.0.0.1:8420`, `[::1]:8420`."""
        assert self._socket is not None, "it is not open"
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def open(self) -> None:
        """Take the address. Raises AddressRefused."""
        host, port = self._host, self._port
        try:
            family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            self._socket = socket.create_server(place[:2], family=family, backlog=self._backlog)
            # Connections inherit it; asyncio sets it only where the socket names its protocol, and this one does
            # not: answers in two pieces would wait 40 ms for the client's acknowledgement.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except UnicodeError as exc:  # no DNS name can look like that
            raise AddressRefused(host, port, "that is no name of a host") from exc
        except OSError as exc:
            raise AddressRefused(host, port, exc.strerror or str(exc)) from exc


class _TimedHandshakes:
    """Limits the time of a TLS handshake, which uvicorn has no option for."""

    handshake_seconds: float | None = None

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.AbstractServer:
        """Listen, with that limit."""
        if kwargs.get("ssl") is not None:
            kwargs.setdefault("ssl_handshake_timeout", self.handshake_seconds)
        made: asyncio.AbstractServer = await super().create_server(*args, **kwargs)  # type: ignore[misc]
        return made


def new_loop(handshake_seconds: float | None = None) -> asyncio.AbstractEventLoop:
    """Return an event loop for the thread of a listener: uvloop's where installed, else asyncio's own."""
    base: Any = asyncio.SelectorEventLoop if uvloop is None else uvloop.Loop
    loop: asyncio.AbstractEventLoop = type(
        "ListenerLoop", (_TimedHandshakes, base), {"handshake_seconds": handshake_seconds}
    )()
    return loop
