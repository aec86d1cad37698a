"""Schedules of periodic events: list, show, pause, resume, run now, remove, and the doctor's findings.

The first worker that declares a schedule stores it; it stays until it is removed.
"""

from collections.abc import Callable, Iterator
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
from .operation import PAGE_ROWS, Page, SeesTopic, every_topic, operation, page, place_after, seen_by_name, storable


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
    store: Store,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
    seen: SeesTopic = every_topic,
    clock: Clock = SYSTEM,
) -> Page[ScheduleShown]:
    """Return a page of the schedules of topics that are `seen`, by name. Raises InvalidPage."""
    (place,) = place_after(after, limit, "")
    return store.database.look(lambda tx: _page(tx, clock, after=place, limit=limit, seen=seen))


@operation
def show(store: Store, name: str, *, seen: SeesTopic = every_topic, clock: Clock = SYSTEM) -> ScheduleShown:
    """Return one schedule; one of a topic that is not `seen` counts as missing. Raises UnknownSchedule."""
    found = store.database.look(lambda tx: _page(tx, clock, name=storable(name), limit=1, seen=seen)).items
    if not found:
        raise UnknownSchedule(name)
    return found[0]


@operation
def upcoming(store: Store, name: str, *, count: int = 5, clock: Clock = SYSTEM) -> list[datetime]:
    """Return the next ticks of a schedule, whether or not it is paused. Raises UnknownSchedule."""
    found = store.database.look(lambda tx: rows.read(tx, [storable(name)], own_ms(clock)))
    if not found:
        raise UnknownSchedule(name)
    (row,) = found.values()
    return [from_ms(each) for each in islice(_ticks(row), count)]


@operation
def pause(store: Store, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> bool:
    """Pause a schedule; return whether it was ticking before. Waits for a tick in progress. Raises UnknownSchedule."""
    return _change(
        store, name, clock, actor, "periodic pause", lambda tx, _: tx.change("outbox", "periodic_pause", name=name)
    )


@operation
def resume(store: Store, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> bool:
    """Resume a schedule with its first tick after now; return whether it was paused.

    Ticks missed while it was paused are not caught up. Raises UnknownSchedule.
    """

    def start(tx: Transaction, row: ScheduleRow) -> int:
        return tx.change("outbox", "periodic_resume", name=name, next_ms=rows.next_tick(row))

    return _change(store, name, clock, actor, "periodic resume", start)


@operation
def run_now(store: Store, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> None:
    """Make a schedule tick once now, in addition to its regular ticks; a worker takes it within seconds.

    Raises UnknownSchedule, SchedulePaused.
    """

    def hasten(tx: Transaction, row: ScheduleRow) -> int:
        if row.paused:
            raise SchedulePaused(name)
        tx.change("outbox", "periodic_hasten", name=name, next_ms=row.now_ms)
        return 1

    _change(store, name, clock, actor, "periodic run-now", hasten)


@operation
def remove(store: Store, name: str, *, clock: Clock = SYSTEM, actor: str | None = None) -> None:
    """Delete a schedule that no running worker declares. Raises UnknownSchedule, ScheduleInUse."""

    def delete(tx: Transaction, _: ScheduleRow) -> int:
        workers = len(declared(tx, name, clock))
        if workers:
            raise ScheduleInUse(name, workers)
        tx.change("outbox", "periodic_remove", name=name)
        return 1

    _change(store, name, clock, actor, "periodic remove", delete)


@operation
def examine_schedules(store: Store, clock: Clock = SYSTEM) -> list[DoctorFinding]:
    """Return a finding for each schedule that fails or is late."""
    found = store.database.look(lambda tx: _page(tx, clock, limit=1000)).items
    return [_finding(each) for each in found if each.state in (ScheduleState.FAILING, ScheduleState.LATE)]


def _finding(shown: ScheduleShown) -> DoctorFinding:
    state = PartState.LOW
    if shown.state is ScheduleState.FAILING:
        found = f"its tick failed {shown.failures} times: {shown.error}"
        remedy = "fix its function; the tick is retried"
    else:
        found = f"a tick has been due since {shown.next_at:%Y-%m-%d %H:%M:%S}Z, and "
        found += "its function has not returned" if shown.workers else "no running worker declares it"
        remedy = "find out why its function does not return"
        if not shown.workers:
            remedy = "start a worker of the program that declares it, or: penstock periodic remove"
            state = PartState.NOTE
    return DoctorFinding(f"Schedule {shown.name}", state, found, "an event at each of its ticks", remedy)


def _page(
    tx: Transaction,
    clock: Clock,
    *,
    limit: int,
    after: str = "",
    name: str | None = None,
    seen: SeesTopic = every_topic,
) -> Page[ScheduleShown]:
    own = own_ms(clock)

    def read(after: str) -> list[Row]:
        return tx.rows("operate", "periodic_list", after=after, name=name, limit=limit + 1, now_ms=own)

    found = seen_by_name(read, after, limit, lambda row: seen(decode_definition(row[1]).topic))
    return page(found, limit, 1, lambda row: _shown(row, declared(tx, row[0], clock)))


def _shown(row: Row, fingerprints: list[str]) -> ScheduleShown:
    name, text, version, since_ms, last_ms, next_ms, paused, failures, error, failed_ms, now_ms = row
    definition: Definition = decode_definition(text)
    workers = fingerprints.count(fingerprint(text))
    is_late = now_ms - next_ms > PeriodicSettings.load().grace_ms
    state = ScheduleState.FAILING if failures else ScheduleState.LATE if is_late else ScheduleState.TICKING
    last_at, failed_at = (None if ms is None else from_ms(ms) for ms in (last_ms, failed_ms))
    return ScheduleShown(
        name,
        ScheduleState.PAUSED if paused else state,
        definition.words,
        definition.catch_up.value,
        definition.type,
        definition.topic,
        version,
        from_ms(since_ms),
        last_at,
        None if paused else from_ms(next_ms),
        workers,
        len(fingerprints) - workers,
        failures,
        error,
        failed_at,
    )


def _ticks(row: ScheduleRow) -> Iterator[int]:
    definition = decode_definition(row.definition)
    tick_ms = row.next_ms if row.next_ms > row.now_ms else rows.next_tick(row)
    while True:
        yield tick_ms
        tick_ms = definition.rule.after(tick_ms)


def _change(
    store: Store,
    name: str,
    clock: Clock,
    actor: str | None,
    action: str,
    act: Callable[[Transaction, ScheduleRow], int],
) -> bool:
    """Act on a locked schedule; audit that if it changed anything, and return whether it did."""

    def change(tx: Transaction) -> bool:
        row = rows.lock(tx, storable(name), own_ms(clock))
        if row is None:
            raise UnknownSchedule(name)
        changed = bool(act(tx, row))
        if changed:
            audit.write(tx, action, {"schedule": name}, 1, own_ms(clock), actor=actor)
        return changed

    return store.database.run(change)
