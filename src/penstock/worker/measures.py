"""The gauges of a whole store: the backlog, the members, the ownership. Each worker takes them once a minute.

They are read in one transaction, so that they fit together; every count has a bound. A scrape of the series
reads the last values: it costs the store nothing.
"""

from collections.abc import Iterable

from penstock import metrics
from penstock.clock import SYSTEM, Clock, own_ms
from penstock.database.database import Transaction
from penstock.delivery.groups import measure_unread, read_cursors, read_waiting
from penstock.log.contract import Bounds, Position, Topic
from penstock.log.store import Store
from penstock.membership.member import Member
from penstock.metrics import Series
from penstock.outbox.sequencer import read_backlog

from .subscription import Subscription

_COUNTED = 100_000  # unbounded numbers are counted no further than this
_BY_GROUP = (
    metrics.PENDING,
    metrics.ASSIGNED,
    metrics.UNASSIGNED,
    metrics.OLDEST_PENDING,
    metrics.WAITING_LANES,
    metrics.HELD_LANES,
    metrics.DEAD_RECORDS,
)
_OF_STORE = (
    metrics.MEMBERS,
    metrics.SLOTS_ASSIGNED,
    metrics.SLOTS_UNASSIGNED,
    metrics.STAGED,
    metrics.SCHEDULED,
    metrics.OLDEST_STAGED,
    metrics.MEASURED,
)
_OF_PROCESS = (metrics.HUNG_CALLS, metrics.GIVEN_UP)
_OF_HANDLER = (metrics.DELIVERED, metrics.PARKED, metrics.DEAD, metrics.UNDECODABLE, metrics.COMPLETED_BY_FALLBACK)


class Measures:
    """The gauges that one worker sets, of one store."""

    def __init__(self, store: Store, member: Member, clock: Clock = SYSTEM) -> None:
        self._store, self._member, self._clock = store, member, clock
        self._groups: set[str] = set()

    def take(self) -> None:
        """Set them all to the present values; remove those of a deleted group."""
        found, of_store = self._store.database.look(self._look)
        name = self._store.name
        for group, values in found.items():
            for series, value in values.items():
                series.set(value, store=name, group=group)
        for gone in self._groups - found.keys():
            for series in _BY_GROUP:
                series.forget(name, gone)
        self._groups = set(found)
        for series, value in zip(_OF_STORE, of_store, strict=True):
            series.set(value, store=name)
        measure_unread(self._store)

    def forget(self) -> None:
        """Remove them: the worker has ended, and its values would only grow old."""
        name = self._store.name
        for series in (*_OF_STORE, *_BY_GROUP, *_OF_PROCESS):
            for labels in [each for each in series.values() if each[0] == name]:
                series.forget(*labels)

    def _look(self, tx: Transaction) -> tuple[dict[str, dict[Series, float]], list[float]]:
        now_ms = tx.now_ms(own_ms(self._clock))
        living = self._member.living(tx)
        groups: dict[str, dict[Series, float]] = {}
        for name, counts in self._cursors(tx, now_ms, living).items():
            groups[name] = dict(zip(_BY_GROUP, counts, strict=False))
        for name, waiting in read_waiting(tx, _COUNTED).items():
            groups.setdefault(name, {}).update(zip(_BY_GROUP[4:], waiting, strict=True))
        slots, backlog = self._member.count_slots(tx, living), read_backlog(tx, _COUNTED)
        oldest = _age(now_ms, [backlog.staged_since_ms, backlog.due_since_ms])
        return groups, [len(living), *slots, backlog.staged, backlog.scheduled, oldest, now_ms / 1000]

    def _cursors(self, tx: Transaction, now_ms: int, living: list[str]) -> dict[str, list[float]]:
        """Return for each group its lag, how many cursors we own and no member owns, and its oldest age."""
        log = self._store.log_in(tx)
        topics = {each.id: each for each in log.topics()}
        bounds = log.bounds_of(list(topics.values()))
        found: dict[str, list[float]] = {}
        behind: dict[str, list[tuple[Topic, Position]]] = {}
        for name, topic_id, partition, offset, mine, free in read_cursors(tx, self._member.id, living):
            counts, places = found.setdefault(name, [0, 0, 0, 0]), behind.setdefault(name, [])
            start, end = bounds.get(topic_id, {}).get(partition, Bounds(0, 0))
            if offset < end:
                counts[0] += end - offset
                places.append((topics[topic_id], Position(partition, max(start, offset))))
            counts[1] += bool(mine)
            counts[2] += bool(free)
        wanted: dict[Topic, set[Position]] = {}
        for topic, place in {each for places in behind.values() for each in places}:
            wanted.setdefault(topic, set()).add(place)
        times = log.times_at(wanted) if wanted else {}
        for name, places in behind.items():
            published = [times.get(topic.id, {}).get(place) for topic, place in places]
            found[name][3] = _age(now_ms, published)
        return found


def begin_series(store: str, subscriptions: Iterable[Subscription]) -> None:
    """Give the series of handlers and their groups a first value: a rise from nothing would not be seen."""
    for subscription in subscriptions:
        group = subscription.group
        metrics.PASSED_OVER.add(0, group=group)
        for gauge in _OF_PROCESS:
            gauge.set(0, store=store, group=group)
        for handler in subscription.handlers:
            metrics.HANDLER_SECONDS.observe(group=group, handler=handler.id)
            for counter in _OF_HANDLER:
                counter.add(0, group=group, handler=handler.id)


def _age(now_ms: int, moments: Iterable[int | None]) -> float:
    """Return how many seconds ago the first of some moments was; 0 without one, or if it is in the future."""
    known = [each for each in moments if each is not None]
    return max(0, now_ms - min(known)) / 1000 if known else 0.0
