"""One connection: its client, and what the client may ask of the store in old frames and negotiated ones."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from penstock.access.principal import Peer, Principal, is_loopback
from penstock.access.resource import AccessRight
from penstock.errors import Error, InvalidInput, Unauthenticated, UnknownTopic
from penstock.model.limits import check_topic
from penstock.operate.ports import SHARED, TopicMode
from penstock.operate.producer import AppendedRecord, RecordWanted
from penstock.operate.tail import LATEST, StoreTail
from penstock.redaction import traced
from penstock.wire.tinyq.frames import TinyqCode, TinyqCommand, TinyqReader, TinyqRefusal

from ..subscription import GroupSubscription
from .door import DOOR, SendRecord, TinyqDoor, answer_to, broadcast, one_by_one

logger = logging.getLogger("penstock.gateway")

_UNKNOWN_BYTES = 16 * 1024  # in a request of a client that is not known yet
_MOST_SUBSCRIPTIONS = 100  # of a connection
_OLD_CREDITS = 16  # messages in flight to one client of the old protocol
_MODES = {TinyqCommand.CREATE_CONSUME: TopicMode.CONSUME, TinyqCommand.CREATE_BROADCAST: TopicMode.BROADCAST}


class TinyqConnection:
    """A connection and its client: what the client may ask of the store, whatever its frames are."""

    def __init__(self, door: TinyqDoor, writer: asyncio.StreamWriter) -> None:
        self.door, self._writer = door, writer
        self.frames = TinyqReader(_UNKNOWN_BYTES)
        address = str(writer.get_extra_info("peername", ("",))[0])
        private = writer.get_extra_info("ssl_object") is not None or is_loopback(address)
        self.peer = Peer(address, DOOR, is_private=private or door.secrets_in_plaintext)
        self.principal: Principal | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    async def send(self, data: bytes) -> None:
        """Hand bytes to the socket, and wait until it has taken them."""
        self._write(data)
        await self._writer.drain()

    @property
    def known(self) -> Principal:
        """The principal of a client that is known."""
        assert self.principal is not None
        return self.principal

    async def authenticate(self, secret: str) -> None:
        """Continue as the client that a secret proves. Raises TinyqRefusal."""
        try:
            principal = await self.door.authenticate(secret, self.peer)
        except Unauthenticated as exc:
            raise TinyqRefusal(TinyqCode.REFUSED) from exc
        self.admit(principal)

    def admit(self, principal: Principal) -> None:
        """Continue as a known client, with requests of any size. Raises TinyqRefusal: busy."""
        if not self.door.places.know(self._writer, principal):
            raise TinyqRefusal(TinyqCode.BUSY)
        self.principal, self.frames.max_body_bytes = principal, self.door.tinyq.max_body_bytes

    async def publish(self, name: str, record: RecordWanted, token: bytes | None = None) -> tuple[int, int]:
        """Check the rights and the limit of the client, and add a record as `add` does; return its place."""
        self.door.check(self.known, AccessRight.WRITE, name)
        self.door.access.admit(self.known, name, len(record.value or b""))
        (found,) = await self.add(name, [record], token)
        return found.partition, found.offset

    async def add(self, name: str, records: Sequence[RecordWanted], token: bytes | None = None) -> list[AppendedRecord]:
        """Add records, durably. Create the topic if missing and the principal may."""
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

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)

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
