"""Publishing: one request, or a stream of them.

Requests of a stream that wait while others are being added are added together: a client that does not wait
for each answer pays one append and one answer for many. Where the log takes records at once nothing would
wait; then the requests of a client that is seen to send ahead are gathered first, for a millisecond at most.
They are added in the order of arrival.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

from penstock.access.places import ByteShare, holder_of
from penstock.access.resource import AccessRight, topic
from penstock.errors import Error, InvalidInput
from penstock.operate.producer import RecordWanted

from ..door import SMALL_BYTES
from .door import GrpcCall
from .messages import Place, PublishResponse, wanted
from .methods import Send

_AHEAD_BYTES = 4 * 1024 * 1024  # of waiting requests of a stream; the client keeps the rest
_GATHERED, _GATHER_SECONDS = 64, 0.001
_FEW = 1000  # records whose offsets the loop itself makes into messages
_TOGETHER = 1000  # records added together, at most, if they came as several requests


async def publish(call: GrpcCall, request: Any) -> Any:
    """Add the records of a request to a topic; answered once they are durable."""
    return await _added(call, request, await _admitted(call, request))


async def publish_stream(call: GrpcCall, requests: AsyncIterator[Any], send: Send) -> None:
    """Add the records of requests, one after another; the first refusal ends the stream."""
    share = ByteShare(call.door.bodies, holder_of(call.principal))
    ahead = _Ahead(share)
    reading = asyncio.create_task(ahead.fill(requests))
    try:
        while run := await ahead.next():
            async for answer in _answers(call, run):
                await send(answer)
            ahead.answered(run)
            if call.store.log.appends_at_once:
                await ahead.gather()
        await reading  # the error that ended the reading ends the stream
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError, Exception):  # raised above, or another error is
            await reading
        share.give_back()


class _Ahead:
    """Requests that have arrived and wait, within bounds of bytes for this stream and for the door."""

    def __init__(self, share: ByteShare) -> None:
        self._share = share
        self._waiting: deque[Any] = deque()
        self._bytes, self._is_over = 0, False
        self._changed = asyncio.Event()

    async def fill(self, requests: AsyncIterator[Any]) -> None:
        """Take requests as they come, until the client ends."""
        try:
            async for each in requests:
                size = each.ByteSize()
                await self._share.wait(size)
                self._waiting.append(each)
                self._bytes += size
                self._changed.set()
                await self._until(lambda: self._bytes < _AHEAD_BYTES)
        finally:
            self._is_over = True
            self._changed.set()

    async def next(self) -> list[Any]:
        """Return the requests to add together next; none at the end."""
        await self._until(lambda: bool(self._waiting) or self._is_over)
        run: list[Any] = []
        count = 0
        while self._waiting and (not run or _joins(run[0], self._waiting[0])) and count < _TOGETHER:
            run.append(self._waiting.popleft())
            count += len(run[-1].events)
            self._bytes -= run[-1].ByteSize()
        self._changed.set()
        return run

    async def gather(self) -> None:
        """Wait a moment for more requests if others came already: a client that awaits answers sends none."""
        if not self._waiting or self._is_over:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_GATHER_SECONDS):
                await self._until(lambda: len(self._waiting) >= _GATHERED or self._is_over)

    def answered(self, run: Sequence[Any]) -> None:
        """Give back the room of answered requests."""
        self._share.give_back(sum(each.ByteSize() for each in run))

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()


def _joins(first: Any, other: Any) -> bool:
    """Return whether two requests may share an append: special options need one of their own."""
    return first.topic == other.topic and not any(
        each.HasField("token") or each.HasField("partition") or each.convert_to for each in (first, other)
    )


async def _answers(call: GrpcCall, run: Sequence[Any]) -> AsyncIterator[Any]:
    """Yield the answers to requests that may share an append; raise the error of the first refused one."""
    admitted: list[list[RecordWanted]] = []
    failure: Error | None = None
    try:
        for each in run:
            admitted.append(await _admitted(call, each))
    except Error as exc:
        failure = exc
    if admitted:
        try:
            yield await _added(call, run[0], [record for each in admitted for record in each], requests=len(admitted))
        except InvalidInput:  # nothing was added, and any of them may be the wrong one
            if len(admitted) == 1:
                raise
            for request, records in zip(run, admitted, strict=False):
                yield await _added(call, request, records)
    if failure is not None:
        raise failure


async def _admitted(call: GrpcCall, request: Any) -> list[RecordWanted]:
    size = request.ByteSize()
    call.allow_still(AccessRight.WRITE, topic(request.topic))
    call.admit(request.topic, size)
    call.door.conversion.check(request.convert_to)
    trace = call.trace

    def records() -> list[RecordWanted]:
        return [wanted(each, trace) for each in request.events]

    return records() if size <= SMALL_BYTES else await call.asked(records)


async def _added(call: GrpcCall, request: Any, records: Sequence[RecordWanted], *, requests: int = 1) -> Any:
    if request.convert_to:
        convert = call.door.conversion.published
        records = await call.asked(lambda: [convert(request.topic, each, request.convert_to) for each in records])
    found = await call.door.add(
        request.topic,
        records,
        partition=request.partition if request.HasField("partition") else None,
        token=request.token if request.HasField("token") else None,
    )

    def shown() -> Any:
        places = [Place(partition=each.partition, offset=each.offset, id=each.id) for each in found]
        return PublishResponse(places=places, requests=requests)

    return shown() if len(found) <= _FEW else await call.asked(shown)


PUBLISHING = {"Publish": publish, "PublishStream": publish_stream}
