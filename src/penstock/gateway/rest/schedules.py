"""Scheduled events, and the schedules of periodic ones."""

from collections.abc import Callable

from penstock.access.resource import CLUSTER, AccessRight, topic
from penstock.errors import NotAllowed, UnknownScheduled
from penstock.operate import periodic, scheduled
from penstock.operate.operation import Page
from penstock.operate.periodic import ScheduleShown
from penstock.operate.scheduled import ScheduledEvent, ScheduledSelection

from .call import RestCall
from .groups import Changed
from .operations import PAGING, Operations, Parameter, narrowing

_ONE, _ID = "/v1/scheduled/{id}", Parameter("id", place="path", help="The id of an event.", longest=255)
_NAMED = "/v1/periodic/{schedule}"
_SCHEDULE = Parameter("schedule", place="path", help="The name of a schedule.", longest=255)
SCHEDULED, PERIODIC = Operations("scheduled"), Operations("periodic")


@SCHEDULED.add(
    "GET",
    "/v1/scheduled",
    "list_scheduled",
    "List scheduled events, the next first.",
    *narrowing(topic="Only for this topic.", key="Only of this key.", owner="Only with this tag."),
    *PAGING,
)
def scheduled_events(call: RestCall) -> Page[ScheduledEvent]:
    """Return a page of scheduled events."""
    of = call.get("topic", str)
    call.allow(AccessRight.DESCRIBE, CLUSTER if of is None else topic(of))
    picked = ScheduledSelection(topic=of, **call.texts("key", "owner"))
    return scheduled.scheduled(call.store, picked, after=call.get("after", str), limit=call.of("limit", int))


@SCHEDULED.add("GET", _ONE, "show_scheduled", "Show one.", _ID)
def scheduled_shown(call: RestCall) -> ScheduledEvent:
    """Return a scheduled event."""
    return _scheduled(call, AccessRight.DESCRIBE)


@SCHEDULED.add("DELETE", _ONE, "cancel_scheduled", "Take one back.", _ID)
def cancel(call: RestCall) -> Changed:
    """Cancel a scheduled event."""
    found = _scheduled(call, AccessRight.DELETE)
    return Changed(bool(scheduled.cancel(call.store, ScheduledSelection(id=found.id), actor=call.actor)))


@SCHEDULED.add("POST", f"{_ONE}/run", "run_scheduled", "Make one due now.", _ID)
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


@PERIODIC.add("GET", "/v1/periodic", "list_schedules", "List schedules.", *PAGING)
def schedules(call: RestCall) -> Page[ScheduleShown]:
    """Return a page of the schedules."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return periodic.schedules(call.store, after=call.get("after", str), limit=call.of("limit", int))


@PERIODIC.add("GET", _NAMED, "show_schedule", "Show one.", _SCHEDULE)
def schedule(call: RestCall) -> ScheduleShown:
    """Return a schedule."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return periodic.show(call.store, call.of("schedule", str))


def _changing(change: Callable[..., bool | None]) -> Callable[[RestCall], Changed]:
    def changed(call: RestCall) -> Changed:
        call.allow(AccessRight.ALTER, CLUSTER)
        return Changed(change(call.store, call.of("schedule", str), actor=call.actor) is not False)

    return changed


for _word, _summary, _change in (
    ("pause", "Let it tick no more.", periodic.pause),
    ("resume", "Let it go on.", periodic.resume),
    ("run", "Let it tick now, once.", periodic.run_now),
):
    PERIODIC.add("POST", f"{_NAMED}/{_word}", f"{_word}_schedule", _summary, _SCHEDULE)(_changing(_change))
_FORGET = "Forget one that no worker declares."
PERIODIC.add("DELETE", _NAMED, "remove_schedule", _FORGET, _SCHEDULE)(_changing(periodic.remove))
