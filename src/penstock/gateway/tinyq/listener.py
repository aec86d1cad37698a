"""The socket of the TinyQ port: a thread, an event loop of its own, and a bounded number of connections."""

import asyncio
import logging
import socket
from contextlib import suppress
from ssl import SSLContext
from threading import Event, Thread

from penstock.redaction import traced
from penstock.sockets import ListeningPort, new_loop
from penstock.wire.tinyq.frames import TinyqCode

from .door import TinyqDoor
from .session import TinyqSession

logger = logging.getLogger("penstock.gateway")
_JOIN_SECONDS = 10.0
_READ_LIMIT = 128 * 1024


class TinyqListener(ListeningPort):
    """Listens on one address from `open` on and answers between `start` and `stop`."""

    def __init__(self, door: TinyqDoor, host: str, port: int, *, tls: SSLContext | None = None) -> None:
        """`tls`: the context that encrypts connections."""
        super().__init__(host, port)
        self._door, self._tls = door, tls
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()
        self._is_up = Event()
        self._sessions: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start to serve; returns once it does."""
        if self._socket is None:
            self.open()
        if self._thread is None:
            self._thread = Thread(target=self._run, name="penstock-tinyq", daemon=True)
            self._thread.start()
            self._is_up.wait(_JOIN_SECONDS)

    def stop(self) -> None:
        """Give the groups back, end the connections, and close the socket."""
        self._door.give_back()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended already
                self._loop.call_soon_threadsafe(self._ending.set)
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
        if self._socket is not None:
            self._socket.close()
        self._door.close()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(self._serve())
        except Exception as exc:
            logger.error("nothing is served to TinyQ clients any more; the rest goes on", exc_info=traced(exc))

    async def _serve(self) -> None:
        assert self._socket is not None
        self._loop = asyncio.get_running_loop()
        wait = None if self._tls is None else self._door.tinyq.auth_timeout.total_seconds()
        server = await asyncio.start_server(
            self._accept, sock=self._socket, limit=_READ_LIMIT, ssl=self._tls, ssl_handshake_timeout=wait
        )
        self._is_up.set()
        async with server:
            await self._ending.wait()
            server.close()
            for each in list(self._sessions):
                each.cancel()
            await asyncio.gather(*self._sessions, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            address = str(writer.get_extra_info("peername", ("",))[0])
            if not self._door.places.enter(writer, address):
                writer.write(bytes([TinyqCode.BUSY]))
                return
            self._sessions.add(task)
            writer.transport.set_write_buffer_limits(0)  # sent data has left before the next is taken
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await TinyqSession(self._door, reader, writer).run()
        except asyncio.CancelledError:
            pass  # the port ends
        finally:
            self._sessions.discard(task)
            self._door.places.leave(writer)
            writer.close()
