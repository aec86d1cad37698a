"""A group whose handlers are clients over a connection: each record is a call that waits for its client.

A worker serves the group like any other: cursors, order per key, retries, dead letters and sharing with other
processes are the worker's. Its one handler puts a record where the next client finds it, and ends when that
client answers or its lease lapses. So no state here outlives the process, and none needs to: records that
were handed out and not settled are delivered again by the group's next owner.

| a client's answer            | outcome of its call | the record                                   |
|------------------------------|---------------------|----------------------------------------------|
| ack                          | `Done`              | is done                                      |
| nack                         | raises              | waits with its key, by the retry policy      |
| nack, after a time           | `Retry(after)`      | waits with its key, for that time            |
| nack, dead                   | `Cancel(reason)`    | is a dead letter, and its key goes on        |
| none, until the lease lapses | `Snooze(now)`       | comes again, marked; no attempt is counted   |

All of it runs in one event loop; only `settled` is called by the worker's thread.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

from penstock.clock import Clock
from penstock.errors import InvalidInput, NotSettled, UnknownLease
from penstock.log.store import Store
from penstock.model.outcome import Cancel, Done, Outcome, Retry, Snooze
from penstock.model.record import Record
from penstock.worker.handler_options import HandlerOptions, Start
from penstock.worker.handlers import Handlers
from penstock.worker.worker import Worker

from .settings import GatewaySettings

HeldPlace = tuple[int, int]
_LINGER_SECONDS = 10.0


class Nacked(Exception):
    """A client could not handle a record; its message is kept as the reason."""


@dataclass(eq=False, slots=True)
class HeldRecord:
    """A record that waits for a client, or for its client's answer."""

    record: Record
    place: HeldPlace
    answer: "asyncio.Future[Outcome]"
    settled: "asyncio.Future[None]"


@dataclass(eq=False, slots=True)
class Lease:
    """Some records in the hands of one client, for a while; `held` are the records it was given."""

    id: str
    held: dict[HeldPlace, HeldRecord] = field(default_factory=dict)
    seconds: float = 0.0
    timer: asyncio.TimerHandle | None = None

    @property
    def records(self) -> list[Record]:
        """The records it holds, in the order in which it was given them."""
        return [each.record for each in self.held.values()]

    @property
    def unanswered(self) -> list[HeldRecord]:
        """The records that its client has not answered yet."""
        return [each for each in self.held.values() if not each.answer.done()]


class LeasedGroup:
    """One group on one topic, for clients of this process. In the event loop that created it."""

    def __init__(
        self, store: Store, clock: Clock, settings: GatewaySettings, group: str, topic: str, start: Start
    ) -> None:
        self.group, self.topic = group, topic
        self._loop, self._settings = asyncio.get_running_loop(), settings
        self._ready: deque[HeldRecord] = deque()
        self._out: dict[HeldPlace, HeldRecord] = {}  # answered, and not settled yet
        self._leases: dict[str, Lease] = {}
        self._waiters: set[asyncio.Future[None]] = set()
        self.asked_at = self._loop.time()
        handlers, most, id = Handlers(), settings.leased_records, f"gateway:{group}"
        options = HandlerOptions(group=group, id=id, topic=topic, start=start, timeout=None, concurrency=most)
        handlers.add(self._hand_out, options)
        self.worker = Worker(store, handlers, clock, settled=self._tell_settled)
        self.worker.use_loop(self._loop)

    @property
    def is_idle(self) -> bool:
        """Whether no client has asked for a while, and none holds a record."""
        quiet = self._loop.time() - self.asked_at >= self._settings.group_idle.total_seconds()
        return quiet and not self._waiters and not any(each.unanswered for each in self._leases.values())

    async def ready(self, wait: float) -> None:
        """Wait until there is a record to take, at most `wait` seconds."""
        until = self._loop.time() + wait
        while not self._ready and (left := until - self._loop.time()) > 0:
            await self._woken(left)

    def take(self, credits: int, *, max_bytes: int, seconds: float) -> Lease:
        """Lease up to `credits` of the ready records to a client, of about `max_bytes`."""
        self.asked_at = self._loop.time()
        lease, size = Lease(uuid4().hex), 0
        while self._ready and len(lease.held) < credits and (not lease.held or size < max_bytes):
            held = self._ready.popleft()
            size += len(held.record.data or b"")
            lease.held[held.place] = held
        if lease.held:
            self._leases[lease.id] = lease
            self._extend(lease, seconds)
        return lease

    def find(self, id: str) -> Lease:
        """Return a lease. Raises UnknownLease."""
        self.asked_at = self._loop.time()
        try:
            return self._leases[id]
        except KeyError:
            raise UnknownLease(id) from None

    def extend(self, id: str, seconds: float) -> Lease:
        """Let a lease last `seconds` from now. Raises UnknownLease."""
        lease = self.find(id)
        self._extend(lease, seconds)
        return lease

    async def answer(self, held: Iterable[HeldRecord], outcome: Outcome | Nacked) -> int:
        """Answer records; return how many of them had no answer yet, once it is settled.

        Raises NotSettled; nothing is undone then, and repeating the answer waits again.
        """
        count, waiting = 0, []
        for each in held:
            count += self._answer(each, outcome)
            if not each.settled.done():
                waiting.append(each.settled)
        if waiting:
            _, left = await asyncio.wait(waiting, timeout=self._settings.settle_wait.total_seconds())
            if left:
                raise NotSettled(self.group, len(left))
        return count

    def end(self, lease: Lease) -> None:
        """Forget a lease that its client has answered entirely and will not use again."""
        self._leases.pop(lease.id, None)
        if lease.timer is not None:
            lease.timer.cancel()

    def linger(self, lease: Lease) -> None:
        """Keep a fully answered lease for a moment: its client may repeat an answer."""
        if not lease.unanswered:
            self._extend(lease, min(lease.seconds, _LINGER_SECONDS))

    def hand_back(self, held: Iterable[HeldRecord]) -> None:
        """Deliver records again at once: their client is gone."""
        for each in held:
            self._answer(each, Snooze(timedelta()))

    def stop(self) -> None:
        """Stop serving the group: records that clients hold come again; from any thread but the loop's."""
        self.worker.stop(0.0)

    def _answer(self, held: HeldRecord, outcome: Outcome | Nacked) -> bool:
        if held.answer.done():
            return False
        self._out[held.place] = held
        if isinstance(outcome, Nacked):
            held.answer.set_exception(outcome)
        else:
            held.answer.set_result(outcome)
        return True

    async def _hand_out(self, record: Record) -> Outcome:
        assert record.partition is not None
        assert record.offset is not None
        place = (record.partition, record.offset)
        held = HeldRecord(record, place, self._loop.create_future(), self._loop.create_future())
        self._ready.append(held)
        self._wake_one()
        try:
            return await held.answer
        except asyncio.CancelledError:
            held.answer.cancel()
            if held in self._ready:
                self._ready.remove(held)
            raise

    async def _woken(self, seconds: float) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait([waiter], timeout=seconds)
        finally:
            self._waiters.discard(waiter)
            if waiter.done() and self._waiters:  # the waiter may have gone meanwhile: wake another
                self._loop.call_soon(self._wake_one)

    def _wake_one(self) -> None:
        waiting = next((each for each in self._waiters if not each.done()), None)
        if self._ready and waiting is not None:
            waiting.set_result(None)

    def _extend(self, lease: Lease, seconds: float) -> None:
        if lease.timer is not None:
            lease.timer.cancel()
        lease.seconds = seconds
        lease.timer = self._loop.call_later(seconds, self._lapse, lease)

    def _lapse(self, lease: Lease) -> None:
        self._leases.pop(lease.id, None)
        self.hand_back(lease.unanswered)

    def _tell_settled(self, partition: int, offsets: list[int]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settled, partition, offsets)

    def _settled(self, partition: int, offsets: list[int]) -> None:
        for offset in offsets:
            held = self._out.pop((partition, offset), None)
            if held is not None and not held.settled.done():
                held.settled.set_result(None)


DONE = Done()
NO_REASON = "refused by its client"


def refusal(reason: str = "", after_seconds: float | None = None, *, dead: bool = False) -> Outcome | Nacked:
    """Return the outcome of a record that its client could not handle."""
    reason = reason.strip()[:1000] or NO_REASON
    if dead:
        return Cancel(reason)
    return Nacked(reason) if after_seconds is None else Retry(timedelta(seconds=after_seconds))


def held_within(
    held: Mapping[HeldPlace, HeldRecord], ranges: Iterable[tuple[int, int, int]], nothing: str
) -> list[HeldRecord]:
    """Return the records in ranges (partition, first, last), each once.

    Raises InvalidInput with the words `nothing`, which name the range, if one is empty.
    """
    places, done = sorted(held), 0
    found: list[HeldRecord] = []
    for partition, first, last in sorted(ranges):
        low, high = bisect_left(places, (partition, first)), bisect_right(places, (partition, last))
        if low >= high:
            raise InvalidInput(nothing.format(partition, first, last))
        found += [held[place] for place in places[max(low, done) : high]]
        done = max(done, high)
    return found
