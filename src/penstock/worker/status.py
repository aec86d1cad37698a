"""A worker's status for other processes: the calls that take long, and the reasons why other records wait.

It is built from any thread, at each heartbeat. It covers only conditions that last, within bounds, so that a
heartbeat stays small.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from penstock.clock import Clock, to_ms
from penstock.membership.status import CallStatus, GroupStatus, LimitStatus, MemberStatus

from .calling.hung_calls import HungCalls
from .calling.limiter import Limiter
from .task import HandlerTask

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


def _of(
    group: str, calls: Sequence[tuple[HandlerTask, float]], now: float
) -> list[tuple[float, HandlerTask]]:
    """Return the calls of a group that take long."""
    return [
        (since, task) for task, since in calls if task.handler.group == group and now - since >= LONG_SECONDS
    ]


def _call(task: HandlerTask, since_ms: int) -> CallStatus:
    place = f"{task.handler.topic}/{task.place.partition}/{task.place.offset}"
    return CallStatus(task.handler.id, place, since_ms, task.handler.timeout_seconds)


def _limit(limiter: Limiter, waiting: int, until_ms: int | None) -> LimitStatus:
    handler = limiter.handler
    match = tuple(f"{handler.topic}:{text}" for text in handler.match_texts()[:_MATCHES])
    bound = f"concurrency={limiter.limit}" if until_ms is None else f"rate={handler.rate:g}/s"
    return LimitStatus(handler.id, match, bound, waiting, until_ms)
