"""One connection: the handshake once, then requests one after another, in old frames or negotiated ones."""

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any

from penstock.access.principal import Peer, Principal, is_loopback
from penstock.access.resource import AccessRight
from penstock.errors import Error, InvalidInput, Unauthenticated, UnknownTopic
from penstock.model.limits import check_topic
from penstock.model.record import Record
from penstock.operate.ports import SHARED, TopicMode
from penstock.operate.producer import AppendedRecord, RecordWanted
from penstock.operate.tail import LATEST, StoreTail
from penstock.redaction import traced
from penstock.wire.tinyq.frames import (
    OLD_COMMANDS,
    TinyqCode,
    TinyqCommand,
    TinyqPassword,
    TinyqReader,
    TinyqRefusal,
    TinyqRequest,
    encode_answer,
    published,
    topic_of,
)

from ..subscription import GroupSubscription
from .door import DOOR, SendRecord, TinyqDoor, answer_to, broadcast, one_by_one
from .negotiated import RAW, TAGGED, NegotiatedSession

logger = logging.getLogger("penstock.gateway")

UNKNOWN_BYTES = 16 * 1024  # in a request of a client that is not known yet
_READ_BYTES = 64 * 1024
_MOST_SUBSCRIPTIONS = 100  # of a connection
_OLD_CREDITS = 16  # messages in flight to one client of the old protocol
_TOGETHER = 1000  # messages added together at most
_MODES = {TinyqCommand.CREATE_CONSUME: TopicMode.CONSUME, TinyqCommand.CREATE_BROADCAST: TopicMode.BROADCAST}


class TinyqSession:
    """A connection, from its first byte to its last."""

    def __init__(self, door: TinyqDoor, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.door, self._reader, self._writer = door, reader, writer
        self._frames = TinyqReader(UNKNOWN_BYTES)
        address = str(writer.get_extra_info("peername", ("",))[0])
        private = writer.get_extra_info("ssl_object") is not None or is_loopback(address)
        self.peer = Peer(address, DOOR, is_private=private or door.secrets_in_plaintext)
        self.principal: Principal | None = None
        self.tasks: set[asyncio.Task[None]] = set()
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

    async def send(self, data: bytes) -> None:
        """Hand bytes to the socket, and wait until it has taken them."""
        self._write(data)
        await self._writer.drain()

    @property
    def known(self) -> Principal:
        """The principal of a client that is known."""
        assert self.principal is not None
        return self.principal

    def admit(self, principal: Principal) -> None:
        """Continue as a known client, with requests of any size. Raises TinyqRefusal: busy."""
        if not self.door.places.know(self._writer, principal):
            raise TinyqRefusal(TinyqCode.BUSY)
        self.principal, self._frames.max_body_bytes = principal, self.door.tinyq.max_body_bytes

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)

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

    async def authenticate(self, secret: str) -> None:
        """Continue as the client that a secret proves. Raises TinyqRefusal."""
        try:
            principal = await self.door.authenticate(secret, self.peer)
        except Unauthenticated as exc:
            raise TinyqRefusal(TinyqCode.REFUSED) from exc
        self.admit(principal)

    async def _next(self) -> TinyqPassword | TinyqRequest | None:
        kept, self._kept = self._kept, None
        if isinstance(kept, TinyqRefusal):
            raise kept
        if kept is not None:
            return kept
        longest = self.door.tinyq.frame_time.total_seconds()
        until: float | None = None  # the deadline of a request, set at its first byte
        while (found := self._frames.next()) is None:
            if until is None and self._frames.is_inside and self.principal is not None:
                until = asyncio.get_running_loop().time() + longest
            async with asyncio.timeout_at(until):
                data = await self._reader.read(_READ_BYTES)
            if not data:
                self._frames.end()
                return None
            self._frames.feed(data)
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
            await self._add(name, records)
            await self.send(bytes([TinyqCode.SUCCESS]) * len(records))
        except InvalidInput:  # nothing was added, and any of them may be the wrong one
            if len(records) == 1:
                raise
            for each in records:
                await self._add(name, [each])
                await self.send(bytes([TinyqCode.SUCCESS]))
        size = sum(len(each.value or b"") for each in records)
        pause = self.door.access.charge(self.known, name, size, requests=len(records))
        if pause:  # over its limit: further requests wait in the client's socket
            await asyncio.sleep(pause)

    def _behind(self, name: str) -> Iterator[bytes]:
        """Yield the messages of whole requests for the same topic; the first other request is kept."""
        for _ in range(_TOGETHER):
            try:
                following = self._frames.next()
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

    async def publish(self, name: str, record: RecordWanted, token: bytes | None = None) -> tuple[int, int]:
        """Add a record, durably; return its place. Create the topic if missing and the principal may."""
        self.door.check(self.known, AccessRight.WRITE, name)
        self.door.access.admit(self.known, name, len(record.value or b""))
        (found,) = await self._add(name, [record], token)
        return found.partition, found.offset

    async def _add(
        self, name: str, records: Sequence[RecordWanted], token: bytes | None = None
    ) -> list[AppendedRecord]:
        door = self.door
        check_topic(name)
        try:
            return await door.add(name, records, token=token)
        except UnknownTopic:
            door.check(self.known, AccessRight.CREATE, name)
            await door.in_thread(lambda: door.administration.ensure(name))
            return await door.add(name, records, token=token)

    async def administer(self, command: TinyqCommand, name: str) -> None:
        """Create, clear or delete a topic."""
        door, topics = self.door, self.door.administration
        door.check(self.known, AccessRight.CREATE if command in _MODES else AccessRight.DELETE, name)
        if command in _MODES:
            await door.in_thread(lambda: topics.create(name, _MODES[command]))
        elif command is TinyqCommand.CLEAR:
            await door.in_thread(lambda: topics.clear(name))
        else:
            await door.groups.drop(SHARED, name)
            await door.in_thread(lambda: topics.delete(name))

    async def subscribe(
        self,
        name: str,
        send: SendRecord,
        *,
        group: str | None = None,
        credits: int = _OLD_CREDITS,
        seconds: float = 0.0,
        settles: bool = False,
    ) -> GroupSubscription | None:
        """Send records of a topic as they come: all of them if it broadcasts, else as one reader of a group.

        `seconds`: of a lease; 0: as long as one may last. Return the part in the group.
        """
        door, who = self.door, self.known
        if len(self.tasks) >= _MOST_SUBSCRIPTIONS:
            raise InvalidInput(f"a connection has {_MOST_SUBSCRIPTIONS} subscriptions at most")
        if (await door.readied(who, name, group or SHARED)) is TopicMode.BROADCAST and group is None:
            opened = await door.in_thread(lambda: StoreTail(door.store, name, LATEST))
            self._begin(broadcast(door, who, opened, name, send))
            return None
        longest = door.settings.lease_longest.total_seconds()
        subscription = GroupSubscription(
            door, who, group=group or SHARED, topic=name, credits=credits, seconds=min(seconds or longest, longest)
        )
        self._begin(subscription.run(one_by_one(send, subscription.check), settles=settles))
        return subscription

    async def _send_plain(self, record: Record) -> None:
        await self.send(encode_answer(TinyqCode.SUCCESS, record.data or b""))

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self.tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ConnectionError):
            code = answer_to(error) if isinstance(error, Error) else TinyqCode.INTERNAL
            if not isinstance(error, Error):
                logger.error("a subscription of the TinyQ port failed", exc_info=traced(error))
            with suppress(ConnectionError):
                self._write(bytes([code]))
            self._writer.close()

    def _write(self, data: bytes) -> None:
        """Hand bytes to the socket. Raises ConnectionError if it has gone, or was closed for others."""
        if self._writer.transport.is_closing():  # uvloop's may raise RuntimeError
            raise ConnectionResetError("the connection is closed")
        self._writer.write(data)

    async def _last_word(self, code: TinyqCode) -> None:
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self.send(bytes([code]))
