"""Broadcasts: a connection receives every record of a topic as it comes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from penstock.access.principal import Principal
from penstock.access.resource import AccessRight
from penstock.model.record import Record
from penstock.operate.tail import LATEST, StoreTail, some

from ..subscription import SendRecords
from .door import TinyqDoor

SendRecord = Callable[[Record], Awaitable[None]]
_LOOK_SECONDS = 0.1
_AT_ONCE, _ABOUT_BYTES = 100, 1 << 20  # read together


async def broadcast(door: TinyqDoor, principal: Principal, tail: StoreTail, name: str, send: SendRecord) -> None:
    """Send every record of a topic from now on; the position belongs to this connection."""
    while True:
        door.check(principal, AccessRight.READ, name)
        records: Iterator[Record] = iter(tail.records())
        while found := await door.in_thread(lambda: some(records, _AT_ONCE, _ABOUT_BYTES)):  # noqa: B023
            for each in found:
                door.check(principal, AccessRight.READ, name)  # a slow client takes its time
                await send(each)
            values = [each.data for each in found]
            await asyncio.sleep(door.access.charge_records(principal, name, values))
        await asyncio.sleep(_LOOK_SECONDS)


async def opened_tail(door: TinyqDoor, name: str) -> StoreTail:
    """Return a tail that begins at the topic's current end."""
    return await door.in_thread(lambda: StoreTail(door.store, name, LATEST))


def one_by_one(send: SendRecord, check: Callable[[], None]) -> SendRecords:
    """Return a function that sends records, a frame for each, while the client may read them."""

    async def send_all(records: Sequence[Record]) -> None:
        for each in records:
            check()  # a slow client takes its time
            await send(each)

    return send_all
