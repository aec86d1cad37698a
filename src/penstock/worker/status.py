"""A worker's reports: its status to other processes, its health to its own, its start to the log, its gauges.

The status names the calls that take long, and the reasons why other records wait: only conditions that last, within
bounds. The gauges of the whole store are read in one transaction once a minute, so that they fit together; every count
has a bound, and a scrape costs the store nothing.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata

from msgspec.structs import replace

from penstock import metrics
from penstock.clock import SYSTEM, Clock, own_ms, to_ms
from penstock.database.database import Transaction
from penstock.delivery.groups import measure_unread, read_cursors, read_waiting
from penstock.errors.settings import DISTRIBUTION
from penstock.log.contract import Bounds, Position, Topic
from penstock.log.store import Store
from penstock.membership.member import Member
from penstock.membership.serving import CallStatus, GroupStatus, LimitStatus, MemberStatus
from penstock.metrics import Series
from penstock.outbox.sequencer import read_backlog

from .calling.hung_calls import GivenUpGroup, HungCalls
from .calling.limiter import Limiter
from .handler import HandlerTask, Subscription

LONG_SECONDS = 1.0  # a call that has lasted this long is reported
_GROUPS, _CALLS, _LIMITS, _MATCHES, _CHARACTERS = 20, 10, 10, 20, 200
_LONGEST_SECONDS = 1e9  # a rate without a share is never due


def status_of(
    clock: Clock,
    *,
    calls: Sequence[tuple[HandlerTask, float]],
    waiting: Mapping[str, int],
    limited: Sequence[tuple[Limiter, int, float | None]],
    hung: HungCalls,
    trial_since: float | None,
    trouble: str,
) -> MemberStatus:
    """Return the status of the delivery loop and its calls; moments are those of the monotonic clock."""
    now, now_ms = clock.monotonic(), clock.now_ms()

    def moment_ms(moment: float) -> int:
        return now_ms + int(min(moment - now, _LONGEST_SECONDS) * 1000)

    hanging = {each.group: each for each in hung.hanging()}
    limits = {each[0].handler.group for each in limited}
    long = sorted(((since, task) for task, since in calls if now - since >= LONG_SECONDS), key=lambda each: each[0])
    groups = []
    for name in sorted({task.handler.group for task, _ in calls}.union(waiting, limits, hanging, hung.given_up)):
        own, hangs = [each for each in long if each[1].handler.group == name], hanging.get(name)
        status = GroupStatus(
            name,
            calls=tuple(_call(task, moment_ms(since)) for since, task in own[:_CALLS]),
            limits=tuple(
                _limit(limiter, count, None if due is None else moment_ms(due))
                for limiter, count, due in limited
                if limiter.handler.group == name
            )[:_LIMITS],
            hung=0 if hangs is None else hangs.calls,
            handler="" if hangs is None else hangs.handler,
            since_ms=None if hangs is None else to_ms(hangs.since),
            given_up=name in hung.given_up,
        )
        if waiting.get(name):
            status = replace(status, running=len(calls), waiting=waiting[name])
        groups.append(status)
    return MemberStatus(
        tuple(each for each in groups if each != GroupStatus(each.name))[:_GROUPS],
        None if trial_since is None else moment_ms(trial_since),
        {"delivery": trouble[:_CHARACTERS]} if trouble else {},
    )


def with_services(status: MemberStatus, *, sequencing: str, polls: str) -> MemberStatus:
    """Return a status with that of the services beside the delivery loop added."""
    troubles = status.troubles | ({"sequencing": sequencing[:_CHARACTERS]} if sequencing else {})
    return replace(status, troubles=troubles, polls=polls[:_CHARACTERS])


def _call(task: HandlerTask, since_ms: int) -> CallStatus:
    place = f"{task.handler.topic}/{task.place.partition}/{task.place.offset}"
    return CallStatus(task.handler.id, place, since_ms, task.handler.timeout)


def _limit(limiter: Limiter, waiting: int, until_ms: int | None) -> LimitStatus:
    handler = limiter.handler
    match = tuple(f"{handler.topic}:{text}" for text in handler.match_texts()[:_MATCHES])
    bound = f"concurrency={limiter.limit}" if until_ms is None else f"rate={handler.rate:g}/s"
    return LimitStatus(handler.id, match, bound, waiting, until_ms)


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """The groups of a worker, and those that it does not serve because too many of their calls hang.

    `refusal`: why it has ended, if it cannot use the tables. `workers`: how many run. `lease_seconds`: how long its
    lease still runs, below 0 once it has run out; None before it joins. `stopping`: it takes no more work. `calls`: how
    many records of each group are with a handler.
    """

    groups: tuple[str, ...] = ()
    given_up: tuple[GivenUpGroup, ...] = ()
    refusal: str = ""
    workers: int = 0
    lease_seconds: float | None = None
    stopping: bool = False
    calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_well(self) -> bool:
        """Whether it serves all its groups."""
        return not self.given_up and not self.refusal


def joined(found: Sequence[WorkerHealth]) -> WorkerHealth:
    """Return the health of several workers as one: the worst of each value."""
    leases = [each.lease_seconds for each in found]
    return WorkerHealth(
        groups=tuple(sorted({group for each in found for group in each.groups})),
        given_up=tuple(given_up for each in found for given_up in each.given_up),
        refusal=next((each.refusal for each in found if each.refusal), ""),
        workers=sum(each.workers for each in found),
        lease_seconds=None if None in leases else min((each for each in leases if each is not None), default=None),
        stopping=any(each.stopping for each in found),
        calls=sum((Counter(each.calls) for each in found), Counter[str]()),
    )


logger = logging.getLogger("penstock.worker")


def log_start(where: str, subscriptions: Sequence[Subscription], member: str, members: int) -> None:
    """Log the version, the store (its address without a password), the groups, and the members present now."""
    handlers: dict[str, list[str]] = {}
    for each in subscriptions:
        handlers.setdefault(each.group, []).extend(handler.id for handler in each.handlers)
    number = own_version()
    lines = [f"penstock {number} has joined as member {member}", f"  store    {where}"]
    lines += [f"  group    {group}: {', '.join(ids)}" for group, ids in handlers.items()]
    lines += [f"  members  {members} there now, this one included"]
    fields = {
        "event": "started",
        "version": number,
        "store": where,
        "groups": list(handlers),
        "handlers": [id for ids in handlers.values() for id in ids],
        "member": member,
        "members": members,
    }
    logger.info("\n".join(["%s"] * len(lines)), *lines, extra=fields)  # each on a line of its own


def own_version() -> str:
    """Return the version of Penstock; "unknown" for a copy that was never installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"


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
    known = [each for each in moments if each is not None]
    return max(0, now_ms - min(known)) / 1000 if known else 0.0
