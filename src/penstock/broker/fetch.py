"""Fetch: records from the log, or a wait until there are some.

A fetch that finds too little waits in memory. The log reports which partitions have grown; only those are looked at
again, and known ends of partitions are cached, so that a poll at the end of many partitions asks the store nothing.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from threading import Lock
from typing import NamedTuple

from penstock import tracing
from penstock.access import resource
from penstock.access.resource import AccessRight
from penstock.errors import Damaged, Error, OffsetOutOfRange
from penstock.log.contract import Topic
from penstock.wire.kafka.error_numbers import ErrorNumber as E
from penstock.wire.kafka.hot import FetchedPart, Wanted, WantedPart, decode_fetch, encode_fetched
from penstock.wire.kafka.stepwise import CodecSteps

from .core import BrokerCore
from .error_codes import number_of
from .fetch_spans import tell_fetch
from .session import Slot

logger = logging.getLogger("penstock.broker")

LEADER_EPOCH = 0
# Errors of a read that would fail again in a moment: clients that retry at once would do nothing else, and some
# have no back-off of their own. So they answer a fetch only when its time is up.
_LASTING = (E.KAFKA_STORAGE_ERROR, E.CORRUPT_MESSAGE, E.UNKNOWN_SERVER_ERROR)
Key = tuple[int, int]
_STEP_PARTS = 16  # of a request, in one step
_MOST_WOKEN = 32  # fetches that one record wakes in one step of the loop


class _AtEnd(NamedTuple):
    end: int
    start: int


class KnownEnds:
    """The known ends of partitions. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[Key, _AtEnd] = {}
        self._moves: dict[Key, int] = {}

    def moved(self, key: Key) -> None:
        """Forget the end of a partition: it has grown."""
        with self._lock:
            self._moves[key] = self._moves.get(key, 0) + 1
            self._known.pop(key, None)

    def forget(self, topics: Container[int]) -> None:
        """Forget all ends, since topics have changed, and all about topics that are gone."""
        with self._lock:
            self._known.clear()
            for key in [key for key in self._moves if key[0] not in topics]:
                del self._moves[key]

    def at(self, key: Key, offset: int) -> _AtEnd | None:
        """Return the bounds of a partition if it is known to end at an offset."""
        known = self._known.get(key)
        return known if known is not None and known.end == offset else None

    def moves(self, key: Key) -> int:
        """Return how often a partition has grown; read it before a look."""
        return self._moves.get(key, 0)

    def found(self, key: Key, moves: int, end: int, start: int) -> None:
        """Store the result of a look, unless the partition has grown since."""
        with self._lock:
            if self._moves.get(key, 0) == moves:
                self._known[key] = _AtEnd(end, start)


@dataclass(eq=False, slots=True)
class FetchUnderWay:
    """A fetch in progress. Lives in the loop's thread."""

    slot: Slot
    wanted: Wanted
    keys: Sequence[Key]
    deadline: float
    rules: object = None  # the rules by which it may read
    may: Sequence[bool] = ()
    is_looking: bool = True  # it looks, or a thread reads for it
    is_woken: bool = False  # it was woken meanwhile
    is_answered: bool = False
    timer: asyncio.TimerHandle | None = None
    looked_ms: int | None = None  # time of its last look, while spans are recorded


class Waiters:
    """Fetches by the partitions they want. Lives in the loop's thread; `wants` is safe from any."""

    def __init__(self) -> None:
        self._by_key: dict[Key, set[FetchUnderWay]] = {}

    def wants(self, key: Key) -> bool:
        """Return whether a fetch waits for a partition; a fetch that begins later looks for itself."""
        return key in self._by_key

    def of(self, key: Key) -> list[FetchUnderWay]:
        """Return the fetches that wait for a partition."""
        return list(self._by_key.get(key, ()))

    def all(self) -> set[FetchUnderWay]:
        """Return all waiting fetches."""
        return {each for waiting in self._by_key.values() for each in waiting}

    def add(self, fetch: FetchUnderWay) -> CodecSteps[None]:
        """Register a fetch with each of its partitions, so that growth wakes it."""
        for place, key in enumerate(fetch.keys):
            if place % _STEP_PARTS == _STEP_PARTS - 1:
                yield
            self._by_key.setdefault(key, set()).add(fetch)

    def remove(self, fetch: FetchUnderWay) -> None:
        """Remove a fetch."""
        for key in fetch.keys:
            if (waiting := self._by_key.get(key)) is not None:
                waiting.discard(fetch)
                if not waiting:
                    del self._by_key[key]


class FetchHandler:
    """Answers Fetch."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker = broker
        self.ends, self.waiters = KnownEnds(), Waiters()
        broker.refreshes.append(lambda: self.ends.forget(broker.topics.by_id))
        self._damage_told: dict[Key, str] = {}  # by partition: the failure that was logged last

    def moved(self, topic_id: int, partition: int) -> None:
        """Record, from any thread, that a partition has grown."""
        key = topic_id, partition
        self.ends.moved(key)
        if self.waiters.wants(key):
            self._broker.call_soon(self._wake, key)

    def wake_all(self) -> None:
        """Answer every waiting fetch with the records that are there."""
        for each in self.waiters.all():
            self._look_again(each)

    def begin(self, slot: Slot) -> None:
        """Answer a request, at once or later. Raises InvalidRequest."""
        self._broker.work(slot, self._begin(slot))

    def _begin(self, slot: Slot) -> CodecSteps[None]:
        request, broker = slot.request, self._broker
        wanted = yield from decode_fetch(request.data, request.version, request.at)
        if wanted.session_id or wanted.session_epoch > 0:
            slot.fill((yield from encode_fetched((), request.version, error=int(E.FETCH_SESSION_ID_NOT_FOUND))))
            return
        longest = broker.settings.fetch_wait.total_seconds()
        deadline = broker.clock.monotonic() + min(max(wanted.max_wait_ms, 0) / 1000, longest)
        keys = yield from self._keys(wanted.parts)
        fetch = FetchUnderWay(slot, wanted, keys, deadline)
        yield from self.waiters.add(fetch)  # before the first look: later growth wakes it
        yield from self._look(fetch)

    def _wake(self, key: Key) -> None:
        waiting = self.waiters.of(key)
        for each in waiting[:_MOST_WOKEN]:
            self._look_again(each)
        for each in waiting[_MOST_WOKEN:]:  # thousands may wait: each in a step of its own
            self._broker.loop.call_soon(self._look_again, each)

    def _look_again(self, fetch: FetchUnderWay) -> None:
        if fetch.is_looking:
            fetch.is_woken = True
        elif not fetch.is_answered:
            self._broker.slices.begin()
            self._broker.work(fetch.slot, self._look(fetch))

    def _look(self, fetch: FetchUnderWay) -> CodecSteps[None]:
        """Look at every partition; an error without a number ends the connection."""
        fetch.is_looking, fetch.is_woken = True, False
        try:
            yield from self._look_at_all(fetch)
        except Exception as exc:
            self._forget(fetch)
            self._broker.failed(fetch.slot, exc)

    def _look_at_all(self, fetch: FetchUnderWay) -> CodecSteps[None]:
        broker, wanted = self._broker, fetch.wanted
        fetch.looked_ms = broker.clock.now_ms() if tracing.is_on() else None
        if fetch.rules is not broker.access.version:  # a change wakes waiting fetches
            rules = broker.access.version
            fetch.may = yield from self._allowed(fetch.slot, wanted)
            fetch.rules = rules
        left = most = broker.flow.answers.share(min(max(wanted.max_bytes, 1), broker.settings.fetch_bytes))
        found: list[FetchedPart | None] = []
        missing: list[int] = []
        for place, (part, allowed) in enumerate(zip(wanted.parts, fetch.may, strict=True)):
            each = (
                self._at_once(part, wanted.committed, left) if allowed else _failed(part, E.TOPIC_AUTHORIZATION_FAILED)
            )
            found.append(each)
            if each is None:
                missing.append(place)
            elif each.pieces:
                left -= each.size
            if place % _STEP_PARTS == _STEP_PARTS - 1 or (each is not None and each.pieces):
                yield
        if not missing:
            yield from self._settle(fetch, [each for each in found if each is not None])
            return
        broker.flow.answer(most)  # count the bytes before they are read
        read = partial(self._read_all, [wanted.parts[at] for at in missing], left, wanted.committed)

        async def read_missing() -> None:
            try:
                looked = iter(await broker.run(read))
            except BaseException:
                self._forget(fetch)  # and its connection ends
                raise
            finally:
                broker.flow.answer(-most)
            parts = [next(looked) if each is None else each for each in found]
            broker.work(fetch.slot, self._settle(fetch, parts))

        broker.spawn(fetch.slot, read_missing())

    def _settle(self, fetch: FetchUnderWay, parts: Sequence[FetchedPart]) -> CodecSteps[None]:
        """Answer if there is enough, or time is up; else wait."""
        broker, slot, wanted = self._broker, fetch.slot, fetch.wanted
        sizes: Counter[str] = Counter()
        is_told = False
        for place, part in enumerate(parts):
            if place % _STEP_PARTS == _STEP_PARTS - 1:
                yield
            if part.pieces:
                sizes[part.topic] += part.size
            is_told = is_told or (part.error != 0 and part.error not in _LASTING)
        size = sizes.total()
        left = fetch.deadline - broker.clock.monotonic()
        is_over = left <= 0 or broker.is_stopping or slot.session.is_closed
        if size < wanted.min_bytes and not is_over and not is_told:
            fetch.is_looking = False
            if fetch.is_woken:
                broker.loop.call_soon(self._look_again, fetch)
            elif fetch.timer is None:
                fetch.timer = broker.loop.call_later(left, self._over, fetch)
            return
        fetch.is_answered = True
        if fetch.timer is not None:
            fetch.timer.cancel()
        self.waiters.remove(fetch)
        throttle_ms = broker.charge(slot, broker.fetch_quota, size, sizes)
        for topic, given in sizes.items():
            broker.measures.fetched[topic] += given
        topics = ((name, list(some)) for name, some in groupby(parts, key=lambda part: part.topic))
        pieces = yield from encode_fetched(topics, slot.request.version, throttle_ms=throttle_ms)
        slot.fill(pieces, throttle_ms)
        if fetch.looked_ms is not None and size:
            asked = {(each.topic, each.partition): each.offset for each in wanted.parts}
            tell_fetch(parts, asked, since_ms=fetch.looked_ms, client_id=slot.request.client_id)

    def _forget(self, fetch: FetchUnderWay) -> None:
        if fetch.timer is not None:
            fetch.timer.cancel()
        self.waiters.remove(fetch)

    def _over(self, fetch: FetchUnderWay) -> None:
        """Look a last time; the log's clock may differ from the loop's."""
        fetch.timer = None
        self._look_again(fetch)

    def _allowed(self, slot: Slot, wanted: Wanted) -> CodecSteps[list[bool]]:
        principal, access = slot.session.principal, self._broker.access
        may: dict[str, bool] = {}  # one check for each topic
        found = []
        for place, each in enumerate(wanted.parts):
            if place % _STEP_PARTS == _STEP_PARTS - 1:
                yield
            if each.topic not in may:
                may[each.topic] = access.allowed(principal, AccessRight.READ, resource.topic(each.topic))
            found.append(may[each.topic])
        return found

    def _keys(self, parts: Sequence[WantedPart]) -> CodecSteps[list[Key]]:
        found = []
        for place, part in enumerate(parts):
            if place % _STEP_PARTS == _STEP_PARTS - 1:
                yield
            if (topic := self._broker.topics.having(part.topic, part.partition)) is not None:
                found.append((topic.id, part.partition))
        return found

    def _at_once(self, part: WantedPart, committed: bool, max_bytes: int) -> FetchedPart | None:
        """Return the answer for a partition if no wait is needed; None: it has to be read."""
        topic = self._broker.topics.having(part.topic, part.partition)
        if topic is None:
            self._broker.look_for_topics()
            return _failed(part, E.UNKNOWN_TOPIC_OR_PARTITION)
        if part.leader_epoch > LEADER_EPOCH:
            return _failed(part, E.UNKNOWN_LEADER_EPOCH)
        known = self.ends.at((topic.id, part.partition), part.offset)
        if known is None:
            if max_bytes <= 0:
                return _not_at_its_end(part)
            return self._read(topic, part, min(max_bytes, max(part.max_bytes, 1)), committed, at_once=True)
        return FetchedPart(part.topic, part.partition, 0, known.end, known.end, known.start, () if committed else None)

    def _read_all(self, parts: Sequence[WantedPart], left: int, committed: bool) -> list[FetchedPart]:
        """Read some partitions, until there are enough bytes. In a thread of the pool."""
        found = []
        for part in parts:
            topic = self._broker.topics.by_name.get(part.topic)
            if left <= 0:
                each: FetchedPart | None = _not_at_its_end(part)
            elif topic is None:
                each = _failed(part, E.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                each = self._read(topic, part, min(left, max(part.max_bytes, 1)), committed)
            assert each is not None
            left -= each.size
            found.append(each)
        return found

    def _tell(self, topic: Topic, partition: int, damage: Damaged) -> None:
        """Log damage that a client meets, once: clients retry again and again, and most report nothing."""
        key, words = (topic.id, partition), str(damage)
        self._broker.call_soon(self._broker.measures.damaged, topic.name)
        if self._damage_told.get(key) != words:
            self._damage_told[key] = words
            logger.error("%s", words)

    def _read(
        self, topic: Topic, part: WantedPart, max_bytes: int, committed: bool, *, at_once: bool = False
    ) -> FetchedPart | None:
        """Read a partition; None if that needs a wait and `at_once` forbids it."""
        key = (topic.id, part.partition)
        moves = self.ends.moves(key)
        try:
            batches = self._broker.batches
            fetch = batches.fetch_at_once if at_once else batches.fetch
            fetched = fetch(topic, part.partition, part.offset, max_bytes=max_bytes, committed=committed)
        except OffsetOutOfRange as exc:
            return FetchedPart(part.topic, part.partition, int(number_of(exc)), -1, -1, -1)
        except Error as exc:
            if isinstance(exc, Damaged):
                self._tell(topic, part.partition, exc)
            return _failed(part, number_of(exc))
        if fetched is None:
            return None
        if not fetched.pieces and part.offset == fetched.end == fetched.stable:
            self.ends.found(key, moves, fetched.end, fetched.start)
        aborted = list(fetched.aborted) if committed else None
        return FetchedPart(
            part.topic, part.partition, 0, fetched.end, fetched.stable, fetched.start, aborted, fetched.pieces
        )


def _failed(part: WantedPart, number: E) -> FetchedPart:
    return FetchedPart(part.topic, part.partition, int(number))


def _not_at_its_end(part: WantedPart) -> FetchedPart:
    """Return an empty part for a partition whose turn has not come; it does not claim to be at the end."""
    return FetchedPart(part.topic, part.partition, 0, part.offset + 1, part.offset + 1)
