"""One client's part in a group over a connection of its own: records go out as it has room for them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from penstock.access.principal import Principal
from penstock.access.resource import AccessRight
from penstock.access.resource import group as group_of
from penstock.access.resource import topic as topic_of
from penstock.errors import InvalidInput
from penstock.model.outcome import Outcome
from penstock.model.record import Record
from penstock.worker.handler_options import Start

from .door import Door
from .lease import DONE, HeldPlace, HeldRecord, Lease, LeasedGroup, Nacked, held_within

SendRecords = Callable[[Sequence[Record]], Awaitable[None]]
MOST_CREDITS = 1000
_WAIT_SECONDS = 1.0  # between checks of the client's right to read
_NOTHING = "nothing of {}/{}-{} is in hand: it is settled, or has lapsed"
_ALL_BYTES = 1 << 40  # the bound is in records


class GroupSubscription:
    """A client never has more records in hand than its credits. The subscription ends with the connection.

    The right to read is checked again and again, and records count for the client's limit. In the old TinyQ
    protocol, which has no acknowledgements, a record is done once it is handed to the socket.
    """

    def __init__(
        self,
        door: Door,
        principal: Principal,
        *,
        group: str,
        topic: str,
        credits: int,
        seconds: float,
        start: Start = "earliest",
    ) -> None:
        self._door, self._principal = door, principal
        self.group, self.topic = group, topic
        self._credits, self._seconds, self._start = min(credits, MOST_CREDITS), seconds, start
        self._in_hand: dict[HeldPlace, HeldRecord] = {}
        self._changed = asyncio.Event()
        self._served: LeasedGroup | None = None

    async def run(self, send: SendRecords, *, settles: bool = False) -> None:
        """Send records until the connection ends; `settles`: a record is done once it is sent."""
        try:
            while True:
                self.check()
                self._changed.clear()
                room = self._credits - len(self._in_hand)
                if room <= 0:
                    with suppress(TimeoutError):  # `wait_for` of Python 3.11 may swallow its task's cancellation
                        async with asyncio.timeout(_WAIT_SECONDS):
                            await self._changed.wait()
                    continue
                get = self._door.groups.get
                self._served = served = await get(self.group, self.topic, self._start, principal=self._principal)
                await served.ready(_WAIT_SECONDS)
                lease = served.take(room, max_bytes=_ALL_BYTES, seconds=self._seconds)
                for held in lease.held.values():
                    self._in_hand[held.place] = held
                    held.answer.add_done_callback(partial(self._left, served, lease, held))
                if lease.held:
                    self.check()  # it may have waited long for them
                    await send(lease.records)
                if settles and lease.held:
                    await served.answer(list(lease.held.values()), DONE)
                values = [each.data for each in lease.records]
                await asyncio.sleep(self._door.access.charge_records(self._principal, self.topic, values))
        finally:
            if self._served is not None:
                self._served.hand_back(list(self._in_hand.values()))

    def check(self) -> None:
        """Check that the client may read. Raises NotAllowed, Unauthenticated."""
        self._door.access.check_still(self._principal, AccessRight.READ, topic_of(self.topic), group_of(self.group))

    def add(self, credits: int) -> None:
        """Set how many records the client may have in hand from now on."""
        self._credits = min(credits, MOST_CREDITS)
        self._changed.set()

    async def answer(self, ranges: Sequence[tuple[int, int, int]], outcome: Outcome | Nacked) -> int:
        """Settle records that the client has in hand. Raises InvalidInput for others, NotSettled."""
        if len(ranges) > MOST_CREDITS:
            raise InvalidInput(f"{len(ranges)} ranges at once; send {MOST_CREDITS} or fewer")
        picked = held_within(self._in_hand, ranges, _NOTHING)
        assert self._served is not None or not picked
        return await self._served.answer(picked, outcome) if self._served else 0

    def _left(self, served: LeasedGroup, lease: Lease, held: HeldRecord, _: object) -> None:
        """Record that a record is no longer in hand: it was answered, or its lease lapsed."""
        if self._in_hand.get(held.place) is held:
            del self._in_hand[held.place]
        if not lease.unanswered:
            served.end(lease)
        self._changed.set()
