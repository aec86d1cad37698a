"""The row of a schedule: declaring it, reading it, taking its ticks by the rule for missed ones.

Invariant: a tick is taken by the one transaction that finds the row unchanged since it was read, with the
same version and next tick; that transaction stages the event. The clock is the database's.

Of two definitions the later one wins. A replaced definition does not return while a living worker declares
the winning one, however often its own worker restarts, so a rolling deploy changes a schedule once. It
returns when no living worker declares the other, as after a rollback of the deploy.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

import msgspec

from penstock import points
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.model.schedule import Definition, MissedTicks, decode_definition, fingerprint
from penstock.settings import Settings, setting

from .declaration import Schedule

AFTER_TICK = points.declare("outbox.after_tick", "A tick is taken and its event staged, in an open transaction.")
_MOST_RETIRED = 50

# Returns the fingerprints that living workers declare for a schedule.
DeclaredBy = Callable[[Transaction, str], Collection[str]]


class PeriodicSettings(Settings, room="periodic"):
    """How often schedules are polled, and the treatment of missed ticks."""

    look_interval: timedelta = setting(
        timedelta(seconds=5), "Longest time between two polls of a worker's schedules.", at_least=0.01
    )
    grace: timedelta = setting(
        timedelta(seconds=60), 'With catch_up="none", a tick counts as missed after this time.', at_least=0
    )
    most_missed: int = setting(
        1000, 'With catch_up="all", most missed ticks to publish; older ones are skipped.', at_least=1
    )

    @property
    def grace_ms(self) -> int:
        """The grace in milliseconds."""
        return self.grace // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class TickPlan:
    """The tick to publish (None: nothing), the next one, and whether ticks were left out."""

    tick_ms: int | None
    next_ms: int
    skipped: bool


def plan(
    definition: Definition, next_ms: int, since_ms: int, now_ms: int, settings: PeriodicSettings
) -> TickPlan | None:
    """Return the plan for a schedule now; None if its next tick is to come. `since_ms`: of its definition."""
    if next_ms > now_ms:
        return None
    rule, catch_up = definition.rule, definition.catch_up
    most = settings.most_missed if catch_up is MissedTicks.ALL else 1
    due = rule.newest(max(next_ms, since_ms), now_ms, most)
    if len(due) < most:
        due.insert(0, next_ms)
    tick_ms = due[0]
    following_ms = rule.after(max(tick_ms, since_ms))
    if catch_up is MissedTicks.NONE and now_ms - tick_ms > settings.grace_ms:
        return TickPlan(None, following_ms, True)
    return TickPlan(tick_ms, following_ms, tick_ms != next_ms)


def next_after(definition: Definition, now_ms: int, last_ms: int | None) -> int:
    """Return the first tick after both now and the last tick taken."""
    return definition.rule.after(now_ms if last_ms is None else max(now_ms, last_ms))


class ScheduleRow(NamedTuple):
    """A stored schedule, and the database's time when it was read."""

    name: str
    definition: str
    version: int
    retired: str
    since_ms: int
    last_ms: int | None
    next_ms: int
    paused: bool
    now_ms: int


def read(tx: Transaction, names: Sequence[str], own_ms: int | None) -> dict[str, ScheduleRow]:
    """Return the rows of some schedules; one statement."""
    return {row[0]: _row(row) for row in tx.rows("outbox", "periodic_read", names=list(names), now_ms=own_ms)}


def read_store_id(tx: Transaction) -> str:
    """Return the id of the store, which is part of the ids of ticks."""
    return str(tx.rows("database", "meta_read", name="log_id")[0][0])


def lock(tx: Transaction, name: str, own_ms: int | None) -> ScheduleRow | None:
    """Return the row of a schedule, locked; None if there is none."""
    rows = tx.rows("outbox", "periodic_lock", name=name, now_ms=own_ms)
    return _row(rows[0]) if rows else None


def declare(
    tx: Transaction, schedule: Schedule, own_ms: int | None, *, replaced: bool, declared_by: DeclaredBy
) -> ScheduleRow | None:
    """Store a schedule as declared here; None if another definition wins. `replaced`: it was declared before."""
    row = lock(tx, schedule.name, own_ms)
    if row is None:
        now_ms = tx.now_ms(own_ms)
        first = {"since_ms": now_ms, "next_ms": next_after(schedule.definition, now_ms, None)}
        tx.change("outbox", "periodic_create", name=schedule.name, definition=schedule.encoded, **first)
        row = lock(tx, schedule.name, own_ms)
        assert row is not None, "it was just created or found"
    if row.definition == schedule.encoded:
        return row
    present = fingerprint(row.definition)
    retired: list[str] = msgspec.json.decode(row.retired)
    is_older = replaced or schedule.fingerprint in retired
    if is_older and present in declared_by(tx, schedule.name):
        return None
    retired = [each for each in (*retired, present) if each != schedule.fingerprint][-_MOST_RETIRED:]
    # The old definition has promised a tick that is already due; the new one counts from now on.
    overdue = row.next_ms <= row.now_ms and not row.paused
    next_ms = row.next_ms if overdue else next_after(schedule.definition, row.now_ms, row.last_ms)
    times = {"since_ms": row.now_ms, "next_ms": next_ms}
    stored = {"definition": schedule.encoded, "retired": msgspec.json.encode(retired).decode()}
    tx.change("outbox", "periodic_define", name=schedule.name, **stored, **times)
    return lock(tx, schedule.name, own_ms)


def take(tx: Transaction, row: ScheduleRow, planned: TickPlan, own_ms: int | None) -> bool:
    """Take a tick; return whether it was still free. The taker stages the event."""
    tick_ms, last_ms = planned.tick_ms, planned.tick_ms
    if planned.tick_ms is None:
        tick_ms, last_ms = row.next_ms, row.last_ms
    times = {"due_ms": row.next_ms, "tick_ms": tick_ms, "last_ms": last_ms, "next_ms": planned.next_ms}
    return bool(tx.change("outbox", "periodic_tick", name=row.name, version=row.version, **times, now_ms=own_ms))


def fail(tx: Transaction, row: ScheduleRow, error: str, own_ms: int | None) -> None:
    """Record that the event of a tick could not be made."""
    tx.change(
        "outbox", "periodic_fail", name=row.name, version=row.version, due_ms=row.next_ms, error=error, now_ms=own_ms
    )


def next_tick(row: ScheduleRow) -> int:
    """Return the first tick of a schedule after now, by its stored definition."""
    return next_after(decode_definition(row.definition), row.now_ms, row.last_ms)


def _row(row: Row) -> ScheduleRow:
    found = ScheduleRow(*row)
    return found._replace(paused=bool(found.paused))
