"""Scheduled events, and the schedules of periodic ones."""

from penstock.access.resource import CLUSTER, AccessRight, topic
from penstock.errors import NotAllowed, UnknownScheduled
from penstock.operate import periodic, scheduled
from penstock.operate.operation import Page
from penstock.operate.periodic import ScheduleShown
from penstock.operate.scheduled import ScheduledEvent, ScheduledSelection

from .administration import Changed
from .call import RestCall
from .operations import PAGING, Operations, Parameter, narrowing

_ONE, _ID = "/v1/scheduled/{id}", Parameter("id", place="path", help="The id of an event.", longest=255)
_NAMED = "/v1/periodic/{schedule}"
_SCHEDULE = Parameter("schedule", place="path", help="The name of a schedule.", longest=255)
SCHEDULED, PERIODIC = Operations("scheduled"), Operations("periodic")


@SCHEDULED.add(
    "GET",
    "/v1/scheduled",
    *narrowing(topic="Only for this topic.", key="Only of this key.", owner="Only with this tag."),
    *PAGING,
)
def list_scheduled(call: RestCall) -> Page[ScheduledEvent]:
    """List scheduled events, the next first."""
    of = call.get("topic", str)
    call.allow(AccessRight.DESCRIBE, CLUSTER if of is None else topic(of))
    picked = ScheduledSelection(topic=of, **call.texts("key", "owner"))
    after, limit = call.get("after", str), call.of("limit", int)
    return scheduled.scheduled(call.store, picked, after=after, limit=limit, seen=call.sees_topic)


@SCHEDULED.add("GET", _ONE, _ID)
def show_scheduled(call: RestCall) -> ScheduledEvent:
    """Show a scheduled event."""
    return _scheduled(call, AccessRight.DESCRIBE)


@SCHEDULED.add("DELETE", _ONE, _ID)
def cancel_scheduled(call: RestCall) -> Changed:
    """Cancel a scheduled event."""
    found = _scheduled(call, AccessRight.DELETE)
    return Changed(bool(scheduled.cancel(call.store, ScheduledSelection(id=found.id), actor=call.actor)))


@SCHEDULED.add("POST", f"{_ONE}/run", _ID)
def run_scheduled(call: RestCall) -> Changed:
    """Make a scheduled event due now."""
    found = _scheduled(call, AccessRight.ALTER)
    scheduled.run_now(call.store, found.id, actor=call.actor)
    return Changed(True)


def _scheduled(call: RestCall, right: AccessRight) -> ScheduledEvent:
    """Return a scheduled event; one of a hidden topic counts as missing."""
    found = scheduled.show(call.store, call.of("id", str)).event
    try:
        call.allow(right, topic(found.topic))
    except NotAllowed:
        if call.sees_topic(found.topic):
            raise
        raise UnknownScheduled(found.id) from None
    return found


@PERIODIC.add("GET", "/v1/periodic", *PAGING)
def list_schedules(call: RestCall) -> Page[ScheduleShown]:
    """List schedules."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    after, limit = call.get("after", str), call.of("limit", int)
    return periodic.schedules(call.store, after=after, limit=limit, seen=call.sees_topic)


@PERIODIC.add("GET", _NAMED, _SCHEDULE)
def show_schedule(call: RestCall) -> ScheduleShown:
    """Show a schedule."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return periodic.show(call.store, call.of("schedule", str), seen=call.sees_topic)


@PERIODIC.add("POST", f"{_NAMED}/pause", _SCHEDULE)
def pause_schedule(call: RestCall) -> Changed:
    """Pause a schedule."""
    return Changed(periodic.pause(call.store, _altered(call), actor=call.actor))


@PERIODIC.add("POST", f"{_NAMED}/resume", _SCHEDULE)
def resume_schedule(call: RestCall) -> Changed:
    """Resume a schedule; ticks that it missed are not caught up."""
    return Changed(periodic.resume(call.store, _altered(call), actor=call.actor))


@PERIODIC.add("POST", f"{_NAMED}/run", _SCHEDULE)
def run_schedule(call: RestCall) -> Changed:
    """Make a schedule tick once now, in addition to its regular ticks."""
    periodic.run_now(call.store, _altered(call), actor=call.actor)
    return Changed(True)


@PERIODIC.add("DELETE", _NAMED, _SCHEDULE)
def remove_schedule(call: RestCall) -> Changed:
    """Remove a schedule that no running worker declares."""
    periodic.remove(call.store, _altered(call), actor=call.actor)
    return Changed(True)


def _altered(call: RestCall) -> str:
    """Return the name of the schedule to change; check the right to. A schedule of a hidden topic counts as missing."""
    call.allow(AccessRight.ALTER, CLUSTER)
    return periodic.show(call.store, call.of("schedule", str), seen=call.sees_topic).name
