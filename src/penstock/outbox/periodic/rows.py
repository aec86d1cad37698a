"""The row of a schedule: declaring it, looking at it, taking its ticks.

Invariant: a tick is taken by the one transaction that finds the row as it was looked at, with the version and
the next tick that it had; that transaction stages the event. The clock is the database's.

Of two definitions the one that was declared later counts. One that was replaced does not come back while a
living worker declares the one that counts, however often its own worker is started: so a rolling deploy
changes a schedule once. It comes back when no living worker declares the other, as after a deploy that was
taken back.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import msgspec

from penstock import points
from penstock.log.sql.contract import Row
from penstock.log.sql.database import Transaction
from penstock.model.schedule import decode_definition, fingerprint

from .declaration import Schedule
from .plan import TickPlan, next_after

AFTER_TICK = points.declare(
    "outbox.after_tick", "A tick is taken and its event staged, in an open transaction."
)
_MOST_RETIRED = 50

# The fingerprints that living workers declare for a schedule.
DeclaredBy = Callable[[Transaction, str], Collection[str]]


class ScheduleRow(NamedTuple):
    """A schedule as the store has it, and the database's time when it was read."""

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
    rows = tx.rows("outbox", "periodic_read", names=list(names), now_ms=own_ms)
    return {row[0]: _row(row) for row in rows}


def lock(tx: Transaction, name: str, own_ms: int | None) -> ScheduleRow | None:
    """Return the row of a schedule, locked; None if there is none."""
    rows = tx.rows("outbox", "periodic_lock", name=name, now_ms=own_ms)
    return _row(rows[0]) if rows else None


def declare(
    tx: Transaction, schedule: Schedule, own_ms: int | None, *, replaced: bool, declared_by: DeclaredBy
) -> ScheduleRow | None:
    """Let the store have a schedule as this program declares it; return its row, or None if another counts.

    `replaced`: this process has declared it before, so if it is not there now, another has replaced it.
    """
    row = lock(tx, schedule.name, own_ms)
    if row is None:
        now_ms = tx.now_ms(own_ms)
        next_ms = next_after(schedule.definition, now_ms, None)
        tx.change(
            "outbox",
            "periodic_create",
            name=schedule.name,
            definition=schedule.encoded,
            since_ms=now_ms,
            next_ms=next_ms,
        )
        row = lock(tx, schedule.name, own_ms)
        assert row is not None, "it was made or found just now"
    if row.definition == schedule.encoded:
        return row
    present = fingerprint(row.definition)
    retired: list[str] = msgspec.json.decode(row.retired)
    is_older = replaced or schedule.fingerprint in retired
    if is_older and present in declared_by(tx, schedule.name):
        return None
    retired = [each for each in (*retired, present) if each != schedule.fingerprint][-_MOST_RETIRED:]
    # A tick that is due already has been promised by the old definition; the new one counts from now on.
    overdue = row.next_ms <= row.now_ms and not row.paused
    next_ms = row.next_ms if overdue else next_after(schedule.definition, row.now_ms, row.last_ms)
    tx.change(
        "outbox",
        "periodic_define",
        name=schedule.name,
        definition=schedule.encoded,
        retired=msgspec.json.encode(retired).decode(),
        since_ms=row.now_ms,
        next_ms=next_ms,
    )
    return lock(tx, schedule.name, own_ms)


def take(tx: Transaction, row: ScheduleRow, planned: TickPlan, own_ms: int | None) -> bool:
    """Take a tick; return whether it was still there to be taken. Whoever takes it stages the event."""
    return bool(
        tx.change(
            "outbox",
            "periodic_tick",
            name=row.name,
            version=row.version,
            due_ms=row.next_ms,
            tick_ms=row.next_ms if planned.tick_ms is None else planned.tick_ms,
            last_ms=row.last_ms if planned.tick_ms is None else planned.tick_ms,
            next_ms=planned.next_ms,
            now_ms=own_ms,
        )
    )


def fail(tx: Transaction, row: ScheduleRow, error: str, own_ms: int | None) -> None:
    """Note that the event of a tick could not be made."""
    tx.change(
        "outbox",
        "periodic_fail",
        name=row.name,
        version=row.version,
        due_ms=row.next_ms,
        error=error,
        now_ms=own_ms,
    )


def next_tick(row: ScheduleRow) -> int:
    """Return the first tick of a schedule after now, by the definition that the store has."""
    return next_after(decode_definition(row.definition), row.now_ms, row.last_ms)


def _row(row: Row) -> ScheduleRow:
    found = ScheduleRow(*row)
    return found._replace(paused=bool(found.paused))
