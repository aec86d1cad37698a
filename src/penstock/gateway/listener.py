"""Serves an ASGI application beside a worker or a broker: a socket, a thread, an event loop of its own.

No other part of the process waits for it, and its work is bounded: a number of connections, a time limit for
each to send a request, and a short shutdown. `open` opens the socket in the caller's thread: an address that
is not available is refused before anything runs.
"""

import asyncio
import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from ssl import SSLContext
from threading import Thread
from typing import Any

from penstock.access.places import ConnectionPlaces
from penstock.access.principal import Principal
from penstock.errors import MissingExtra
from penstock.redaction import traced
from penstock.sockets import ListeningPort, new_loop

from .lock import CERTIFICATE, PLACE, KnownHosts
from .settings import GatewaySettings

try:
    from h11 import IDLE
    from uvicorn import Config, Server
    from uvicorn.protocols.http.flow_control import service_unavailable
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as exc:
    raise MissingExtra("serving HTTP", "http") from exc

logger = logging.getLogger("penstock.gateway")

_CONNECTIONS = 100  # of known clients; more at a time are answered 503
_GRACE_SECONDS = 1  # for answers in flight at the stop
_HANG_UP_SECONDS = 1  # for handlers to notice that their client is gone
_JOIN_SECONDS = 5.0
_MOST_LINES = 1000  # in the head of a request
REQUEST_SECONDS = 5.0  # for a new connection to send a request
_CLOSE_SECONDS = 10.0  # for a client to take the next part of the rest, once its connection is closing


class GatheringTransport:
    """A transport that sends all writes of one turn of the loop in one call: an answer's head and body.

    All else is passed to the real transport.
    """

    def __init__(self, transport: Any, loop: Any) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send data, together with other writes of this turn."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send the rest, and close once the client has taken it, or takes nothing more."""
        if self._transport.is_closing():
            return
        self._flush()
        self._transport.close()
        self._loop.call_soon(self._end_in_time)

    def _end_in_time(self, before: int = -1) -> None:
        left = self._transport.get_write_buffer_size()
        if left == before:
            self._transport.abort()
        elif left:
            self._loop.call_later(_CLOSE_SECONDS, self._end_in_time, left)

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():  # closed for others: uvloop's would raise RuntimeError
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class ImpatientProtocol(H11Protocol):
    """Closes a connection without a request, at first or after an answer, even if bytes trickle in.

    Enough such connections would take all places, and probes would fail. A connection without a known client
    gives way to others once there are many (`access/places.py`).
    """

    def __init__(self, *args: Any, places: "ConnectionPlaces[ImpatientProtocol]", **more: Any) -> None:
        super().__init__(*args, **more)
        self._places = places

    def connection_made(self, transport: Any) -> None:
        """Start the time limit for the head of a request."""
        super().connection_made(GatheringTransport(transport, self.loop))  # type: ignore[arg-type]
        certificate = transport.get_extra_info("peercert")
        self.app = _with(self.app, {PLACE: self, **({CERTIFICATE: certificate} if certificate else {})})
        address = transport.get_extra_info("peername")
        if not self._places.enter(self, str(address[0]) if address else "local"):
            self.app = service_unavailable
        self._impatience = self.loop.call_later(REQUEST_SECONDS, self._close_if_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back, and drop references to it: a full search for cycles comes rarely."""
        self._places.leave(self)
        super().connection_lost(exc)
        self._impatience.cancel()
        self.app = service_unavailable
        if self.cycle is not None and self.cycle.response_complete:
            self.cycle = None  # type: ignore[assignment]

    @property
    def most(self) -> int:
        """The most connections of known clients at the port."""
        return self._places.most

    def know(self, principal: Principal) -> bool:
        """Set the principal of the connection; return False if it has too many connections."""
        return self._places.know(self, principal)

    def abort(self) -> None:
        """End the connection: others need its place."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take received bytes. The time limit runs on until the head of a request is whole."""
        self.conn.receive_data(data)
        self.handle_events()

    def handle_events(self) -> None:
        """Parse received bytes, unless a head has too many lines: h11 parses a head in one piece."""
        if self.conn.their_state is IDLE:
            came = self.conn.trailing_data[0]
            if came.count(b"\n", 0, came.find(b"\r\n\r\n") % (len(came) + 1)) > _MOST_LINES:
                self.send_400_response("Too many header lines.")
                return
        super().handle_events()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection some time after its last answer, unless another request has begun."""
        if self.cycle is None or self.cycle.response_complete:
            super().timeout_keep_alive_handler()

    def _close_if_silent(self) -> None:
        if self.cycle is None:  # no request has begun; after an answer the server itself closes it
            self.transport.close()


def _with(app: Any, more: dict[str, Any]) -> Any:
    async def call(scope: Any, receive: Any, send: Any) -> None:
        with suppress(asyncio.CancelledError):  # only `_EndingServer` cancels; uvicorn logs an error
            await app(dict(scope, **more), receive, send)

    return call


class _EndingServer(Server):
    """Hangs up on clients that are still there after the grace period.

    They may be idle behind TLS or have sent half a body. Uvicorn alone would log each as an error.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._hang_up)
        await super().shutdown(sockets)

    def _hang_up(self) -> None:
        for each in list(self.server_state.connections):
            each.transport.abort()
        asyncio.get_running_loop().call_later(_HANG_UP_SECONDS / 2, self._cancel)

    def _cancel(self) -> None:
        for each in list(self.server_state.tasks):
            each.cancel()


class HttpListener(ListeningPort):
    """Listens on one address from `open` on and answers between `start` and `stop`."""

    def __init__(
        self,
        app: Any,
        host: str,
        port: int,
        *,
        connections: int = _CONNECTIONS,
        tls: SSLContext | None = None,
        names: Sequence[str] = (),
    ) -> None:
        """`tls`: the context that encrypts connections.

        `names`: host names that clients use, besides `host` and those of `gateway.host_names`.
        """
        super().__init__(host, port)
        places = ConnectionPlaces[ImpatientProtocol](connections, ImpatientProtocol.abort)
        config = Config(
            KnownHosts(app, [host, *names, *GatewaySettings.load().host_names]),
            access_log=False,
            http=partial(ImpatientProtocol, places=places),  # type: ignore[arg-type]
            lifespan="off",
            log_config=None,
            loop="asyncio",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS + _HANG_UP_SECONDS,
            ws="none",
        )
        if tls is not None:
            config.load()  # uvicorn's own way takes file names, and reads them once
            config.ssl = tls
        self._server = _EndingServer(config)

    def start(self) -> None:
        """Start to serve; returns at once."""
        if self._socket is None:
            self.open()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="penstock-http", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End; answers in flight have a moment to finish."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        assert self._socket is not None
        try:
            with asyncio.Runner(loop_factory=lambda: new_loop(REQUEST_SECONDS)) as runner:
                runner.run(self._server.serve(sockets=[self._socket]))
        except Exception as exc:
            logger.error("nothing is served over HTTP any more; the rest goes on", exc_info=traced(exc))
