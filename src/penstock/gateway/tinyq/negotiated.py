"""A connection that has negotiated: answers name their request, and messages are acknowledged."""

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.errors import Error, InvalidInput
from penstock.model.record import TOKEN, Record
from penstock.operate.producer import RecordWanted
from penstock.wire.tinyq.frames import TinyqCode, TinyqCommand, TinyqRefusal, TinyqRequest, encode_answer
from penstock.wire.tinyq.messages import (
    BY_POLICY,
    DONE,
    MESSAGE,
    NEGOTIATED,
    NO_TOKEN,
    PROBLEM,
    PUBLISHED,
    REQUESTS,
    VERSION,
    decode,
    encode,
)

from ..door import SMALL_BYTES
from ..lease import DONE as ACKNOWLEDGED
from ..lease import refusal
from ..subscription import GroupSubscription
from .answers import answer_to
from .payload import TAGS, codecs, pack, tag_of, tagged, unpack

if TYPE_CHECKING:
    from .session import TinyqSession


class NegotiatedSession:
    """Answers the requests of one connection in negotiated frames."""

    def __init__(self, session: "TinyqSession", codec: int) -> None:
        self._session, self._codec = session, codec
        self._subscriptions: dict[int, GroupSubscription] = {}

    @classmethod
    async def agreed(cls, session: "TinyqSession", body: bytes) -> "NegotiatedSession":
        """Agree on a version and a codec. Raises TinyqRefusal when there is no version in common."""
        asked = decode(REQUESTS[TinyqCommand.NEGOTIATE], body)
        if not asked["least"] <= VERSION <= asked["most"]:
            raise TinyqRefusal(TinyqCode.BODY_INVALID)
        shared = asked["codecs"] & codecs()
        codec = 1 << (shared.bit_length() - 1) if shared else 0
        needs = session.principal is None
        data = encode(NEGOTIATED, version=VERSION, codec=codec, features=0, authenticates=int(needs))
        await session.send(encode_answer(TinyqCode.SUCCESS, data))
        return cls(session, codec)

    async def answer(self, request: TinyqRequest) -> None:
        """Answer one request. Raises TinyqRefusal when the rest cannot be parsed."""
        layout = REQUESTS.get(request.command)
        if layout is None or request.command == TinyqCommand.NEGOTIATE:
            raise TinyqRefusal(TinyqCode.COMMAND_UNKNOWN)
        asked = decode(layout, request.body)
        command, number = TinyqCommand(request.command), asked["request"]
        if self._session.principal is None:
            if command is not TinyqCommand.AUTHENTICATE:
                raise TinyqRefusal(TinyqCode.REFUSED)
            await self._authenticate(asked)
            await self._session.send(encode_answer(TinyqCode.SUCCESS, encode(DONE, request=number, count=0)))
            return
        try:
            data = await self._done(command, asked)
        except Error as exc:
            why = str(exc).encode("utf-8", "backslashreplace")
            code = answer_to(exc)
            await self._session.send(encode_answer(code, encode(PROBLEM, request=number, why=why)))
            return
        await self._session.send(encode_answer(TinyqCode.SUCCESS, data))

    async def _authenticate(self, asked: dict[str, Any]) -> None:
        secret = asked["secret"].decode("latin-1")
        try:
            self._session.admit(await self._session.door.authenticate(secret, self._session.peer))
        except Error as exc:
            raise TinyqRefusal(TinyqCode.REFUSED) from exc

    async def _done(self, command: TinyqCommand, asked: dict[str, Any]) -> bytes:
        """Carry out a request; return the data of its answer. Raises Error."""
        count = 0
        if command is TinyqCommand.PUBLISH:
            return await self._publish(asked)
        if command is TinyqCommand.SUBSCRIBE:
            await self._subscribe(asked)
        elif command is TinyqCommand.CREDIT:
            self._of(asked).add(asked["credits"])
        elif command is TinyqCommand.ACK:
            count = await self._of(asked).answer(asked["ranges"], ACKNOWLEDGED)
        elif command is TinyqCommand.NACK:
            after_seconds = None if asked["after_ms"] == BY_POLICY else asked["after_ms"] / 1000
            count = await self._of(asked).answer(asked["ranges"], refusal(after_seconds=after_seconds))
        elif command is TinyqCommand.AUTHENTICATE:
            raise InvalidInput("a connection says once who it is; open another")
        else:
            await self._session.administer(command, _name(asked["topic"], "topic"))
        return encode(DONE, request=asked["request"], count=count)

    async def _publish(self, asked: dict[str, Any]) -> bytes:
        if asked["tag"] not in TAGS:
            raise InvalidInput(f"no payload has the tag {asked['tag']}")
        payload, door = asked["payload"], self._session.door
        if asked["packed"]:  # few bytes may unpack to many
            limit = door.tinyq.max_body_bytes
            payload = await door.in_thread(partial(unpack, asked["packed"], payload, limit))
        record = RecordWanted(payload, asked["type"], asked["key"], tagged(asked["tag"]))
        token = None if asked["token"] == NO_TOKEN else asked["token"]
        name = _name(asked["topic"], "topic")
        partition, offset = await self._session.publish(name, record, token)
        return encode(PUBLISHED, request=asked["request"], partition=partition, offset=offset)

    async def _subscribe(self, asked: dict[str, Any]) -> None:
        session, number, door = self._session, asked["request"], self._session.door
        if number in self._subscriptions:
            raise InvalidInput(f"{number} is a subscription already")

        async def send(record: Record) -> None:
            if self._codec and len(record.data or b"") > SMALL_BYTES:
                data = await door.in_thread(partial(self._message, number, record))
            else:
                data = self._message(number, record)
            await session.send(encode_answer(TinyqCode.MESSAGE, data))

        seconds = asked["lease_ms"] / 1000 or door.settings.lease.total_seconds()
        name, group, credits = _name(asked["topic"], "topic"), asked["group"], asked["credits"]
        subscription = await session.subscribe(name, send, group=group, credits=credits, seconds=seconds)
        if subscription is not None:
            self._subscriptions[number] = subscription

    def _message(self, number: int, record: Record) -> bytes:
        packed, payload = pack(self._codec, record.data or b"")
        token = dict(record.raw_headers).get(TOKEN) or NO_TOKEN
        return encode(
            MESSAGE,
            subscription=number,
            partition=record.partition,
            offset=record.offset,
            attempt=min(record.attempt, 65_535),
            redelivered=int(record.redelivered),
            tag=tag_of(record),
            packed=packed,
            token=token if len(token) == 16 else NO_TOKEN,
            key=None if record.key is None else record.key.encode("utf-8", "replace").decode(),
            type=record.type,
            payload=payload,
        )

    def _of(self, asked: dict[str, Any]) -> GroupSubscription:
        try:
            return self._subscriptions[asked["subscription"]]
        except KeyError:
            raise InvalidInput(f"{asked['subscription']} is no subscription with credits") from None


def _name(given: str | None, what: str) -> str:
    if given is None:
        raise InvalidInput(f"the {what} is missing")
    return given
