"""An operator's tools: dead letters, waiting lanes, scheduled and periodic events, why an event waits."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from penstock.access.resource import CLUSTER, AccessRight, group, topic
from penstock.errors import NotAllowed, UnknownScheduled
from penstock.operate import dead, lanes, periodic, scheduled
from penstock.operate.dead import DeadLetter, DeadSelection, LetterOutcome
from penstock.operate.lanes import WaitingLane
from penstock.operate.paging import Page
from penstock.operate.periodic import ScheduleShown
from penstock.operate.scheduled import ScheduledEvent, ScheduledSelection
from penstock.operate.why import Answer as WhyAnswer
from penstock.operate.why import why

from .call import RestCall
from .groups import Changed
from .operations import GROUP, PAGING, Operation, Parameter, RestAnswer
from .shapes import RecordShown, record_shown

ShortText = Annotated[str, msgspec.Meta(max_length=1024)]


class DeadShown(msgspec.Struct):
    """A dead letter with its record."""

    letter: DeadLetter
    record: RecordShown
    damage: str | None


class DeadDecision(msgspec.Struct, forbid_unknown_fields=True):
    """A decision on some dead letters of a group; `all` for all of them.

    `requeue` puts them back, `skip` lets their keys go on without them, `discard` drops them.
    """

    decision: Literal["requeue", "skip", "discard"]
    id: ShortText | None = None
    key: ShortText | None = None
    type: ShortText | None = None
    topic: ShortText | None = None
    since: datetime | None = None
    before: datetime | None = None
    error: ShortText | None = None
    all: bool = False
    last: bool = False
    dry_run: bool = False


def dead_letters(call: RestCall) -> Page[DeadLetter]:
    """Return a page of dead letters."""
    of = call.get("group", str)
    call.allow(AccessRight.DESCRIBE, CLUSTER if of is None else group(of))
    call.allow_topic(call.get("topic", str))
    narrowed = _given(call, "topic", "id", "key", "type", "error", "after")
    found = dead.dead_letters(call.store, group=of, limit=call.of("limit", int), **narrowed)
    return call.of_topics_seen(found)


def dead_shown(call: RestCall) -> DeadShown:
    """Return a dead letter with its record."""
    name, of = call.of("group", str), call.of("topic", str)
    call.allow(AccessRight.DESCRIBE, group(name))
    call.allow(AccessRight.READ, topic(of))
    found = dead.show(call.store, name, of, call.of("partition", int), call.of("offset", int))
    return DeadShown(found.letter, record_shown(found.record), found.damage)


def decide(call: RestCall) -> LetterOutcome:
    """Decide on dead letters of a group."""
    name, said = call.of("group", str), call.json(DeadDecision)
    call.allow(AccessRight.ALTER, group(name))
    call.allow_topic(said.topic)
    picked = DeadSelection(
        group=name,
        id=said.id,
        key=said.key,
        type=said.type,
        topic=said.topic,
        since=said.since,
        before=said.before,
        all=said.all,
        error=said.error,
    )
    more: dict[str, Any] = {"dry_run": said.dry_run, "actor": call.actor}
    if said.decision == "requeue":
        return dead.requeue(call.store, picked, last=said.last, **more)
    return (dead.skip if said.decision == "skip" else dead.discard)(call.store, picked, **more)


def waiting(call: RestCall) -> Page[WaitingLane]:
    """Return a page of waiting lanes."""
    of = call.get("group", str)
    call.allow(AccessRight.DESCRIBE, CLUSTER if of is None else group(of))
    narrowed = _given(call, "topic", "key", "after")
    call.allow_topic(call.get("topic", str))
    held = call.get("held", bool)
    found = lanes.lanes(call.store, group=of, held=held, limit=call.of("limit", int), **narrowed)
    return call.of_topics_seen(found)


def asked_why(call: RestCall) -> list[WhyAnswer]:
    """Return why an event has not been delivered."""
    of = call.get("group", str)
    call.allow(AccessRight.DESCRIBE, CLUSTER if of is None else group(of))
    call.allow_topic(call.get("topic", str))
    narrowed = _given(call, "topic", "key")
    return why(call.store, call.of("subject", str), group=of, seen=call.sees_topic, **narrowed)


def scheduled_events(call: RestCall) -> Page[ScheduledEvent]:
    """Return a page of scheduled events."""
    of = call.get("topic", str)
    call.allow(AccessRight.DESCRIBE, CLUSTER if of is None else topic(of))
    picked = ScheduledSelection(topic=of, key=call.get("key", str), owner=call.get("owner", str))
    return scheduled.scheduled(call.store, picked, after=call.get("after", str), limit=call.of("limit", int))


def scheduled_shown(call: RestCall) -> ScheduledEvent:
    """Return a scheduled event."""
    return _scheduled(call, AccessRight.DESCRIBE)


def cancel(call: RestCall) -> RestAnswer:
    """Cancel a scheduled event."""
    found = _scheduled(call, AccessRight.DELETE)
    count = scheduled.cancel(call.store, ScheduledSelection(id=found.id), actor=call.actor)
    return RestAnswer(Changed(bool(count)))


def run_scheduled(call: RestCall) -> RestAnswer:
    """Make a scheduled event due now."""
    found = _scheduled(call, AccessRight.ALTER)
    scheduled.run_now(call.store, found.id, actor=call.actor)
    return RestAnswer(Changed(True))


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


def schedules(call: RestCall) -> Page[ScheduleShown]:
    """Return a page of the schedules."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return periodic.schedules(call.store, after=call.get("after", str), limit=call.of("limit", int))


def schedule(call: RestCall) -> ScheduleShown:
    """Return a schedule."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return periodic.show(call.store, call.of("schedule", str))


def _acts(act: Callable[..., bool | None]) -> Callable[[RestCall], Changed]:
    def acts(call: RestCall) -> Changed:
        call.allow(AccessRight.ALTER, CLUSTER)
        done = act(call.store, call.of("schedule", str), actor=call.actor)
        return Changed(done is not False)

    return acts


def _given(call: RestCall, *names: str) -> dict[str, Any]:
    return {name: call.get(name, str) for name in names}


def _narrowing(**names: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, help=text) for name, text in names.items())


def _row(
    tag: str,
    id: str,
    method: str,
    path: str,
    summary: str,
    call: Callable[[RestCall], Any],
    answer: Any,
    *parameters: Parameter,
    body: Any = None,
) -> Operation:
    return Operation(
        method=method,
        path=path,
        id=id,
        summary=summary,
        tag=tag,
        call=call,
        parameters=parameters,
        takes={} if body is None else {"application/json": body},
        answers={200: answer},
    )


_ID = Parameter("id", place="path", help="The id of an event.", longest=255)
_SCHEDULE = Parameter("schedule", place="path", help="The name of a schedule.", longest=255)
_OF = _narrowing(group="Only of this group.", topic="Only on this topic.", key="Only of this key.")
_DEAD = "/v1/groups/{group}/dead"
_PLACE = (
    GROUP,
    Parameter("topic", place="path", longest=249),
    Parameter("partition", int, place="path", least=0, most=9_999),
    Parameter("offset", int, place="path", least=0, most=(1 << 63) - 1),
)
_HELD = Parameter("held", bool, "Only those that wait for a person, or only the others.")
_SUBJECT = Parameter("subject", help="An id, a key or the name of a group.", required=True)

OPERATING = (
    _row(
        "dead letters",
        "list_dead",
        "GET",
        "/v1/dead",
        "List dead letters, the newest first.",
        dead_letters,
        Page[DeadLetter],
        *_OF,
        *_narrowing(
            id="Only of this record.", type="Only of this type.", error="Only those whose reason begins so."
        ),
        *PAGING,
    ),
    _row(
        "dead letters",
        "show_dead",
        "GET",
        f"{_DEAD}/{{topic}}/{{partition}}/{{offset}}",
        "Show a dead letter with its record.",
        dead_shown,
        DeadShown,
        *_PLACE,
    ),
    _row(
        "dead letters",
        "decide_dead",
        "POST",
        _DEAD,
        "Put dead letters back, let their keys go on, or let them go.",
        decide,
        LetterOutcome,
        GROUP,
        body=DeadDecision,
    ),
    _row(
        "lanes",
        "list_lanes",
        "GET",
        "/v1/lanes",
        "List waiting lanes.",
        waiting,
        Page[WaitingLane],
        *_OF,
        _HELD,
        *PAGING,
    ),
    _row(
        "why",
        "why",
        "GET",
        "/v1/why",
        "Say why it has not been delivered.",
        asked_why,
        list[WhyAnswer],
        _SUBJECT,
        *_OF,
    ),
    _row(
        "scheduled",
        "list_scheduled",
        "GET",
        "/v1/scheduled",
        "List scheduled events, the next first.",
        scheduled_events,
        Page[ScheduledEvent],
        *_narrowing(topic="Only for this topic.", key="Only of this key.", owner="Only with this tag."),
        *PAGING,
    ),
    _row(
        "scheduled",
        "show_scheduled",
        "GET",
        "/v1/scheduled/{id}",
        "Show one.",
        scheduled_shown,
        ScheduledEvent,
        _ID,
    ),
    _row(
        "scheduled",
        "cancel_scheduled",
        "DELETE",
        "/v1/scheduled/{id}",
        "Take one back.",
        cancel,
        Changed,
        _ID,
    ),
    _row(
        "scheduled",
        "run_scheduled",
        "POST",
        "/v1/scheduled/{id}/run",
        "Make one due now.",
        run_scheduled,
        Changed,
        _ID,
    ),
    _row(
        "periodic",
        "list_schedules",
        "GET",
        "/v1/periodic",
        "List schedules.",
        schedules,
        Page[ScheduleShown],
        *PAGING,
    ),
    _row(
        "periodic",
        "show_schedule",
        "GET",
        "/v1/periodic/{schedule}",
        "Show one.",
        schedule,
        ScheduleShown,
        _SCHEDULE,
    ),
    *(
        _row(
            "periodic",
            f"{word}_schedule",
            "POST",
            f"/v1/periodic/{{schedule}}/{word}",
            summary,
            _acts(act),
            Changed,
            _SCHEDULE,
        )
        for word, summary, act in (
            ("pause", "Let it tick no more.", periodic.pause),
            ("resume", "Let it go on.", periodic.resume),
            ("run", "Let it tick now, once.", periodic.run_now),
        )
    ),
    _row(
        "periodic",
        "remove_schedule",
        "DELETE",
        "/v1/periodic/{schedule}",
        "Forget one that no worker declares.",
        _acts(periodic.remove),
        Changed,
        _SCHEDULE,
    ),
)
