"""Reading from an offset, and consuming as a group over one bidirectional stream."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from penstock.access.places import ByteShare, holder_of
from penstock.access.resource import AccessRight, topic
from penstock.errors import Error, InvalidInput
from penstock.log.contract import LAST_OFFSET
from penstock.model.outcome import Outcome
from penstock.model.record import Record

from ..lease import DONE, Nacked, refusal
from ..subscription import GroupSubscription
from .door import GrpcCall
from .messages import ReadResponse, SubscribeResponse, record_shown
from .methods import Send
from .problems import plain

_READ_RECORDS, _READ_BYTES, _MOST_RECORDS = 100, 1 << 20, 1000
_ANSWER_BYTES = 1 << 20  # of records in one answer: clients take 4 MiB by default
_SETTLING = 64  # acknowledgements of one stream that wait to be settled
_DAY_SECONDS = 86_400.0


async def read(call: GrpcCall, request: Any) -> Any:
    """Return records of a partition from an offset on; fewer than requested if they are large."""
    call.allow(AccessRight.READ, topic(request.topic))
    if not 0 <= request.offset <= LAST_OFFSET or request.limit > _MOST_RECORDS or request.partition < 0:
        raise InvalidInput(
            f"offset {request.offset}, partition {request.partition}, limit {request.limit}: an offset and a "
            f"partition are 0 or more, and a limit is {_MOST_RECORDS} or less"
        )
    call.admit(request.topic, request.ByteSize())
    call.door.conversion.check(request.convert_to)
    limit = request.limit or _READ_RECORDS
    most = min(request.max_bytes or _READ_BYTES, call.door.settings.answer_bytes)
    found = await call.asked(call.read, request.topic, request.partition, request.offset, limit, most)
    shown = await call.asked(_shown, call, found.records, request.convert_to)
    return ReadResponse(records=shown, next_offset=found.following, start=found.start, end=found.end)


async def subscribe(call: GrpcCall, requests: AsyncIterator[Any], send: Send) -> None:
    """Send records of a group to a client and settle its answers, until either side ends."""
    try:
        async with asyncio.timeout(call.door.settings.body_time.total_seconds()):
            first = await anext(requests)
    except (StopAsyncIteration, TimeoutError):
        raise InvalidInput("a subscription begins with `begin`, and nothing came") from None
    if not first.HasField("begin"):
        raise InvalidInput(f"a subscription begins with `begin`, not with {first.WhichOneof('request')}")
    stream = _GroupStream(call, first.begin, send)
    running = asyncio.create_task(stream.subscription.run(stream.send))
    hearing = asyncio.create_task(stream.hear(requests))
    try:
        done, _ = await asyncio.wait({running, hearing}, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        running.cancel()
        hearing.cancel()
        for each in (running, hearing):
            with suppress(asyncio.CancelledError, Exception):  # the first of these errors is raised above
                await each


def _shown(call: GrpcCall, records: Sequence[Record], convert_to: str, *, delivered: bool = False) -> list[Any]:
    shown = []
    for each in records:
        given, reason = call.door.conversion.given(each, convert_to)
        shown.append(record_shown(given, delivered=delivered, not_converted=reason))
    return shown


class _GroupStream:
    def __init__(self, call: GrpcCall, begin: Any, send: Send) -> None:
        settings = call.door.settings
        seconds = begin.lease_seconds or settings.lease.total_seconds()
        if not 0 < seconds <= _DAY_SECONDS:
            raise InvalidInput(f"lease_seconds is {seconds:g}, and must be more than 0, at most 86400")
        self._call, self._convert_to = call, call.door.conversion.check(begin.convert_to)
        self._send, self._writing = send, asyncio.Lock()  # a stream takes one message at a time
        self._room = asyncio.Semaphore(_SETTLING)
        self._share = ByteShare(call.door.bodies, holder_of(call.principal))
        self.subscription = GroupSubscription(
            call.door,
            call.principal,
            group=begin.group,
            topic=begin.topic,
            credits=begin.credits,
            seconds=min(seconds, settings.lease_longest.total_seconds()),
            start="latest" if begin.from_latest else "earliest",
        )
        self.subscription.check()
        call.admit(begin.topic, begin.ByteSize())

    async def send(self, records: Sequence[Record]) -> None:
        """Send records, in messages small enough for clients."""
        for some in _pieces(records):
            show = partial(_shown, self._call, some, self._convert_to, delivered=True)
            shown = await self._call.asked(show) if self._convert_to else show()  # conversion may ask the store
            async with self._writing:
                await self._send(SubscribeResponse(records={"records": shown}))

    async def hear(self, requests: AsyncIterator[Any]) -> None:
        """Carry out the client's requests until it has sent all and all are done."""
        settling: dict[asyncio.Task[None], int] = {}  # with the bytes of each that are in hand
        try:
            async for each in requests:
                kind = each.WhichOneof("request")
                if kind == "credits":
                    self.subscription.add(each.credits.credits)
                elif kind in ("ack", "nack"):
                    await self._room.acquire()
                    size = each.ByteSize()
                    await self._share.wait(size)
                    task = asyncio.create_task(self._settle(getattr(each, kind), kind))
                    settling[task] = size
                    task.add_done_callback(partial(self._ended, settling))
                else:
                    raise InvalidInput(f"a subscription goes on with credits, ack or nack, not with {kind}")
            while settling:
                await asyncio.wait(settling)
        finally:
            for task in settling:
                task.cancel()

    async def _settle(self, answer: Any, kind: str) -> None:
        try:
            ranges = [(each.partition, each.first, each.last) for each in answer.ranges]
            count = await self.subscription.answer(ranges, DONE if kind == "ack" else _outcome(answer))
            settled = {"id": answer.id, "count": count}
        except Error as exc:
            settled = {"id": answer.id, "code": exc.code, "detail": plain(str(exc))}
        finally:
            self._room.release()
        async with self._writing:
            await self._send(SubscribeResponse(settled=settled))

    def _ended(self, settling: dict[asyncio.Task[None], int], task: asyncio.Task[None]) -> None:
        self._share.give_back(settling.pop(task))
        if not task.cancelled():
            task.exception()  # the answer could not be sent: the client has gone, and the stream ends anyway


def _outcome(answer: Any) -> Outcome | Nacked:
    after_seconds = answer.after_seconds if answer.HasField("after_seconds") and not answer.dead else None
    if after_seconds is not None and not 0 <= after_seconds <= _DAY_SECONDS:
        raise InvalidInput(f"after_seconds is {after_seconds:g}, and must be from 0 to 86400")
    return refusal(answer.reason, after_seconds, dead=answer.dead)


def _pieces(records: Sequence[Record]) -> Iterator[list[Record]]:
    piece: list[Record] = []
    size = 0
    for each in records:
        bytes_of = len(each.data or b"") + sum(len(value or b"") for _, value in each.raw_headers)
        if piece and size + bytes_of > _ANSWER_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(each)
        size += bytes_of
    if piece:
        yield piece


CONSUMING = {"Subscribe": subscribe, "Read": read}
