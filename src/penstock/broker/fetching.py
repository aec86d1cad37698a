"""Fetch: records from the log, or a wait until there are some.

A fetch that finds too little waits in memory. The log says which partitions have grown; only those are
looked at again, and where a partition is known to end is remembered, so that a poll at the end of many
partitions asks the store nothing.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import groupby
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import Error, OffsetOutOfRange
from penstock.log.contract import Topic
from penstock.wire.kafka.error_numbers import ErrorNumber
from penstock.wire.kafka.hot import FetchedPart, Wanted, WantedPart, decode_fetch, encode_fetched

from . import access
from .access import AccessRight
from .error_codes import number_of
from .session import Slot

if TYPE_CHECKING:
    from .broker import Broker

LEADER_EPOCH = 0
Key = tuple[int, int]


class _AtEnd(NamedTuple):
    """Where a partition ended at the last look, and began."""

    end: int
    start: int


class KnownEnds:
    """Which partitions are known to hold nothing beyond an offset. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[Key, _AtEnd] = {}
        self._moves: dict[Key, int] = {}

    def moved(self, key: Key) -> None:
        """Forget where a partition ends: it has grown."""
        with self._lock:
            self._moves[key] = self._moves.get(key, 0) + 1
            self._known.pop(key, None)

    def forget(self) -> None:
        """Forget all: topics have changed."""
        with self._lock:
            self._known.clear()

    def at(self, key: Key, offset: int) -> _AtEnd | None:
        """Return the bounds of a partition if it is known to end at an offset."""
        known = self._known.get(key)
        return known if known is not None and known.end == offset else None

    def moves(self, key: Key) -> int:
        """Return how often a partition has grown; ask before a look."""
        return self._moves.get(key, 0)

    def found(self, key: Key, moves: int, end: int, start: int) -> None:
        """Note what a look found, unless the partition has grown since."""
        with self._lock:
            if self._moves.get(key, 0) == moves:
                self._known[key] = _AtEnd(end, start)


class Waiters:
    """Fetches that wait, by the partitions they wait for. Lives in the loop's thread."""

    def __init__(self) -> None:
        self._by_key: dict[Key, set[asyncio.Event]] = {}

    def wake(self, key: Key) -> None:
        """Wake those who wait for a partition."""
        for each in self._by_key.get(key, ()):
            each.set()

    def wake_all(self) -> None:
        """Wake everybody."""
        for waiting in self._by_key.values():
            for each in waiting:
                each.set()

    def add(self, keys: Iterable[Key]) -> asyncio.Event:
        """Return what is set when one of the partitions grows."""
        event = asyncio.Event()
        for key in keys:
            self._by_key.setdefault(key, set()).add(event)
        return event

    def remove(self, keys: Iterable[Key], event: asyncio.Event) -> None:
        """Wait no more."""
        for key in keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.discard(event)
                if not waiting:
                    del self._by_key[key]


class Fetching:
    """Answers Fetch."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.ends, self.waiters = KnownEnds(), Waiters()

    def moved(self, topic_id: int, partition: int) -> None:
        """Take note, from any thread, that a partition has grown."""
        self.ends.moved((topic_id, partition))
        self._broker.call_soon(self.waiters.wake, (topic_id, partition))

    def begin(self, slot: Slot) -> None:
        """Answer a request, at once or later. Raises InvalidRequest."""
        request = slot.request
        wanted = decode_fetch(request.data, request.version, request.at)
        if wanted.session_id or wanted.session_epoch > 0:
            pieces = encode_fetched((), request.version, error=int(ErrorNumber.FETCH_SESSION_ID_NOT_FOUND))
            slot.fill(pieces)
            return
        self._broker.spawn(slot, self._answer(slot, wanted))

    async def _answer(self, slot: Slot, wanted: Wanted) -> None:
        broker, request = self._broker, slot.request
        clock, settings = broker.clock, broker.settings
        longest = settings.fetch_wait.total_seconds()
        deadline = clock.monotonic() + min(max(wanted.max_wait_ms, 0) / 1000, longest)
        principal = slot.session.principal
        may = [
            broker.rules.allowed(principal, AccessRight.READ, access.topic(each.topic))
            for each in wanted.parts
        ]
        keys = self._keys(wanted.parts)
        event = self.waiters.add(keys)
        try:
            while True:
                event.clear()
                parts = await self._collect(wanted, may)
                size = sum(len(piece) for part in parts for piece in part.pieces)
                left = deadline - clock.monotonic()
                is_over = left <= 0 or broker.is_stopping or slot.session.is_closed
                if size >= wanted.min_bytes or is_over or any(part.error for part in parts):
                    break
                try:
                    await asyncio.wait_for(event.wait(), left)
                except TimeoutError:
                    continue
        finally:
            self.waiters.remove(keys, event)
        throttle_ms = broker.fetch_quota.charge(request.client_id, size)
        topics = ((name, list(some)) for name, some in groupby(parts, key=lambda part: part.topic))
        slot.fill(encode_fetched(topics, request.version, throttle_ms=throttle_ms), throttle_ms)

    def _keys(self, parts: Sequence[WantedPart]) -> list[Key]:
        topics = self._broker.topics.by_name
        return [
            (topic.id, part.partition)
            for part in parts
            if (topic := topics.get(part.topic)) is not None and 0 <= part.partition < topic.partitions
        ]

    async def _collect(self, wanted: Wanted, may: Sequence[bool]) -> list[FetchedPart]:
        """Look at every partition: in memory where that says it is at its end, else in the store."""
        found: list[FetchedPart | None] = [
            self._known(part, wanted.committed) if allowed else _refused(part)
            for part, allowed in zip(wanted.parts, may, strict=True)
        ]
        missing = [place for place, each in enumerate(found) if each is None]
        if missing:
            looked = await self._broker.run(lambda: self._look(wanted, [wanted.parts[at] for at in missing]))
            for place, each in zip(missing, looked, strict=True):
                found[place] = each
        return [each for each in found if each is not None]

    def _known(self, part: WantedPart, committed: bool) -> FetchedPart | None:
        topic = self._broker.topics.by_name.get(part.topic)
        if topic is None or not 0 <= part.partition < topic.partitions:
            self._broker.look_for_topics()
            return FetchedPart(part.topic, part.partition, int(ErrorNumber.UNKNOWN_TOPIC_OR_PARTITION))
        if part.leader_epoch > LEADER_EPOCH:
            return FetchedPart(part.topic, part.partition, int(ErrorNumber.UNKNOWN_LEADER_EPOCH))
        known = self.ends.at((topic.id, part.partition), part.offset)
        if known is None:
            return None
        aborted = () if committed else None
        return FetchedPart(part.topic, part.partition, 0, known.end, known.end, known.start, aborted)

    def _look(self, wanted: Wanted, parts: Sequence[WantedPart]) -> list[FetchedPart]:
        """Read some partitions, until there are bytes enough. In a thread of the pool."""
        left = min(max(wanted.max_bytes, 1), self._broker.settings.fetch_bytes)
        found = []
        for part in parts:
            if left <= 0:  # it is not said to be at its end
                found.append(FetchedPart(part.topic, part.partition, 0, part.offset + 1, part.offset + 1))
                continue
            topic = self._broker.topics.by_name.get(part.topic)
            each = self._read(topic, part, min(left, max(part.max_bytes, 1)), wanted.committed)
            left -= sum(len(piece) for piece in each.pieces)
            found.append(each)
        return found

    def _read(self, topic: Topic | None, part: WantedPart, max_bytes: int, committed: bool) -> FetchedPart:
        if topic is None:
            return FetchedPart(part.topic, part.partition, int(ErrorNumber.UNKNOWN_TOPIC_OR_PARTITION))
        key = (topic.id, part.partition)
        moves = self.ends.moves(key)
        try:
            fetched = self._broker.batches.fetch(
                topic, part.partition, part.offset, max_bytes=max_bytes, committed=committed
            )
        except OffsetOutOfRange as exc:
            number = int(number_of(exc))
            return FetchedPart(part.topic, part.partition, number, -1, -1, -1)
        except Error as exc:
            return FetchedPart(part.topic, part.partition, int(number_of(exc)))
        if not fetched.pieces and part.offset == fetched.end == fetched.stable:
            self.ends.found(key, moves, fetched.end, fetched.start)
        aborted = list(fetched.aborted) if committed else None
        return FetchedPart(
            part.topic,
            part.partition,
            0,
            fetched.end,
            fetched.stable,
            fetched.start,
            aborted,
            fetched.pieces,
        )


def _refused(part: WantedPart) -> FetchedPart:
    return FetchedPart(part.topic, part.partition, int(ErrorNumber.TOPIC_AUTHORIZATION_FAILED))
