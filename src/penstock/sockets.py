"""What every listener begins with: a socket on an address, and an event loop."""

import asyncio
import socket
from typing import Any

from penstock.errors import AddressRefused

try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]


def listening_socket(host: str, port: int, backlog: int | None = None) -> socket.socket:
    """Return a socket that listens on an address; port 0 picks a free one. Raises AddressRefused."""
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.create_server(place[:2], family=family, backlog=backlog)
        # Connections inherit it; asyncio sets it only where the socket names its protocol, and this one does
        # not: answers in two pieces would wait 40 ms for the client's acknowledgement.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except UnicodeError as exc:  # no DNS name can look like that
        raise AddressRefused(host, port, "that is no name of a host") from exc
    except OSError as exc:
        raise AddressRefused(host, port, exc.strerror or str(exc)) from exc
    return made


def address_of(listening: socket.socket | None) -> str:
    """Return the address of a socket, with the port that was picked: `127.0.0.1:8420`, `[::1]:8420`."""
    assert listening is not None, "it is not open"
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
