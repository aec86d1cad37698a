"""A connection that has negotiated: answers name their request, and messages are acknowledged.

The type of a payload is a tag of frames and a content type of records; codecs pack payloads.
"""

from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from penstock.errors import BodyTooLarge, Error, InvalidInput, UnsupportedBody
from penstock.model.content import BINARY, CONTENT_TYPE, JSON, is_json
from penstock.model.record import TOKEN, RawHeaders, Record
from penstock.operate.producer import RecordWanted
from penstock.wire.tinyq import messages
from penstock.wire.tinyq.frames import TinyqCode, TinyqCommand, TinyqRefusal, TinyqRequest, encode_answer
from penstock.wire.tinyq.messages import DONE, NO_TOKEN, REQUESTS, SNAPPY, ZSTD, decode, encode

from ..door import SMALL_BYTES
from ..lease import DONE as ACKNOWLEDGED
from ..lease import refusal
from ..subscription import GroupSubscription
from .connection import TinyqConnection
from .door import answer_to

cramjam: Any = None
with suppress(ModuleNotFoundError):  # of the extra kafka: without it nothing is packed
    cramjam = import_module("cramjam")

_WORTH_BYTES = 512  # below, packing costs more than it saves
_RATIO = 8
_LEAST = 64 * 1024
RAW, AS_JSON, PROTOBUF = 0, 1, 2
TAGGED: dict[int, RawHeaders] = {  # the header for each tag; JSON needs none
    RAW: ((CONTENT_TYPE, BINARY.encode()),),
    AS_JSON: (),
    PROTOBUF: ((CONTENT_TYPE, b"application/x-protobuf"),),
}


class NegotiatedSession:
    """Answers the requests of one connection in negotiated frames."""

    def __init__(self, connection: TinyqConnection, codec: int) -> None:
        self._connection, self._codec = connection, codec
        self._subscriptions: dict[int, GroupSubscription] = {}

    @classmethod
    async def agreed(cls, connection: TinyqConnection, body: bytes) -> "NegotiatedSession":
        """Agree on a version and a codec. Raises TinyqRefusal when there is no version in common."""
        asked = decode(REQUESTS[TinyqCommand.NEGOTIATE], body)
        if not asked["least"] <= messages.VERSION <= asked["most"]:
            raise TinyqRefusal(TinyqCode.BODY_INVALID)
        shared = asked["codecs"] & codecs()
        codec = 1 << (shared.bit_length() - 1) if shared else 0
        needs = connection.principal is None
        data = encode(messages.NEGOTIATED, version=messages.VERSION, codec=codec, features=0, authenticates=int(needs))
        await connection.send(encode_answer(TinyqCode.SUCCESS, data))
        return cls(connection, codec)

    async def answer(self, request: TinyqRequest) -> None:
        """Answer one request. Raises TinyqRefusal when the rest cannot be parsed."""
        layout = REQUESTS.get(request.command)
        if layout is None or request.command == TinyqCommand.NEGOTIATE:
            raise TinyqRefusal(TinyqCode.COMMAND_UNKNOWN)
        asked = decode(layout, request.body)
        command, number = TinyqCommand(request.command), asked["request"]
        if self._connection.principal is None:
            if command is not TinyqCommand.AUTHENTICATE:
                raise TinyqRefusal(TinyqCode.REFUSED)
            await self._connection.authenticate(asked["secret"].decode("latin-1"))
            await self._connection.send(encode_answer(TinyqCode.SUCCESS, encode(DONE, request=number, count=0)))
            return
        code = TinyqCode.SUCCESS
        try:
            data = await self._done(command, asked)
        except Error as exc:
            why = str(exc).encode("utf-8", "backslashreplace")
            code, data = answer_to(exc), encode(messages.PROBLEM, request=number, why=why)
        await self._connection.send(encode_answer(code, data))

    async def _done(self, command: TinyqCommand, asked: dict[str, Any]) -> bytes:
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
            after_seconds = None if asked["after_ms"] == messages.BY_POLICY else asked["after_ms"] / 1000
            count = await self._of(asked).answer(asked["ranges"], refusal(after_seconds=after_seconds))
        elif command is TinyqCommand.AUTHENTICATE:
            raise InvalidInput("a connection says once who it is; open another")
        else:
            await self._connection.administer(command, _name(asked))
        return encode(DONE, request=asked["request"], count=count)

    async def _publish(self, asked: dict[str, Any]) -> bytes:
        if asked["tag"] not in TAGGED:
            raise InvalidInput(f"no payload has the tag {asked['tag']}")
        payload, door = asked["payload"], self._connection.door
        if asked["packed"]:  # few bytes may unpack to many
            payload = await door.in_thread(partial(unpack, asked["packed"], payload, door.tinyq.max_body_bytes))
        record = RecordWanted(payload, asked["type"], asked["key"], TAGGED[asked["tag"]])
        token = None if asked["token"] == NO_TOKEN else asked["token"]
        partition, offset = await self._connection.publish(_name(asked), record, token)
        return encode(messages.PUBLISHED, request=asked["request"], partition=partition, offset=offset)

    async def _subscribe(self, asked: dict[str, Any]) -> None:
        connection, number, door = self._connection, asked["request"], self._connection.door
        if number in self._subscriptions:
            raise InvalidInput(f"{number} is a subscription already")

        async def send(record: Record) -> None:
            if self._codec and len(record.data or b"") > SMALL_BYTES:
                data = await door.in_thread(partial(self._message, number, record))
            else:
                data = self._message(number, record)
            await connection.send(encode_answer(TinyqCode.MESSAGE, data))

        seconds = asked["lease_ms"] / 1000 or door.settings.lease.total_seconds()
        name, group, credits = _name(asked), asked["group"], asked["credits"]
        subscription = await connection.subscribe(name, send, group=group, credits=credits, seconds=seconds)
        if subscription is not None:
            self._subscriptions[number] = subscription

    def _message(self, number: int, record: Record) -> bytes:
        packed, payload = pack(self._codec, record.data or b"")
        token = dict(record.raw_headers).get(TOKEN) or NO_TOKEN
        return encode(
            messages.MESSAGE,
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


def _name(asked: dict[str, Any]) -> str:
    if asked["topic"] is None:
        raise InvalidInput("the topic is missing")
    return str(asked["topic"])


def tag_of(record: Record) -> int:
    """Return the tag of a record's content type."""
    content_type = record.headers.get(CONTENT_TYPE) or JSON
    if is_json(content_type):
        return AS_JSON
    return PROTOBUF if "protobuf" in content_type else RAW


def codecs() -> int:
    """Return the available codecs, as bits."""
    return 0 if cramjam is None else SNAPPY | ZSTD


def pack(codec: int, payload: bytes) -> tuple[int, bytes]:
    """Pack a payload if that makes it smaller; return the codec used, and the payload."""
    if not codec or len(payload) < _WORTH_BYTES:
        return 0, payload
    module = cramjam.snappy.compress_raw if codec == SNAPPY else cramjam.zstd.compress
    packed = bytes(module(payload))
    return (codec, packed) if len(packed) < len(payload) else (0, payload)


def unpack(codec: int, payload: bytes, limit: int) -> bytes:
    """Unpack a payload. Raises UnsupportedBody, BodyTooLarge, InvalidInput."""
    if not codec:
        return payload
    if not codec & codecs():
        raise UnsupportedBody("codec", str(codec), "one that was agreed on")
    try:
        if codec == SNAPPY:
            if cramjam.snappy.decompress_raw_len(payload) > limit:
                raise BodyTooLarge(limit)
            return bytes(cramjam.snappy.decompress_raw(payload))
        return _zstd(payload, limit)
    except (cramjam.DecompressionError, ValueError, OverflowError) as exc:
        raise InvalidInput(f"the payload cannot be unpacked: {exc}") from exc


def _zstd(payload: bytes, limit: int) -> bytes:
    """Unpack into a buffer of bounded size, then into a larger one if that is too small."""
    size = min(max(len(payload) * _RATIO, _LEAST), limit)
    while True:
        out = bytearray(size)
        try:
            return bytes(memoryview(out)[: cramjam.zstd.decompress_into(payload, out)])
        except cramjam.DecompressionError as exc:
            if "whole buffer" not in str(exc):
                raise
            if size >= limit:
                raise BodyTooLarge(limit) from exc
            size = min(size * 4, limit)
