"""Records as JSON; and answers on their way to clients, which count in the door's budget if they are large.

A client that asks for much and reads nothing keeps its answer in memory. So a large answer counts from the
read until the client has taken all but the last piece. While more than half of the budget is used, a client
that takes nothing of its answer for some seconds is disconnected.
"""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain
from typing import Any

import msgspec
from starlette.responses import Response

from penstock.access.places import ByteShare
from penstock.clock import from_ms
from penstock.model.content import CONTENT_TYPE, JSON, has_json, is_json
from penstock.model.record import Record

from .operations import RestAnswer
from .problems import SAFE, encoded

logger = logging.getLogger("penstock.gateway")
PIECE_BYTES = 64 * 1024  # sent at a time; a smaller answer is not counted
TAKE_SECONDS = 10.0  # for a client to take a piece, while room is short
_SAFE_HEAD = [(name.encode(), value.encode()) for name, value in SAFE.items()]
_SAFE_HEAD.append((b"content-type", b"application/json"))


class HeaderShown(msgspec.Struct, omit_defaults=True):
    """One header of a record: its value as text, or as base64 if it is not text; neither for a null."""

    name: str
    value: str | None = None
    value_base64: str | None = None


class RecordShown(msgspec.Struct, omit_defaults=True):
    """A record. `value` is its JSON, `value_base64` other bytes; neither for a tombstone.

    `key_base64`: a key that is not text. `not_converted`: why the value is as stored, and not in the content
    type that was asked for. `attempt` and `redelivered` only in a delivery to a group.
    """

    topic: str
    partition: int
    offset: int
    id: str
    timestamp: str
    type: str | None = None
    key: str | None = None
    key_base64: str | None = None
    content_type: str | None = None
    headers: list[HeaderShown] = []
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    value_base64: str | None = None
    attempt: int | None = None
    redelivered: bool | None = None
    not_converted: str | None = None


def record_shown(record: Record, *, delivered: bool = False, not_converted: str = "") -> RecordShown:
    """Return a record in the shape of answers; `delivered`: with its attempts."""
    assert record.topic is not None
    assert record.partition is not None
    assert record.offset is not None
    time = from_ms(record.timestamp_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    shown = RecordShown(record.topic, record.partition, record.offset, record.id, time, record.type)
    key = (record.key or "").encode("utf-8", "surrogateescape")
    if _is_text(key):
        shown.key = record.key
    else:
        shown.key_base64 = _base64(key)
    content_type = record.headers.get(CONTENT_TYPE) or JSON
    if record.data is not None:
        shown.content_type = content_type
        if is_json(content_type) and has_json(record.data):
            shown.value = msgspec.Raw(record.data)
        else:
            shown.value_base64 = _base64(record.data)
    shown.headers = [_header(name, value) for name, value in record.raw_headers]
    shown.not_converted = not_converted or None
    if delivered:
        shown.attempt, shown.redelivered = record.attempt, record.redelivered
    return shown


def _header(name: str, value: bytes | None) -> HeaderShown:
    if value is None or _is_text(value):
        return HeaderShown(name, None if value is None else value.decode())
    return HeaderShown(name, value_base64=_base64(value))


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


class AnswerShare(ByteShare):
    """The bytes of one request's answer. `is_kept`: it is being sent, which gives them back."""

    __slots__ = ("is_kept",)
    is_kept: bool

    def ask(self, most: int) -> int:
        """Return how many bytes to read for the answer, `most` at most. Raises GatewayBusy."""
        if self._budget.used >= self._budget.most:
            raise self._budget.refusal()
        return self._budget.share(most)

    def keep(self, size: int, *, may_refuse: bool) -> None:
        """Count a finished answer until it is sent.

        Raises GatewayBusy if it may: not after a request that changed something, which would be repeated.
        """
        # There was room for the records that were read; that JSON is larger is not the client's fault.
        if self._size or not may_refuse:
            self.count(size)
        else:
            self.admit(size)
        self.is_kept = True

    def __enter__(self) -> "AnswerShare":
        self.is_kept = False
        return self

    def __exit__(self, *error: object) -> None:
        if not self.is_kept:
            super().__exit__(*error)

    async def send(self, send: Callable[[Any], Awaitable[None]], head: Any, body: bytes) -> None:
        """Send an answer piece by piece, each after the client took the ones before; then give the room back.

        If the client takes nothing while room is short, the rest is not sent: the connection ends.
        """
        try:
            for message in chain([head], _pieces(body)):
                if not await self._sent(asyncio.ensure_future(send(message))):
                    logger.warning("a connection is ended: its client takes no answer, and there is no room")
                    return
        finally:
            self.give_back()

    async def _sent(self, sending: "asyncio.Future[None]") -> bool:
        try:
            while not (await asyncio.wait([sending], timeout=TAKE_SECONDS))[0]:
                if self._budget.is_short:
                    return False
            sending.result()
            return True
        finally:
            sending.cancel()


class _JsonResponse(Response):
    """An answer whose head is made without looking at each header: most answers have only these."""

    def __init__(self, body: bytes, status: int, share: AnswerShare | None) -> None:
        """`share`: of a large answer, which is sent as the client takes it."""
        self.status_code, self.body, self.background = status, body, None
        self.raw_headers = [*_SAFE_HEAD, (b"content-length", b"%d" % len(body))]
        self._share = share

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._share is None:
            await super().__call__(scope, receive, send)
            return
        head = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await self._share.send(send, head, bytes(self.body))


def response_of(given: Any, share: AnswerShare, *, may_refuse: bool) -> Response:
    """Return the response for the result of an operation. Raises GatewayBusy if it may."""
    answer = given if isinstance(given, RestAnswer) else RestAnswer(given)
    if answer.status == 204:
        return Response(status_code=204, headers=SAFE | dict(answer.headers))
    body = encoded(answer.value)
    if is_large := len(body) > PIECE_BYTES:
        share.keep(len(body), may_refuse=may_refuse)
    response = _JsonResponse(body, answer.status, share if is_large else None)
    if answer.headers:
        response.headers.update(answer.headers)
    return response


def _pieces(body: bytes) -> Iterator[dict[str, Any]]:
    view = memoryview(body)
    for at in range(0, len(body), PIECE_BYTES):
        piece, end = bytes(view[at : at + PIECE_BYTES]), at + PIECE_BYTES
        yield {"type": "http.response.body", "body": piece, "more_body": end < len(body)}
