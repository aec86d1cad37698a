"""The event loops of the doors: uvloop's where it is installed, as at the Kafka port, else asyncio's own."""

import asyncio
from typing import Any

try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]


class _Impatient:
    """Gives a TLS handshake so many seconds: uvicorn cannot be told how long it may take."""

    handshake_seconds: float | None = None

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.AbstractServer:
        """Listen, with that bound."""
        if kwargs.get("ssl") is not None:
            kwargs.setdefault("ssl_handshake_timeout", self.handshake_seconds)
        made: asyncio.AbstractServer = await super().create_server(*args, **kwargs)  # type: ignore[misc]
        return made


def new_loop(handshake_seconds: float | None = None) -> asyncio.AbstractEventLoop:
    """Return a loop for the thread of a door."""
    base: Any = asyncio.SelectorEventLoop if uvloop is None else uvloop.Loop
    made: Any = type("DoorLoop", (_Impatient, base), {"handshake_seconds": handshake_seconds})()
    loop: asyncio.AbstractEventLoop = made
    return loop
