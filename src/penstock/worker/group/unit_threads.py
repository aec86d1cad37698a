"""Threads for units of work: each runs one unit at a time, and one that hangs is abandoned.

A watch in a thread of its own gives up units that are over their time: the delivery loop may itself wait for a lock
that such a unit holds.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Event, Lock, Thread

from penstock import metrics
from penstock.clock import Clock
from penstock.delivery.verdict import Verdict
from penstock.redaction import traced, words

from ..calling.hung_calls import HungCalls
from ..calling.verdicts import count
from ..handler import Handler, HandlerTask, about_handler
from .unit import Unit
from .unit_outcome import Broken

logger = logging.getLogger("penstock.handlers")

_STEP_SECONDS = 0.02
_WATCH_SECONDS = 1.0  # the longest time between two checks of the watch while units run


class UnitThreads:
    """Runs units of work and gives up those that take too long.

    It runs as many units at once as it has threads, and beyond that number those of a group that has fewer than its
    share. Methods are for the delivery loop's thread unless they say otherwise.
    """

    def __init__(
        self,
        *,
        threads: int,
        clock: Clock,
        wake: Callable[[], None],
        hung: HungCalls,
        may_start: Callable[[], bool] = lambda: True,
    ) -> None:
        """`wake` is called when a unit has ended, `may_start` before each call; `hung` counts abandoned ones."""
        self._size, self._clock, self._wake, self._hung = threads, clock, wake, hung
        self._may_start = may_start
        self._queue: SimpleQueue[Unit | None] = SimpleQueue()
        self._running: set[Unit] = set()
        self.ended: deque[Unit] = deque()  # and not fetched yet
        self._threads, self._made, self._lock, self._quiet = 0, 0, Lock(), Event()
        self._watch: Thread | None = None
        self._bell, self._closed = Event(), False

    def room(self, out: int, *, left: int, groups: int) -> int:
        """Return how many more units a group may begin: `left` groups share the free threads, all have their share."""
        free = -(-(self._size - len(self._running)) // left)
        return max(free, max(1, self._size // groups) - out)

    def submit(self, units: Sequence[Unit]) -> None:
        """Begin units; at most as many as there is room for."""
        for unit in units:
            unit.may_start = self._may_start
            self._begin(unit)
        if units:
            self._bell.set()
            if self._watch is None:
                self._watch = Thread(target=self._watching, name="penstock-unit-watch", daemon=True)
                self._watch.start()

    def finished(self) -> list[Unit]:
        """Return the units that have ended since the last call; never waits."""
        found = [self.ended.popleft() for _ in range(len(self.ended))]
        self._running.difference_update(found)
        for unit in found:
            count_unit(unit)
        return found

    def look(self) -> float:
        """Give up units that are over their time; return how long until another may be. From any thread."""
        now, due = self._clock.monotonic(), [_WATCH_SECONDS]
        for unit in list(self._running):
            current = unit.claim.current
            limit = None if current is None else current[0].handler.timeout
            if current is None or limit is None:
                continue
            task, since = current
            due.append(limit / 4)
            if now - since < limit:
                due.append(since + limit - now)
            elif unit.claim.take(current):
                self._leave_behind(unit, task, limit)
        return min(due)

    def calls(self) -> list[tuple[HandlerTask, float]]:
        """Return the tasks in a call, and since when. From any thread."""
        return [current for unit in list(self._running) if (current := unit.claim.current) is not None]

    def _watching(self) -> None:
        """Run the watch: check while there are units, sleep while there are none."""
        while not self._closed:
            self._bell.wait(self.look() if self._running else None)
            self._bell.clear()

    def close(self, grace_seconds: float) -> list[Unit]:
        """Wait `grace_seconds` for running units, and return those that still run; they commit nothing."""
        for _ in range(int(grace_seconds / _STEP_SECONDS) + 1):
            if all(unit.outcome is not None for unit in list(self._running)):
                break
            self._quiet.wait(_STEP_SECONDS if grace_seconds else 0)
        left = [unit for unit in list(self._running) if unit.outcome is None and unit.claim.take()]
        self._running.difference_update(left)
        for _ in range(self._threads):
            self._queue.put(None)
        self._closed = True
        self._bell.set()
        return left

    def _begin(self, unit: Unit) -> None:
        self._running.add(unit)
        if self._threads < len(self._running):
            self._spawn()
        self._queue.put(unit)

    def _spawn(self) -> None:
        with self._lock:
            self._threads += 1
            self._made += 1
        Thread(target=self._work, name=f"penstock-unit-{self._made}", daemon=True).start()

    def _work(self) -> None:
        while (unit := self._queue.get()) is not None:
            try:
                if not unit.work(BaseException):
                    self._hung.end(unit, unit.tasks[0].handler)
                    return  # it was given up, and this thread replaced
            except BaseException as exc:  # a fault of ours: the partitions are taken again
                handler = unit.tasks[0].handler
                fields = about_handler(handler, error=words(exc))
                logger.error("a unit of work of handler %s failed", handler.id, exc_info=traced(exc), extra=fields)
                unit.outcome = Broken(RuntimeError(f"a unit of work failed: {words(exc)}"), in_doubt=True)
            self.ended.append(unit)
            self._quiet.set()
            self._wake()

    def _leave_behind(self, unit: Unit, task: HandlerTask, limit: float) -> None:
        with self._lock:
            self._threads -= 1
        self._hung.begin(unit, task.handler, limit)
        following = unit.time_out(task, limit)
        if following is None:
            self.ended.append(unit)
            self._wake()
        else:  # call its fallback, in another thread: this one watches
            self._running.add(following)
            self._running.discard(unit)
            self._begin(following)


def count_unit(unit: Unit) -> None:
    """Count the verdicts on the records of a unit."""
    by_handler: dict[Handler, tuple[list[Verdict], list[float]]] = {}
    for (task, verdict), seconds in zip(unit.verdicts(), unit.seconds, strict=False):
        verdicts, durations = by_handler.setdefault(task.handler, ([], []))
        verdicts.append(verdict)
        durations.append(seconds)
    for handler, (verdicts, durations) in by_handler.items():
        count(handler, verdicts)
        metrics.HANDLER_SECONDS.observe(*durations, group=handler.group, handler=handler.id)
