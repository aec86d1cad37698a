"""The threads that write batches to a database, so that a locked or busy partition blocks no other.

| threads   | work                                                                                         |
|-----------|----------------------------------------------------------------------------------------------|
| gathering | write pending batches of many partitions in one transaction; they skip locked partitions     |
| waiting   | write to one contested partition each, with a short lock wait, then to the next              |

One thread gathers at a time, so that many producers share a commit; another starts when a transaction takes
long, as a large one does. A database with one writer has one thread, which waits for its turn.

Sources take turns: a transaction takes one write of every source, the least recently served source first, and more of
each in turn while it is small. So a new write waits for the current transaction and its own, unless there are more
sources than one transaction takes; then it waits for its turn. A partition is in one transaction at a time, so the
writes of one source to one partition keep their order. A partition found locked is contested: it is retried together
with others after growing pauses, and meanwhile waiting threads wait for the contested partitions one by one, in turn.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from threading import Condition, RLock, Thread
from typing import NamedTuple

from penstock.clock import Clock
from penstock.database.database import Database
from penstock.errors import StoreLocked
from penstock.redaction import traced
from penstock.wire.kafka.record_batch import headers_in

from ..batches import LogPlace, Write, WriteResult, WritesDone
from .lock_waits import GIVE_UP_SECONDS, LOCK_SECONDS, PLACES

GATHERING = 3  # threads; each uses one session while it works, as each of the waiting ones does
LONG_SECONDS = 0.02  # writes to other partitions do not wait for a longer transaction
# Size from which a transaction takes no more: from sources already in it, and from any.
MORE_RECORDS, MOST_RECORDS = 5_000, 20_000
MORE_BYTES, MOST_BYTES = 4 << 20, 16 << 20  # compressed, as sent
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 0.64  # before a contested partition is tried again

logger = logging.getLogger("penstock.batches")
WriteUnit = Callable[[Sequence[Write], bool], Sequence[WriteResult | None]]


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
        """Store results and return the finished requests; a write whose partition is locked (None) is queued first."""
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


class WriteThreads:
    """Writes added batches, from the first `add` to `close`. Safe from any thread."""

    def __init__(self, database: Database, write: WriteUnit, clock: Clock) -> None:
        """`write(writes, waits)` writes in one transaction; its results are None for locked partitions."""
        self._database, self._write, self._clock = database, write, clock
        self._turns = WriteTurns()
        lock = RLock()
        self._lock, self._contest = Condition(lock), Condition(lock)
        self._begun: dict[int, float] = {}  # start times of gathering transactions, by thread
        self._closed = False
        self._has_one_writer = database.dialect.writers == 1
        gathering, waiting = (1, 0) if self._has_one_writer else (GATHERING, PLACES)
        runs = [self._gather] * gathering + [self._wait] * waiting
        self._threads = [
            Thread(target=run, args=(number,), name=f"penstock-batches-{number}", daemon=True)
            for number, run in enumerate(runs)
        ]
        for each in self._threads:
            each.start()

    def add(self, source: object, writes: Sequence[Write], done: WritesDone) -> bool:
        """Hand writes over; return False if it is closed."""
        with self._lock:
            if self._closed:
                return False
            self._turns.add(source, writes, done, self._clock.monotonic())
            if self._may_gather():
                self._lock.notify()
        return True

    def close(self) -> None:
        """Finish the pending writes, and end the threads."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
            self._contest.notify_all()
        for each in self._threads:
            each.join()

    def _may_gather(self) -> bool:
        """Return whether no thread gathers, or all gathering transactions take long."""
        now = self._clock.monotonic()
        return all(now - begun >= LONG_SECONDS for begun in self._begun.values())

    def _gather(self, number: int) -> None:
        while True:
            with self._lock:
                taken: list[WaitingWrite] = []
                while not taken:
                    if self._turns and self._may_gather():
                        taken = self._turns.take(self._clock.monotonic())
                    if not taken:
                        if self._closed and not self._turns:
                            return
                        may_change = self._turns or self._begun  # passing time alone may allow it
                        self._lock.wait(LONG_SECONDS if may_change else None)
                self._begun[number] = self._clock.monotonic()
                self._lock.notify()  # another stands by in case this takes long
            self._finish(number, taken, waits=self._has_one_writer)

    def _wait(self, number: int) -> None:
        while True:
            with self._lock:
                while not self._turns.is_contested:
                    if self._closed and not self._turns:
                        return
                    self._contest.wait()
                taken = self._turns.take_contested()
            if taken:
                self._finish(number, taken, waits=True)

    def _finish(self, number: int, taken: list[WaitingWrite], *, waits: bool) -> None:
        writes = [each.write for each in taken]
        if waits:
            results = self._database.with_lock_limit(LOCK_SECONDS, lambda: self._write(writes, True))
        else:
            results = self._write(writes, False)
        with self._lock:
            now = self._clock.monotonic()
            judged = [self._judged(*each, now) for each in zip(taken, results, strict=True)]
            finished = self._turns.end(taken, judged, now)
            self._begun.pop(number, None)
            if self._turns.is_contested:
                self._contest.notify()
            if self._closed:
                self._lock.notify_all()
                self._contest.notify_all()
            elif self._turns:
                self._lock.notify()
        for each in finished:
            try:
                each.answer()
            except Exception as exc:  # a write thread that ended would stop all producers
                logger.error("the result of a write was not delivered", exc_info=traced(exc))

    def _judged(self, waiting: WaitingWrite, result: WriteResult | None, now: float) -> WriteResult | None:
        """Return the result of a write; refuse it if its partition has been locked for too long."""
        if result is None and (self._has_one_writer or now - waiting.since >= GIVE_UP_SECONDS):
            return WriteResult(error=StoreLocked(self._database.where))
        return result
