"""Schedules of periodic events: list, show, pause, resume, run now, remove, and the doctor's findings.

The first worker that declares a schedule stores it; it stays until it is removed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.errors import ScheduleInUse, SchedulePaused, UnknownSchedule
from penstock.log.store import Store
from penstock.membership.member import declared
from penstock.model.schedule import Definition, decode_definition, fingerprint
from penstock.outbox.periodic import rows
from penstock.outbox.periodic.rows import PeriodicSettings, ScheduleRow

from . import audit
from .doctor import DoctorFinding, PartState
from .operation import operation, storable
from .paging import PAGE_ROWS, Page, check_limit, page, place_after

_UPCOMING = 5


class ScheduleState(StrEnum):
    """The state of a schedule."""

    TICKING = "ticking"
    PAUSED = "paused"
    FAILING = "failing"  # its function raised; the tick is retried
    LATE = "late"  # its tick has been due for longer than `periodic.grace`: no worker takes it


@dataclass(frozen=True, slots=True)
class ScheduleShown:
    """One schedule. `workers`: running workers that declare it so; `others`: those that differ.

    Workers with a different declaration wait. `failures`, `error` and `failed_at` concern the due tick.
    """

    name: str
    state: ScheduleState
    when: str
    catch_up: str
    type: str | None
    topic: str
    version: int
    since: datetime
    last_at: datetime | None
    next_at: datetime | None
    workers: int
    others: int
    failures: int
    error: str | None
    failed_at: datetime | None


@operation
def schedules(
    store: Store, *, after: str | None = None, limit: int = PAGE_ROWS, clock: Clock = SYSTEM
) -> Page[ScheduleShown]:
    """Return a page of the schedules, by name. Raises InvalidPage."""
    check_limit(limit)
    (place,) = place_after(after, "")
    return store.database.look(lambda tx: _page(tx, clock, after=place, limit=limit))


@operation
def show(store: Store, name: str, *, clock: Clock = SYSTEM) -> ScheduleShown:
    """Return one schedule. Raises UnknownSchedule."""
    found = store.database.look(lambda tx: _page(tx, clock, name=storable(name), limit=1)).items
    if not found:
        raise UnknownSchedule(name)
    return found[0]


@operation
def upcoming(store: Store, name: str, *, count: int = _UPCOMING, clock: Clock = SYSTEM) -> list[datetime]:
    """Return the next ticks of a schedule, whether or not it is paused. Raises UnknownSchedule."""
    found = store.database.look(lambda tx: rows.read(tx, [storable(name)], own_ms(clock)))
    if not found:
        raise UnknownSchedule(name)
    (row,) = found.values()
    return [from_ms(each) for each in islice(_ticks(row), count)]


@operation
def pause(store: Store, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> bool:
    """Pause a schedule; return whether it was ticking before.

    Waits for a tick in progress. Raises UnknownSchedule.
    """

    def change(tx: Transaction) -> bool:
        _locked(tx, name, clock)
        changed = bool(tx.change("outbox", "periodic_pause", name=name))
        if changed:
            audit.write(tx, "periodic pause", {"schedule": name}, 1, own_ms(clock), actor=actor)
        return changed

    return store.database.run(change)


@operation
def resume(store: Store, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> bool:
    """Resume a schedule with its first tick after now; return whether it was paused.

    Ticks missed while it was paused are not caught up. Raises UnknownSchedule.
    """

    def change(tx: Transaction) -> bool:
        row = _locked(tx, name, clock)
        changed = bool(tx.change("outbox", "periodic_resume", name=name, next_ms=rows.next_tick(row)))
        if changed:
            audit.write(tx, "periodic resume", {"schedule": name}, 1, own_ms(clock), actor=actor)
        return changed

    return store.database.run(change)


@operation
def run_now(store: Store, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> None:
    """Make a schedule tick once now, in addition to its regular ticks; a worker takes it within seconds.

    Raises UnknownSchedule, SchedulePaused.
    """

    def change(tx: Transaction) -> None:
        row = _locked(tx, name, clock)
        if row.paused:
            raise SchedulePaused(name)
        tx.change("outbox", "periodic_hasten", name=name, next_ms=row.now_ms)
        audit.write(tx, "periodic run-now", {"schedule": name}, 1, own_ms(clock), actor=actor)

    store.database.run(change)


@operation
def remove(store: Store, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> None:
    """Delete a schedule that no running worker declares. Raises UnknownSchedule, ScheduleInUse."""

    def change(tx: Transaction) -> None:
        _locked(tx, name, clock)
        workers = len(declared(tx, name, clock))
        if workers:
            raise ScheduleInUse(name, workers)
        tx.change("outbox", "periodic_remove", name=name)
        audit.write(tx, "periodic remove", {"schedule": name}, 1, own_ms(clock), actor=actor)

    store.database.run(change)


@operation
def examine_schedules(store: Store, clock: Clock = SYSTEM) -> list[DoctorFinding]:
    """Return a finding for each schedule that fails or is late."""
    found = store.database.look(lambda tx: _page(tx, clock, limit=1000)).items
    return [finding for each in found for finding in _findings(each)]


def _findings(shown: ScheduleShown) -> Iterator[DoctorFinding]:
    part, enables = f"Schedule {shown.name}", "an event at each of its ticks"
    if shown.state is ScheduleState.FAILING:
        found = f"its tick failed {shown.failures} times: {shown.error}"
        yield DoctorFinding(part, PartState.LOW, found, enables, "fix its function; the tick is retried")
    elif shown.state is ScheduleState.LATE and not shown.workers:
        found = f"{_overdue(shown)}, and no running worker declares it"
        remedy = "start a worker of the program that declares it, or: penstock periodic remove"
        yield DoctorFinding(part, PartState.NOTE, found, enables, remedy)
    elif shown.state is ScheduleState.LATE:
        found = f"{_overdue(shown)}, and its function has not returned"
        yield DoctorFinding(part, PartState.LOW, found, enables, "find out why its function does not return")


def _overdue(shown: ScheduleShown) -> str:
    return f"a tick has been due since {shown.next_at:%Y-%m-%d %H:%M:%S}Z"


def _page(
    tx: Transaction, clock: Clock, *, limit: int, after: str = "", name: str | None = None
) -> Page[ScheduleShown]:
    own = own_ms(clock)
    found = tx.rows("operate", "periodic_list", after=after, name=name, limit=limit + 1, now_ms=own)
    return page(found, limit, 1, lambda row: _shown(row, declared(tx, row[0], clock)))


def _shown(row: Row, fingerprints: list[str]) -> ScheduleShown:
    name, text, version, since_ms, last_ms, next_ms, paused, failures, error, failed_ms, now_ms = row
    definition: Definition = decode_definition(text)
    workers = fingerprints.count(fingerprint(text))
    return ScheduleShown(
        name,
        _state(bool(paused), failures, now_ms - next_ms),
        definition.words,
        definition.catch_up.value,
        definition.type,
        definition.topic,
        version,
        from_ms(since_ms),
        None if last_ms is None else from_ms(last_ms),
        None if paused else from_ms(next_ms),
        workers,
        len(fingerprints) - workers,
        failures,
        error,
        None if failed_ms is None else from_ms(failed_ms),
    )


def _state(paused: bool, failures: int, overdue_ms: int) -> ScheduleState:
    if paused:
        return ScheduleState.PAUSED
    if failures:
        return ScheduleState.FAILING
    late = overdue_ms > PeriodicSettings.load().grace_ms
    return ScheduleState.LATE if late else ScheduleState.TICKING


def _ticks(row: ScheduleRow) -> Iterator[int]:
    definition = decode_definition(row.definition)
    tick_ms = row.next_ms if row.next_ms > row.now_ms else rows.next_tick(row)
    while True:
        yield tick_ms
        tick_ms = definition.rule.after(tick_ms)


def _locked(tx: Transaction, name: str, clock: Clock) -> ScheduleRow:
    row = rows.lock(tx, storable(name), own_ms(clock))
    if row is None:
        raise UnknownSchedule(name)
    return row
