"""Serves an ASGI application beside a worker: a socket, a thread, an event loop of its own.

Nothing of the worker waits for it, and its work is bounded: so many connections, each with a time to ask in,
and a short end. The socket is opened by `open`, in the caller's thread: an address that cannot be had is
refused before anything runs.
"""

import logging
import socket
from threading import Thread
from typing import Any

from penstock.errors import AddressRefused, MissingExtra
from penstock.redaction import traced

try:
    from uvicorn import Config, Server
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as exc:
    raise MissingExtra("serving HTTP", "http") from exc

logger = logging.getLogger("penstock.gateway")

_CONNECTIONS = 100  # more at a time are answered 503
_GRACE_SECONDS = 1  # for answers that are under way when it stops
_JOIN_SECONDS = 5.0
REQUEST_SECONDS = 5.0  # within which a new connection has to ask something


class ImpatientProtocol(H11Protocol):
    """Closes a connection that asks nothing. Enough of them would else take all places, and probes fail."""

    def connection_made(self, transport: Any) -> None:
        """Wait for the head of a request, so long."""
        super().connection_made(transport)
        self.loop.call_later(REQUEST_SECONDS, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self.cycle is None:  # no request has begun; after an answer the server itself closes it
            self.transport.close()


class HttpListener:
    """Listens on one address from `open` on and answers between `start` and `stop`."""

    def __init__(self, app: Any, host: str, port: int) -> None:
        """`port` 0 picks a free one."""
        self._host, self._port = host, port
        self._socket: socket.socket | None = None
        self._thread: Thread | None = None
        config = Config(
            app,
            access_log=False,
            http=ImpatientProtocol,
            lifespan="off",
            limit_concurrency=_CONNECTIONS,
            log_config=None,
            loop="asyncio",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            ws="none",
        )
        self._server = Server(config)

    @property
    def address(self) -> str:
        """Where it listens, with the port that was picked: `127.0.0.1:8420`, `[::1]:8420`."""
        assert self._socket is not None, "it is not open"
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def open(self) -> None:
        """Take the address. Raises AddressRefused."""
        try:
            family, *_, place = socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._socket = socket.create_server(place[:2], family=family)
        except UnicodeError as exc:  # no name in DNS can look like that
            raise AddressRefused(self._host, self._port, "that is no name of a host") from exc
        except OSError as exc:
            raise AddressRefused(self._host, self._port, exc.strerror or str(exc)) from exc

    def start(self) -> None:
        """Begin to answer; returns at once."""
        if self._socket is None:
            self.open()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="penstock-http", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End; what is being answered has a moment to end."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        assert self._socket is not None
        try:
            self._server.run(sockets=[self._socket])
        except Exception as exc:
            logger.error("nothing is served over HTTP any more; the worker goes on", exc_info=traced(exc))
