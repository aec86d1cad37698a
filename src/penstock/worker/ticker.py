"""The ticks of this program's schedules, and the thread of the worker that takes them when they are due.

The program's function is called before the transaction that takes the tick and stages the event, so no lock is held
meanwhile; the write finds out whether the tick is still free. Each schedule's function has a thread of its own, so that
one that hangs or fails keeps no other from its ticks.
"""

import logging
from collections.abc import Callable
from functools import partial
from threading import Event, Thread
from typing import Any, NamedTuple

from penstock import metrics, points
from penstock.backoff import CHANCE, Backoff, PollingSettings
from penstock.clock import Clock, own_ms
from penstock.database.database import Database, Transaction
from penstock.membership.member import declared
from penstock.outbox.contract import StagedEvent
from penstock.outbox.periodic import rows
from penstock.outbox.periodic.declaration import Schedule, Schedules, Tick
from penstock.outbox.periodic.rows import PeriodicSettings, ScheduleRow, TickPlan, plan
from penstock.redaction import ErrorText, reason, traced, words

from .calling.runner import ProcessingSettings

logger = logging.getLogger("penstock.periodic")

_ERROR_CHARACTERS = 500


class TickSource(NamedTuple):
    """An outbox's side of a ticker: its schedules, and the functions that make and stage a tick's event."""

    schedules: Schedules
    event: Callable[[Schedule, Tick, int], StagedEvent | None]
    stage: Callable[[Any, list[StagedEvent]], object]


class DueTick(NamedTuple):
    """A tick that can be taken now: the schedule, its row at the last look, and the plan."""

    schedule: Schedule
    row: ScheduleRow
    planned: TickPlan


class Ticker:
    """Takes the ticks of one outbox's schedules. `look` in one thread, `take` in any."""

    def __init__(self, database: Database, source: TickSource, clock: Clock, settings: PeriodicSettings) -> None:
        self._database, self._source, self._clock, self._settings = database, source, clock, settings
        self._error_text = ErrorText(ProcessingSettings.load().error_text)
        self._store_id = ""
        for schedule in source.schedules:  # a first value: a rise from nothing would not be seen
            for outcome in ("published", "none", "failed"):
                metrics.TICKS.add(0, schedule=schedule.name, outcome=outcome)
        self._declared: set[str] = set()  # schedules that were once in the store as declared here
        self._yielded: dict[str, float] = {}  # schedules with another definition in force; when to retry

    def look(self) -> tuple[list[DueTick], float]:
        """Return the due ticks, and in how many seconds to look again; one statement if nothing changed."""
        own, most = self._own_ms(), self._settings.look_interval.total_seconds()
        names = [each.name for each in self._source.schedules]
        found = self._database.look(lambda tx: rows.read(tx, names, own))
        due, pause = [], most
        for schedule in self._source.schedules:
            row = self._standing(schedule, found.get(schedule.name))
            if row is None or row.paused:
                continue
            planned = plan(schedule.definition, row.next_ms, row.since_ms, row.now_ms, self._settings)
            if planned is None:
                pause = min(pause, (row.next_ms - row.now_ms) / 1000)
            else:
                due.append(DueTick(schedule, row, planned))
        return due, pause

    def take(self, due: DueTick, *, may: Callable[[], bool] = lambda: True) -> bool:
        """Stage the event of a tick with the tick taken; return whether it could be made. `may` comes first."""
        schedule, row, planned = due
        own, event = self._own_ms(), None
        if planned.tick_ms is not None:
            tick = Tick(schedule.name, planned.tick_ms, self._id())
            try:
                event = self._source.event(schedule, tick, row.now_ms)
            except KeyboardInterrupt:  # in a drain; threads never receive it
                raise
            except BaseException as exc:  # of the program's own function; it must not end a thread
                self._failed(due, exc)
                return False
        if may() and self._database.run(lambda tx: self._stage(tx, due, event, own)):
            self._tell(due, event)
        return True

    def _stage(self, tx: Transaction, due: DueTick, event: StagedEvent | None, own: int | None) -> bool:
        if not rows.take(tx, due.row, due.planned, own):
            return False
        if event is not None:
            self._source.stage(tx.conn, [event])
        points.reach(rows.AFTER_TICK)
        return True

    def _standing(self, schedule: Schedule, row: ScheduleRow | None) -> ScheduleRow | None:
        """Return the row of a schedule if its definition here is in force; declare it if it is not there."""
        name = schedule.name
        if row is not None and row.definition == schedule.encoded:
            self._declared.add(name)
            self._yielded.pop(name, None)
            return row
        now = self._clock.monotonic()
        if row is not None and now < self._yielded.get(name, 0.0):
            return None
        own, others = self._own_ms(), partial(declared, clock=self._clock)
        replaced = row is not None and name in self._declared
        stands = self._database.run(lambda tx: rows.declare(tx, schedule, own, replaced=replaced, declared_by=others))
        if stands is None:
            if name not in self._yielded:
                waits = "schedule %s waits: a worker that was started later declares it in another way"
                logger.warning(waits, name, extra={"schedule": name})
            self._yielded[name] = now + self._settings.look_interval.total_seconds()
            return None
        declared_as = "schedule %s: %s (version %d)"
        logger.info(declared_as, name, schedule.definition.words, stands.version, extra={"schedule": name})
        self._declared.add(name)
        self._yielded.pop(name, None)
        return stands

    def _failed(self, due: DueTick, error: BaseException) -> None:
        name, how = due.schedule.name, self._error_text
        text = reason(error, _ERROR_CHARACTERS, how).replace("\0", "\\0")
        metrics.TICKS.add(1, schedule=name, outcome="failed")
        later = "schedule %s: the event of a tick could not be made; tried again later"
        logger.error(later, name, exc_info=traced(error, how), extra={"schedule": name, "error": words(error, how)})
        own = self._own_ms()
        self._database.run(lambda tx: rows.fail(tx, due.row, text, own))

    def _tell(self, due: DueTick, event: StagedEvent | None) -> None:
        name = due.schedule.name
        if due.planned.skipped:
            missed = "schedule %s: ticks were missed and are left out (catch_up=%s)"
            logger.warning(missed, name, due.schedule.definition.catch_up, extra={"schedule": name})
        if due.planned.tick_ms is not None:
            metrics.TICKS.add(1, schedule=name, outcome="none" if event is None else "published")

    def _id(self) -> str:
        if not self._store_id:
            self._store_id = self._database.look(rows.read_store_id)
        return self._store_id

    def _own_ms(self) -> int | None:
        return own_ms(self._clock)


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
