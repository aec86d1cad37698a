"""The event loops of the doors: uvloop where installed, as at the Kafka port, else asyncio's own."""

import asyncio
from typing import Any

try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]


class _Impatient:
    """Limits the time of a TLS handshake, which uvicorn has no option for."""

    handshake_seconds: float | None = None

    async def create_server(self, *args: Any, **kwargs: Any) -> asyncio.AbstractServer:
        """Listen, with that limit."""
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
