"""Pending writes, by source and partition: only its own writers wait for a locked partition.

Sources take turns: a transaction takes one write of every source, the least recently served source first, and more of
each in turn while it is small. So a new write waits for the current transaction and its own, unless there are more
sources than one transaction takes; then it waits for its turn. A partition is in one transaction at a time, so the
writes of one source to one partition keep their order. A partition found locked is contested: it is retried together
with others after growing pauses, and meanwhile waiting threads wait for the contested partitions one by one, in turn.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.wire.kafka.record_batch import headers_in

from ..batches import LogPlace, Write, WriteResult, WritesDone

# Size from which a transaction takes no more: from sources already in it, and from any.
MORE_RECORDS, MOST_RECORDS = 5_000, 20_000
MORE_BYTES, MOST_BYTES = 4 << 20, 16 << 20  # compressed, as sent
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 0.64  # before a contested partition is tried again


class WriteRequest:
    """Writes that are answered together, once all have results."""

    def __init__(self, source: object, writes: Sequence[Write], done: WritesDone) -> None:
        self.source, self.done = source, done
        self.results = [WriteResult()] * len(writes)
        self.missing = len(writes)

    def answer(self) -> None:
        """Call `done` with the results."""
        self.done(self.results)


class WaitingWrite(NamedTuple):
    """One write of a request, its arrival time, and its partition."""

    write: Write
    request: WriteRequest
    number: int  # index within the request
    since: float
    place: LogPlace


class _Contest(NamedTuple):
    """The next retry of a locked partition together with others, and the pause after that."""

    due: float
    pause: float


class WriteTurns:
    """The pending writes. Not thread-safe."""

    def __init__(self) -> None:
        # By source, and for each by partition; the next to be served comes first in both.
        self._waiting: dict[object, dict[LogPlace, deque[WaitingWrite]]] = {}
        self._busy: set[LogPlace] = set()  # in a running transaction
        self._contested: dict[LogPlace, _Contest] = {}  # the one waited for longest ago comes first

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def is_contested(self) -> bool:
        """Whether there is a contested partition that no thread is waiting for."""
        return any(place not in self._busy for place in self._contested)

    def add(self, source: object, writes: Sequence[Write], done: WritesDone, now: float = 0.0) -> None:
        """Queue writes, each behind those of its source to its partition."""
        request, places = WriteRequest(source, writes, done), self._waiting.setdefault(source, {})
        for number, each in enumerate(writes):
            place = LogPlace(each.topic.id, each.partition)
            places.setdefault(place, deque()).append(WaitingWrite(each, request, number, now, place))

    def take(self, now: float = 0.0) -> list[WaitingWrite]:
        """Take the writes for the next transaction, of partitions that are not being written."""
        held_up = {place for place, contest in self._contested.items() if contest.due > now}
        return self._taken(self._busy | held_up)

    def take_contested(self) -> list[WaitingWrite]:
        """Take the writes to one contested partition, to wait for its lock."""
        place = next(place for place in self._contested if place not in self._busy)
        self._contested[place] = self._contested.pop(place)  # behind the others
        taken = self._taken((), only=place)
        if not taken:
            del self._contested[place]
        return taken

    def _taken(self, without: Iterable[LogPlace], only: LogPlace | None = None) -> list[WaitingWrite]:
        taken: list[WaitingWrite] = []
        served: set[object] = set()
        records = size = 0
        turn = deque(self._waiting)
        while turn:
            source = turn.popleft()
            most = (MORE_RECORDS, MORE_BYTES) if source in served else (MOST_RECORDS, MOST_BYTES)
            if taken and (records >= most[0] or size >= most[1]):
                break
            places = self._waiting[source]
            if only is None:
                place = next((each for each in places if each not in without), None)
            else:
                place = only if only in places else None
            if place is None:
                continue
            taken.append(self._next_of(source, place))
            served.add(source)
            if source in self._waiting:
                turn.append(source)
            batches = taken[-1].write.batches
            size += len(batches)
            records += sum(max(0, header.record_count) for _, header in headers_in(batches))
        self._busy.update(each.place for each in taken)
        return taken

    def _next_of(self, source: object, place: LogPlace) -> WaitingWrite:
        """Take the first write of a source to a partition; both go behind the others."""
        places = self._waiting.pop(source)
        queue = places.pop(place)
        found = queue.popleft()
        if queue:
            places[place] = queue
        if places:
            self._waiting[source] = places
        return found

    def end(
        self, taken: Sequence[WaitingWrite], results: Sequence[WriteResult | None], now: float = 0.0
    ) -> list[WriteRequest]:
        """Store the results of writes (None: its partition is locked); return the finished requests.

        A write that found its partition locked is queued again, before all later ones.
        """
        finished: list[WriteRequest] = []
        locked: set[LogPlace] = set()
        for each, result in reversed(list(zip(taken, results, strict=True))):
            if result is None:
                locked.add(each.place)
                queue = self._waiting.setdefault(each.request.source, {}).setdefault(each.place, deque())
                queue.appendleft(each)
                continue
            each.request.results[each.number] = result
            each.request.missing -= 1
            if not each.request.missing:
                finished.append(each.request)
        for place in {each.place for each in taken}:
            self._busy.discard(place)
            contest = self._contested.get(place)
            if place not in locked:
                self._contested.pop(place, None)
            elif contest is None:
                self._contested[place] = _Contest(now + FIRST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2)
            else:
                pause = min(contest.pause * 2, LONGEST_PAUSE_SECONDS)
                self._contested[place] = _Contest(now + contest.pause, pause)
        return finished[::-1]
