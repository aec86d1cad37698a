"""Taking the ticks of this program's schedules: look, make the event, then take the tick and stage, together.

The program's function is called before the transaction, so no lock is held meanwhile; the write itself finds
out whether the tick is still there to be taken.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock import metrics, points
from penstock.clock import Clock, own_ms
from penstock.database.database import Database, Transaction
from penstock.membership.declared import declared
from penstock.model.causes import reason
from penstock.outbox.event import StagedEvent
from penstock.outbox.periodic import rows
from penstock.outbox.periodic.declaration import Schedule, Schedules, Tick
from penstock.outbox.periodic.plan import PeriodicSettings, TickPlan, plan
from penstock.outbox.periodic.rows import ScheduleRow
from penstock.redaction import ErrorText, traced, words

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

    def __init__(
        self, database: Database, source: TickSource, clock: Clock, settings: PeriodicSettings
    ) -> None:
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
            planned = plan(
                schedule.definition,
                next_ms=row.next_ms,
                since_ms=row.since_ms,
                now_ms=row.now_ms,
                settings=self._settings,
            )
            if planned is None:
                pause = min(pause, (row.next_ms - row.now_ms) / 1000)
            else:
                due.append(DueTick(schedule, row, planned))
        return due, pause

    def take(self, due: DueTick, *, may: Callable[[], bool] = lambda: True) -> bool:
        """Make the event of a tick, and stage it with the tick taken; return whether its event could be made.

        `may`: called before anything is written. Raises the database's errors.
        """
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
        own = self._own_ms()
        stands = self._database.run(
            lambda tx: rows.declare(
                tx,
                schedule,
                own,
                replaced=row is not None and name in self._declared,
                declared_by=lambda tx, name: declared(tx, name, self._clock),
            )
        )
        if stands is None:
            if name not in self._yielded:
                logger.warning(
                    "schedule %s waits: a worker that was started later declares it in another way",
                    name,
                    extra={"schedule": name},
                )
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
        logger.error(
            "schedule %s: the event of a tick could not be made; tried again later",
            name,
            exc_info=traced(error, how),
            extra={"schedule": name, "error": words(error, how)},
        )
        own = self._own_ms()
        self._database.run(lambda tx: rows.fail(tx, due.row, text, own))

    def _tell(self, due: DueTick, event: StagedEvent | None) -> None:
        if due.planned.skipped:
            logger.warning(
                "schedule %s: ticks were missed and are left out (catch_up=%s)",
                due.schedule.name,
                due.schedule.definition.catch_up,
                extra={"schedule": due.schedule.name},
            )
        if due.planned.tick_ms is not None:
            outcome = "none" if event is None else "published"
            metrics.TICKS.add(1, schedule=due.schedule.name, outcome=outcome)

    def _id(self) -> str:
        """Return the id of the store, read once."""
        if not self._store_id:
            self._store_id = self._database.look(rows.read_store_id)
        return self._store_id

    def _own_ms(self) -> int | None:
        return own_ms(self._clock)
