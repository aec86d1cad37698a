"""One connection: the handshake once, then requests one after another, in old frames or negotiated ones."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress

from penstock.access.resource import AccessRight
from penstock.errors import Error, InvalidInput
from penstock.model.record import Record
from penstock.operate.producer import RecordWanted
from penstock.redaction import traced
from penstock.wire.tinyq.frames import (
    OLD_COMMANDS,
    TinyqCode,
    TinyqCommand,
    TinyqPassword,
    TinyqRefusal,
    TinyqRequest,
    encode_answer,
    published,
    topic_of,
)

from .connection import TinyqConnection
from .door import TinyqDoor, answer_to
from .negotiated import RAW, TAGGED, NegotiatedSession

logger = logging.getLogger("penstock.gateway")

_READ_BYTES = 64 * 1024
_TOGETHER = 1000  # messages added together at most


class TinyqSession(TinyqConnection):
    """A connection, from its first byte to its last."""

    def __init__(self, door: TinyqDoor, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(door, writer)
        self._reader = reader
        self._negotiated: NegotiatedSession | None = None
        self._kept: TinyqPassword | TinyqRequest | TinyqRefusal | None = None  # read, and not answered yet

    async def run(self) -> None:
        """Serve the connection until it ends."""
        try:
            await self._serve()
        except TinyqRefusal as exc:
            await self._last_word(exc.code)
        except Error as exc:
            await self._last_word(answer_to(exc))
        except (ConnectionError, TimeoutError):
            pass
        except Exception as exc:
            logger.error("a connection to the TinyQ port failed", exc_info=traced(exc))
            await self._last_word(TinyqCode.INTERNAL)
        finally:
            for each in list(self.tasks):
                each.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _serve(self) -> None:
        await self.send(bytes([TinyqCode.PASSWORD]))
        try:
            async with asyncio.timeout(self.door.tinyq.auth_timeout.total_seconds()):
                await self._greet()
        except TimeoutError as exc:
            raise TinyqRefusal(TinyqCode.LATE) from exc
        while (request := await self._next()) is not None:
            if isinstance(request, TinyqPassword):
                raise TinyqRefusal(TinyqCode.COMMAND_UNKNOWN)
            await self._answer(request)

    async def _greet(self) -> None:
        while self.principal is None:
            came = await self._next()
            if came is None:
                raise TinyqRefusal(TinyqCode.REFUSED)
            if isinstance(came, TinyqPassword):
                await self.authenticate(came.digest)
                await self.send(bytes([TinyqCode.SUCCESS]))
            elif self._negotiated is not None or came.command == TinyqCommand.NEGOTIATE:
                await self._answer(came)
            else:
                raise TinyqRefusal(TinyqCode.REFUSED)

    async def _next(self) -> TinyqPassword | TinyqRequest | None:
        kept, self._kept = self._kept, None
        if isinstance(kept, TinyqRefusal):
            raise kept
        if kept is not None:
            return kept
        longest = self.door.tinyq.frame_time.total_seconds()
        until: float | None = None  # the deadline of a request, set at its first byte
        while (found := self.frames.next()) is None:
            if until is None and self.frames.is_inside and self.principal is not None:
                until = asyncio.get_running_loop().time() + longest
            async with asyncio.timeout_at(until):
                data = await self._reader.read(_READ_BYTES)
            if not data:
                self.frames.end()
                return None
            self.frames.feed(data)
        return found

    async def _answer(self, request: TinyqRequest) -> None:
        if self._negotiated is not None:
            await self._negotiated.answer(request)
        elif request.command == TinyqCommand.NEGOTIATE:
            self._negotiated = await NegotiatedSession.agreed(self, request.body)
        elif request.command in OLD_COMMANDS:
            await self._old(TinyqCommand(request.command), request.body)
        else:
            raise TinyqRefusal(TinyqCode.COMMAND_UNKNOWN)

    async def _old(self, command: TinyqCommand, body: bytes) -> None:
        """Carry out a request of the old protocol; any error ends the connection."""
        if command is TinyqCommand.PUBLISH:
            await self._publish_run(*published(body))
        elif command is TinyqCommand.SUBSCRIBE:
            await self.subscribe(topic_of(body), self._send_plain, settles=True)
        else:
            await self.administer(command, topic_of(body))
            await self.send(bytes([TinyqCode.SUCCESS]))

    async def _publish_run(self, name: str, payload: bytes) -> None:
        """Add a message with those that have already come behind it: one append, and a byte for each."""
        records = [RecordWanted(each, headers=TAGGED[RAW]) for each in (payload, *self._behind(name))]
        self.door.check(self.known, AccessRight.WRITE, name)
        try:
            await self.add(name, records)
            await self.send(bytes([TinyqCode.SUCCESS]) * len(records))
        except InvalidInput:  # nothing was added, and any of them may be the wrong one
            if len(records) == 1:
                raise
            for each in records:
                await self.add(name, [each])
                await self.send(bytes([TinyqCode.SUCCESS]))
        size = sum(len(each.value or b"") for each in records)
        pause = self.door.access.charge(self.known, name, size, requests=len(records))
        if pause:  # over its limit: further requests wait in the client's socket
            await asyncio.sleep(pause)

    def _behind(self, name: str) -> Iterator[bytes]:
        """Yield the messages of whole requests for the same topic; the first other request is kept."""
        for _ in range(_TOGETHER):
            try:
                following = self.frames.next()
                if following is None:
                    return
                self._kept = following
                if not isinstance(following, TinyqRequest) or following.command != TinyqCommand.PUBLISH:
                    return
                topic, payload = published(following.body)
            except TinyqRefusal as exc:  # the requests before it are answered first
                self._kept = self._kept or exc
                return
            if topic != name:
                return
            self._kept = None
            yield payload

    async def _send_plain(self, record: Record) -> None:
        await self.send(encode_answer(TinyqCode.SUCCESS, record.data or b""))

    async def _last_word(self, code: TinyqCode) -> None:
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self.send(bytes([code]))
