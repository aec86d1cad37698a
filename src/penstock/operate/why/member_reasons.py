"""The reasons why records wait inside a living member, from the status in its row. No I/O.

A member writes its status with its heartbeat, so an answer may be some seconds old.
"""

from penstock.membership.filters import wanted
from penstock.membership.serving import CallStatus, GroupStatus, LimitStatus

from . import sentences as say
from .answer import Code, Reason
from .finder import Logged
from .members import Served, Service
from .wording import counted, lasting

SLOW_MS = 10_000  # a call that has lasted this long counts as the reason


def troubled(served: Served, where: str) -> Reason | None:
    """Return why the owner of a partition cannot work at all; None while it can."""
    if served.service is Service.STOPPED:
        return Reason(Code.STOPPED, say.stopped(served.name, where), commands=(say.resume_process(served),))
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
        return Reason(Code.CAREFUL, say.on_trial(served.name, since_ms, now_ms), since_ms)
    limit = next((each for each in status.limits if _concerns(each, record)), None)
    oldest = status.calls[0] if status.calls else None
    slow = oldest if oldest is not None and now_ms - oldest.since_ms >= SLOW_MS else None
    if limit is not None and limit.until_ms is not None:
        return Reason(Code.RATE, say.limited(limit, now_ms), until_ms=limit.until_ms)
    if limit is not None:
        return Reason(Code.BUSY, f"{say.limited(limit, now_ms)}{_longest(oldest, now_ms)}")
    if status.waiting:
        text = (
            f"{counted(status.waiting, 'record')} {'waits' if status.waiting == 1 else 'wait'} for a free "
            f"thread of {served.name}, where {counted(status.running, 'call')} "
            f"{'is' if status.running == 1 else 'are'} running{_longest(oldest, now_ms)}; more workers "
            "or a higher processing.concurrency would help"
        )
        return Reason(Code.BUSY, text, None if oldest is None else oldest.since_ms)
    if slow is not None and record is None:
        return Reason(Code.SLOW_HANDLER, say.in_call(slow, now_ms, slow.place), slow.since_ms)
    return None


def hanging(served: Served, group: str, now_ms: int) -> str:
    """Return a sentence about given-up calls of a group that still hang in its member; empty if none do."""
    status = served.status.group(group)
    if not status.hung or status.since_ms is None:
        return ""
    calls = counted(status.hung, "call")
    hang = "hangs" if status.hung == 1 else "hang"
    return (
        f"{calls} of handler {status.handler} {hang} beyond the time limit in {served.name}, the first for "
        f"{lasting(now_ms - status.since_ms)}"
    )


def _concerns(limit: LimitStatus, record: Logged | None) -> bool:
    return record is None or wanted([limit.match], record.topic.name, record.type) is not False


def _longest(call: CallStatus | None, now_ms: int) -> str:
    if call is None:
        return ""
    return f", the longest for {lasting(now_ms - call.since_ms)} (handler {call.handler}, {call.place})"
