"""A store at a glance: throughput, waiting keys, members. Every count has a bound.

One transaction reads it all, so the figures fit together, with a fixed number of statements for any number of
groups and topics.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from penstock.clock import SYSTEM, Clock, from_ms, own_ms
from penstock.database.database import Transaction
from penstock.delivery.cursor_state import DoneSet
from penstock.delivery.groups import read_waiting
from penstock.log.contract import Log
from penstock.log.store import Store

from .members import MemberShown, members_in
from .operation import operation
from .progress import GroupProgress, progress_of, progress_on, readers

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
    ahead, passed = Counter[int](), Counter[int]()
    for group, _, bitmap in tx.rows("operate", "group_passed", groups=numbers):
        ahead[group] += DoneSet.count_in(bitmap)
    places = tx.rows("operate", "group_places", groups=numbers)
    for group, _, _, offset in places:
        passed[group] += offset
    waiting, progress = read_waiting(tx, COUNTED), _by_group(progress_of(log, places))
    for name, id, _, paused_ms, _, kind in listed:
        topics, behind, oldest_ms = _summed(progress.get(id, []))
        lag = max(0, behind - ahead[id])
        oldest = None if oldest_ms is None or not lag else from_ms(oldest_ms)
        parked, held, dead = waiting.get(name, (0, 0, 0))
        paused = None if paused_ms is None else from_ms(paused_ms)
        yield GroupGlance(name, kind, topics, passed[id] + ahead[id], lag, oldest, parked, held, dead, paused)


def _readers(log: Log) -> Iterable[GroupGlance]:
    """Yield the readers that are not groups, such as pipelines."""
    found = readers(log)
    progress = _by_group(progress_on(log, found))
    for number, reader in enumerate(found):
        passed = sum(sum(offsets.values()) for offsets in reader.places.values())
        names, lag, oldest_ms = _summed(progress.get(number, []))
        oldest = None if oldest_ms is None else from_ms(oldest_ms)
        yield GroupGlance(reader.name, "pipeline", names, passed, lag, oldest, 0, 0, 0, None)


def _by_group(progress: Iterable[GroupProgress]) -> dict[int, list[GroupProgress]]:
    found: dict[int, list[GroupProgress]] = {}
    for each in progress:
        found.setdefault(each.group_id, []).append(each)
    return found


def _summed(parts: list[GroupProgress]) -> tuple[tuple[str, ...], int, int | None]:
    """Return the topics, the lag and the time of the oldest unread record."""
    oldest = min((each.oldest_ms for each in parts if each.oldest_ms is not None), default=None)
    return tuple(sorted(each.topic.name for each in parts)), sum(each.lag for each in parts), oldest
