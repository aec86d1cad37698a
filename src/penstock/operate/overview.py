"""A store at a glance: throughput, waiting keys, members. Every count has a bound.

One transaction reads it all, so the figures fit together, with a fixed number of statements for any number of
groups and topics.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.database.contract import Row
from penstock.database.database import Transaction
from penstock.delivery.cursor_state import DoneSet
from penstock.delivery.groups import read_waiting
from penstock.log.contract import Log
from penstock.log.store import Store

from .members import MemberShown, members_in
from .operation import operation
from .progress import progress_of, progress_on, readers

COUNTED = 10_000  # unbounded counts stop here
_MOST_GROUPS = 1000


@dataclass(frozen=True, slots=True)
class GroupGlance:
    """A group: the offsets it has passed in total, its lag, and its waiting keys and dead letters.

    `parked`, `held` and `dead` are counted up to `COUNTED`.
    """

    name: str
    kind: str
    topics: tuple[str, ...]
    passed: int
    lag: int
    oldest_unread_at: datetime | None
    parked: int
    held: int
    dead: int
    paused_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoreOverview:
    """A store at a moment. `logged`: all offsets its topics ever gave; `records`: those still kept.

    `staged` and `scheduled` are counted up to `counted`, as are the counts of the groups.
    """

    at: datetime
    topics: int
    logged: int
    records: int
    staged: int
    staged_since: datetime | None
    scheduled: int
    next_due_at: datetime | None
    groups: tuple[GroupGlance, ...]
    members: tuple[MemberShown, ...]
    counted: int = COUNTED


@operation
def overview(store: Store, *, clock: Clock = SYSTEM) -> StoreOverview:
    """Return the current overview of a store, with the first thousand groups by name."""

    def look(tx: Transaction) -> StoreOverview:
        now_ms, log = tx.now_ms(own_ms(clock)), store.log_in(tx)
        topics = log.topics()
        bounds = [each for found in log.bounds_of(topics).values() for each in found.values()]
        ((staged, scheduled, since_ms, due_ms),) = tx.rows("outbox", "gauge_backlog", most=COUNTED)
        return StoreOverview(
            from_ms(now_ms),
            len(topics),
            sum(each.end for each in bounds),
            sum(each.end - each.start for each in bounds),
            staged,
            None if since_ms is None else from_ms(since_ms),
            scheduled,
            None if due_ms is None else from_ms(due_ms),
            tuple(sorted([*_groups(tx, log), *_readers(log)], key=lambda each: each.name)),
            tuple(members_in(tx, clock)),
        )

    return store.database.look(look)


def _groups(tx: Transaction, log: Log) -> Iterable[GroupGlance]:
    listed = tx.rows("operate", "group_list", after="", limit=_MOST_GROUPS)
    numbers = [row[1] for row in listed]
    if not numbers:
        return
    done: dict[int, int] = {}
    for group, _, bitmap in tx.rows("operate", "group_passed", groups=numbers):
        done[group] = done.get(group, 0) + DoneSet.count_in(bitmap)
    places = tx.rows("operate", "group_places", groups=numbers)
    waiting = read_waiting(tx, COUNTED)
    passed, progress = _passed(places), _progress(log, places)
    for name, id, _, paused_ms, _, kind in listed:
        topics, lag, oldest_ms = progress.get(id, ((), 0, None))
        ahead = done.get(id, 0)
        lag = max(0, lag - ahead)
        parked, held, dead = waiting.get(name, (0, 0, 0))
        yield GroupGlance(
            name,
            kind,
            topics,
            passed.get(id, 0) + ahead,
            lag,
            None if oldest_ms is None or not lag else from_ms(oldest_ms),
            parked,
            held,
            dead,
            None if paused_ms is None else from_ms(paused_ms),
        )


def _readers(log: Log) -> Iterable[GroupGlance]:
    """Yield the readers that are not groups, such as pipelines."""
    found = readers(log)
    passed = [sum(sum(offsets.values()) for offsets in each.places.values()) for each in found]
    topics: dict[int, list[tuple[str, int, int | None]]] = {}
    for each in progress_on(log, found):
        topics.setdefault(each.group_id, []).append((each.topic.name, each.lag, each.oldest_ms))
    for number, reader in enumerate(found):
        names, lag, oldest_ms = _summed(topics.get(number, []))
        oldest = None if oldest_ms is None else from_ms(oldest_ms)
        yield GroupGlance(reader.name, "pipeline", names, passed[number], lag, oldest, 0, 0, 0, None)


def _passed(places: list[Row]) -> dict[int, int]:
    passed: dict[int, int] = {}
    for group, _, _, offset in places:
        passed[group] = passed.get(group, 0) + offset
    return passed


def _progress(log: Log, places: list[Row]) -> dict[int, tuple[tuple[str, ...], int, int | None]]:
    found: dict[int, list[tuple[str, int, int | None]]] = {}
    for each in progress_of(log, places):
        found.setdefault(each.group_id, []).append((each.topic.name, each.lag, each.oldest_ms))
    return {group: _summed(parts) for group, parts in found.items()}


def _summed(parts: list[tuple[str, int, int | None]]) -> tuple[tuple[str, ...], int, int | None]:
    oldest = min((ms for _, _, ms in parts if ms is not None), default=None)
    return tuple(sorted(name for name, _, _ in parts)), sum(lag for _, lag, _ in parts), oldest
