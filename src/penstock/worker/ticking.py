"""The ticking service: a thread of the worker that takes the ticks of its schedules when they are due.

A program's function that makes an event runs in a thread of its own, one for each schedule, so that a
function that hangs or fails keeps no other schedule from its ticks.
"""

from collections.abc import Callable
from threading import Event, Thread

from penstock.backoff import CHANCE, Backoff, PollingSettings
from penstock.clock import Clock
from penstock.database.database import Database
from penstock.outbox.periodic.plan import PeriodicSettings

from .ticker import DueTick, Ticker, TickSource

_SPREAD_SECONDS = 0.1  # workers look one after the other, so that most find the tick taken
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 1.0, 60.0
_STOP_SECONDS = 5.0  # how long a stop waits for functions that run


class TickingService:
    """Takes ticks in a thread of its own. `start` and `stop` may be called twice."""

    def __init__(
        self,
        database: Database,
        source: TickSource,
        clock: Clock,
        *,
        ready: Event,
        polling: PollingSettings | None = None,
        settings: PeriodicSettings | None = None,
    ) -> None:
        """`ready`: set once this process is a member, so that others see the schedules it declares."""
        self._source, self._clock, self._ready = source, clock, ready
        self._ticker = Ticker(database, source, clock, settings or PeriodicSettings.load())
        self._backoff = Backoff("periodic", polling or PollingSettings.load())
        self._stopping, self._wake = Event(), Event()
        self._thread: Thread | None = None
        self._at_work: dict[str, Thread] = {}
        self._retries: dict[str, tuple[float, float]] = {}  # when to retry, and the last wait

    def start(self) -> None:
        """Begin, if the program declares a schedule; returns at once."""
        if self._thread is None and len(self._source.schedules):
            self._stopping.clear()
            self._thread = Thread(target=self._run, name="penstock-periodic", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End; returns when the thread has ended, and functions have, or have had some seconds to."""
        self._stopping.set()
        self._wake.set()
        thread = self._thread  # another thread may be stopping it too
        if thread is not None:
            thread.join()
            end = self._clock.monotonic() + _STOP_SECONDS
            for each in list(self._at_work.values()):
                each.join(max(end - self._clock.monotonic(), 0.0))
            self._thread = None

    def _run(self) -> None:
        while not self._ready.wait(0.2):
            if self._stopping.is_set():
                return
        while not self._stopping.is_set():
            try:
                pause = self._turn()
                self._backoff.is_well()
            except Exception as exc:
                pause = self._backoff.trouble(exc)
            self._wake.wait(pause)
            self._wake.clear()  # before the check of `_stopping`: a stop that comes in between is seen

    def _turn(self) -> float:
        """Take the ticks that are due; return how long to wait."""
        due, pause = self._ticker.look()
        pause += CHANCE.uniform(0, _SPREAD_SECONDS)
        for each in due:
            name = each.schedule.name
            retry_at, _ = self._retries.get(name, (0.0, 0.0))
            wait = retry_at - self._clock.monotonic()
            if wait > 0:
                pause = min(pause, wait)
            elif each.schedule.make is None:
                self._take(each)
                pause = 0.0
            elif name not in self._at_work:
                self._begin(each)
        return pause

    def _begin(self, due: DueTick) -> None:
        """Take a tick in a thread of its own; when that ends, the next look comes at once."""
        name = due.schedule.name
        thread = Thread(target=self._work, args=(due,), name=f"penstock-periodic-{name}", daemon=True)
        self._at_work[name] = thread
        thread.start()

    def _work(self, due: DueTick) -> None:
        try:
            self._take(due)
        except Exception as exc:
            self._stopping.wait(self._backoff.trouble(exc))
        finally:
            self._at_work.pop(due.schedule.name, None)
            self._wake.set()

    def _take(self, due: DueTick) -> None:
        name = due.schedule.name
        if self._ticker.take(due, may=lambda: not self._stopping.is_set()):
            self._retries.pop(name, None)
            return
        _, before = self._retries.get(name, (0.0, _FIRST_RETRY_SECONDS / 2))
        wait = min(before * 2, _LONGEST_RETRY_SECONDS)
        self._retries[name] = self._clock.monotonic() + wait, wait


def take_due(ticker: Ticker, beat: Callable[[], object]) -> None:
    """Take all ticks that are due now, in the caller's thread; leave one that fails to the next call."""
    until_ms, failed = dict[str, int](), set[str]()
    while True:
        due, _ = ticker.look()
        left = [
            each
            for each in due
            if each.schedule.name not in failed
            and each.row.next_ms <= until_ms.setdefault(each.schedule.name, each.row.now_ms)
        ]
        if not left:
            return
        for each in left:
            beat()
            if not ticker.take(each):
                failed.add(each.schedule.name)
