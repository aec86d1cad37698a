"""The reasons why records wait inside a living member, from the status in its row. No I/O.

A member writes its status with its heartbeat, so an answer may be some seconds old.
"""

from penstock.membership.filters import wanted
from penstock.membership.serving import CallStatus, GroupStatus

from . import sentences as say
from .answer import Code, Reason, ahead, counted, lasting
from .finder import Logged
from .members import Served, Service

SLOW_MS = 10_000  # a call that has lasted this long counts as the reason


def troubled(served: Served, where: str) -> Reason | None:
    """Return why the owner of a partition cannot work at all; None while it can."""
    if served.service is Service.STOPPED:
        return Reason(Code.STOPPED, say.stopped(served.name, where), commands=(f"kill -CONT {served.pid}",))
    trouble = served.status.troubles.get("delivery")
    if trouble:
        return Reason(Code.TROUBLE, say.troubled(served.name, f"work on {where}", trouble))
    return None


def call_at(status: GroupStatus, place: str) -> CallStatus | None:
    """Return the long-running call that has the record at a place, if any."""
    return next((each for each in status.calls if each.place == place), None)


def busy(served: Served, group: str, record: Logged | None, now_ms: int) -> Reason | None:
    """Return why a group, or its next record, waits inside its member; None if it does not.

    A record whose own call runs waits for that call, whatever the other reasons.
    """
    status = served.status.group(group)
    own = None if record is None else call_at(status, record.place)
    if own is not None:
        code = Code.SLOW_HANDLER if now_ms - own.since_ms >= SLOW_MS else Code.IN_WORK
        return Reason(code, say.in_call(own, now_ms, "it"), own.since_ms)
    since_ms = served.status.trial_since_ms
    if since_ms is not None:
        text = (
            f"{served.name} has started no other calls for {lasting(now_ms - since_ms)}, so that a record that may "
            "have killed a worker is tried alone; it continues after some seconds"
        )
        return Reason(Code.CAREFUL, text, since_ms)
    limits = list(status.limits)
    if record is not None:
        limits = [each for each in limits if wanted([each.match], record.topic.name, record.type) is not False]
    limit = limits[0] if limits else None
    oldest, longest = status.calls[0] if status.calls else None, ""
    if oldest is not None:
        longest = f", the longest for {lasting(now_ms - oldest.since_ms)} (handler {oldest.handler}, {oldest.place})"
    if limit is not None:
        waiting = counted(limit.waiting, "record waits", "records wait")
        text = f"{waiting} at handler {limit.handler}, which is limited to {limit.bound}"
        if limit.until_ms is None:
            return Reason(Code.BUSY, text + longest)
        return Reason(Code.RATE, f"{text}; the next may start {ahead(limit.until_ms, now_ms)}", until_ms=limit.until_ms)
    if status.waiting:
        text = (
            f"{counted(status.waiting, 'record waits', 'records wait')} for a free thread of {served.name}, where "
            f"{counted(status.running, 'call is', 'calls are')} running{longest}; more workers or a higher "
            "processing.concurrency would help"
        )
        return Reason(Code.BUSY, text, None if oldest is None else oldest.since_ms)
    if oldest is not None and now_ms - oldest.since_ms >= SLOW_MS and record is None:
        return Reason(Code.SLOW_HANDLER, say.in_call(oldest, now_ms, oldest.place), oldest.since_ms)
    return None


def hanging(served: Served, group: str, now_ms: int) -> str:
    """Return a sentence about given-up calls of a group that still hang in its member; empty if none do."""
    status = served.status.group(group)
    if not status.hung or status.since_ms is None:
        return ""
    of = f"of handler {status.handler}"
    calls = counted(status.hung, f"call {of} hangs", f"calls {of} hang")
    return f"{calls} beyond the time limit in {served.name}, the first for {lasting(now_ms - status.since_ms)}"
