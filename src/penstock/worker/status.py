"""A worker's reports: its status to other processes, its health to its own, its start to the log.

The status names the calls that take long, and the reasons why other records wait. It is built from any
thread, at each heartbeat. It covers only conditions that last, within bounds: a heartbeat stays small.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata

from msgspec.structs import replace

from penstock.clock import Clock, to_ms
from penstock.errors.settings import DISTRIBUTION
from penstock.membership.status import CallStatus, GroupStatus, LimitStatus, MemberStatus

from .calling.hung_calls import GivenUpGroup, HungCalls
from .calling.limiter import Limiter
from .handler import HandlerTask
from .subscription import Subscription

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
    groups = []
    for name in _named(calls, waiting, limited, [*hanging, *hung.given_up]):
        own = sorted(_of(name, calls, now), key=lambda each: each[0])
        hangs = hanging.get(name)
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


def _named(
    calls: Sequence[tuple[HandlerTask, float]],
    waiting: Mapping[str, int],
    limited: Sequence[tuple[Limiter, int, float | None]],
    hung: Sequence[str],
) -> list[str]:
    busy = {task.handler.group for task, _ in calls}
    return sorted(busy | set(waiting) | {each[0].handler.group for each in limited} | set(hung))


def _of(group: str, calls: Sequence[tuple[HandlerTask, float]], now: float) -> list[tuple[float, HandlerTask]]:
    """Return the calls of a group that take long."""
    return [(since, task) for task, since in calls if task.handler.group == group and now - since >= LONG_SECONDS]


def _call(task: HandlerTask, since_ms: int) -> CallStatus:
    place = f"{task.handler.topic}/{task.place.partition}/{task.place.offset}"
    return CallStatus(task.handler.id, place, since_ms, task.handler.timeout_seconds)


def _limit(limiter: Limiter, waiting: int, until_ms: int | None) -> LimitStatus:
    handler = limiter.handler
    match = tuple(f"{handler.topic}:{text}" for text in handler.match_texts()[:_MATCHES])
    bound = f"concurrency={limiter.limit}" if until_ms is None else f"rate={handler.rate:g}/s"
    return LimitStatus(handler.id, match, bound, waiting, until_ms)


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """The groups of a worker, and those that it does not serve because too many of their calls hang.

    `refusal`: why it has ended, if it can no longer use the tables. `workers`: how many run; 0 if none has
    been started, or all have ended. `lease_seconds`: how long its lease still runs without another heartbeat,
    below 0 once it has run out; None while it has not joined. `stopping`: it finishes its work and takes no
    more. `calls`: how many records of each group are with a handler.
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
    """Log the Penstock version, its store and groups, and how many members are present now.

    `where`: the store's address without its password.
    """
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
