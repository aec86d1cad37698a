"""Operations on a store at work: its overview, members, audit and access rules; dead letters, lanes, and why an
event waits; scheduled events, and the schedules of periodic ones.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from penstock.access.resource import CLUSTER, AccessRight, Resource, ResourceKind, group, topic
from penstock.errors import InvalidInput, NotAllowed, UnknownScheduled
from penstock.operate import audit, dead, lanes, members, periodic, scheduled
from penstock.operate.audit import AuditEntry
from penstock.operate.dead import DeadLetter, DeadSelection, LetterOutcome
from penstock.operate.dead_views import DeadErrors, dead_errors
from penstock.operate.lanes import WaitingLane
from penstock.operate.members import MemberShown
from penstock.operate.operation import Page
from penstock.operate.overview import StoreOverview
from penstock.operate.overview import overview as store_overview
from penstock.operate.periodic import ScheduleShown
from penstock.operate.scheduled import ScheduledEvent, ScheduledSelection
from penstock.operate.why import Answer as WhyAnswer
from penstock.operate.why import why as answers_to

from .administration import Changed
from .answers import RecordShown, record_shown
from .call import RestCall
from .operations import GROUP, PAGING, Operations, Parameter, narrowing

STORE, ACCESS = Operations("store"), Operations("access")
_DEAD = "/v1/groups/{group}/dead"
_OF = narrowing(group="Only of this group.", topic="Only on this topic.", key="Only of this key.")
_SELECTING = ("id", "key", "type", "topic", "since", "before", "all", "error")
DELIVERY = Operations("dead letters")
_ONE, _ID = "/v1/scheduled/{id}", Parameter("id", place="path", help="The id of an event.", longest=255)
_NAMED = "/v1/periodic/{schedule}"
_SCHEDULE = Parameter("schedule", place="path", help="The name of a schedule.", longest=255)
SCHEDULED, PERIODIC = Operations("scheduled"), Operations("periodic")


class RuleShown(msgspec.Struct):
    """An access rule in force, and its place."""

    rule: str
    place: str


class AccessShown(msgspec.Struct):
    """The names and rules in force; never credentials. `open`: every client may do everything."""

    open: bool
    names: list[dict[str, str]]
    rules: list[RuleShown]


class AccessExplained(msgspec.Struct):
    """Whether a principal has a right, and why."""

    allowed: bool
    why: str


@STORE.add("GET", "/v1/overview")
def overview(call: RestCall) -> StoreOverview:
    """Show the store at a glance."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return of_topics_seen(call, store_overview(call.store, clock=call.door.clock))


def of_topics_seen(call: RestCall, found: StoreOverview) -> StoreOverview:
    """Return an overview of a store without the names of topics that the caller may not know of."""
    groups = [
        replace(each, topics=tuple(name for name in each.topics if call.sees_topic(name))) for each in found.groups
    ]
    return replace(found, groups=tuple(groups))


@STORE.add("GET", "/v1/members")
def list_members(call: RestCall) -> list[MemberShown]:
    """List members."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return members.members(call.store, clock=call.door.clock)


@STORE.add("GET", "/v1/audit", *narrowing(action="Only this action.", actor="Only what this person did."), *PAGING)
def list_audit(call: RestCall) -> Page[AuditEntry]:
    """List who did what, the newest first."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return audit.audit(call.store, limit=call.of("limit", int), **call.texts("action", "actor", "after"))


@ACCESS.add("GET", "/v1/access")
def list_rules(call: RestCall) -> AccessShown:
    """List who there is and the rules."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    access = call.door.access
    found = [RuleShown(str(each), each.place) for each in access.rules]
    return AccessShown(not access.names() and access.admits_anonymous, access.names(), found)


@ACCESS.add(
    "GET",
    "/v1/access/explain",
    Parameter("principal", help="The name of a principal.", required=True, longest=200),
    Parameter("right", help="What to do.", required=True, pattern=f"^({'|'.join(AccessRight)})$"),
    Parameter("kind", help="To what.", required=True, pattern=f"^({'|'.join(ResourceKind)})$"),
    Parameter("name", help="Its name; the cluster has none.", longest=255),
)
def explain_access(call: RestCall) -> AccessExplained:
    """Say whether somebody may do something, and by which rule."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    right, kind = call.of("right", str), call.of("kind", str)
    if right not in list(AccessRight) or kind not in list(ResourceKind):
        raise InvalidInput("right and kind must be ones that rules know")
    resource = Resource(ResourceKind(kind), call.get("name", str) or "")
    verdict = call.door.access.explain(call.of("principal", str), AccessRight(right), resource)
    return AccessExplained(verdict.allowed, verdict.why)


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


def _narrowed(call: RestCall, *names: str) -> tuple[str | None, dict[str, Any]]:
    """Return the group that a call is narrowed to, and other texts; check the right to see them."""
    of, given = call.get("group", str), call.texts("topic", *names)
    call.allow(AccessRight.DESCRIBE, CLUSTER if of is None else group(of))
    call.allow_topic(given["topic"])
    return of, given


@DELIVERY.add(
    "GET",
    "/v1/dead",
    *_OF,
    *narrowing(id="Only of this record.", type="Only of this type.", error="Only those whose reason begins so."),
    *PAGING,
)
def list_dead(call: RestCall) -> Page[DeadLetter]:
    """List dead letters, the newest first."""
    of, given = _narrowed(call, "id", "key", "type", "error", "after")
    return dead.dead_letters(call.store, group=of, limit=call.of("limit", int), seen=call.sees_topic, **given)


@DELIVERY.add(
    "GET",
    f"{_DEAD}/{{topic}}/{{partition}}/{{offset}}",
    GROUP,
    Parameter("topic", place="path", longest=249),
    Parameter("partition", int, place="path", least=0, most=9_999),
    Parameter("offset", int, place="path", least=0, most=(1 << 63) - 1),
)
def show_dead(call: RestCall) -> DeadShown:
    """Show a dead letter with its record."""
    name, of = call.of("group", str), call.of("topic", str)
    call.allow(AccessRight.DESCRIBE, group(name))
    call.allow(AccessRight.READ, topic(of))
    found = dead.show(call.store, name, of, call.of("partition", int), call.of("offset", int))
    return DeadShown(found.letter, record_shown(found.record), found.damage)


@DELIVERY.add("POST", _DEAD, GROUP, body=DeadDecision)
def decide_dead(call: RestCall) -> LetterOutcome:
    """Put dead letters back, let their keys go on, or let them go."""
    name, wanted = call.of("group", str), call.json(DeadDecision)
    call.allow(AccessRight.ALTER, group(name))
    call.allow_topic(wanted.topic)
    picked = DeadSelection(group=name, **{each: getattr(wanted, each) for each in _SELECTING})
    more: dict[str, Any] = {"dry_run": wanted.dry_run, "actor": call.actor}
    if wanted.decision == "requeue":
        return dead.requeue(call.store, picked, last=wanted.last, **more)
    return (dead.skip if wanted.decision == "skip" else dead.discard)(call.store, picked, **more)


@DELIVERY.add(
    "GET",
    "/v1/dead/errors",
    *narrowing(group="Only of this group.", topic="Only on this topic.", type="Only of this type."),
)
def list_errors(call: RestCall) -> DeadErrors:
    """List what the newest dead letters died of."""
    of, given = _narrowed(call, "type")
    return dead_errors(call.store, group=of, seen=call.sees_topic, **given)


@DELIVERY.add(
    "GET",
    "/v1/lanes",
    *_OF,
    Parameter("held", bool, "Only those that wait for a person, or only the others."),
    *PAGING,
    tag="lanes",
)
def list_lanes(call: RestCall) -> Page[WaitingLane]:
    """List waiting lanes."""
    of, given = _narrowed(call, "key", "after")
    held, limit = call.get("held", bool), call.of("limit", int)
    return lanes.lanes(call.store, group=of, held=held, limit=limit, seen=call.sees_topic, **given)


@DELIVERY.add(
    "GET", "/v1/why", Parameter("subject", help="An id, a key or the name of a group.", required=True), *_OF, tag="why"
)
def why(call: RestCall) -> list[WhyAnswer]:
    """Say why it has not been delivered."""
    of, given = _narrowed(call, "key")
    return answers_to(call.store, call.of("subject", str), group=of, seen=call.sees_topic, **given)


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
    """Show one."""
    return _scheduled(call, AccessRight.DESCRIBE)


@SCHEDULED.add("DELETE", _ONE, _ID)
def cancel_scheduled(call: RestCall) -> Changed:
    """Take one back."""
    found = _scheduled(call, AccessRight.DELETE)
    return Changed(bool(scheduled.cancel(call.store, ScheduledSelection(id=found.id), actor=call.actor)))


@SCHEDULED.add("POST", f"{_ONE}/run", _ID)
def run_scheduled(call: RestCall) -> Changed:
    """Make one due now."""
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
    """Show one."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return periodic.show(call.store, call.of("schedule", str), seen=call.sees_topic)


def _changing(id: str, summary: str, change: Callable[..., bool | None]) -> Callable[[RestCall], Changed]:
    def changed(call: RestCall) -> Changed:
        call.allow(AccessRight.ALTER, CLUSTER)
        name = periodic.show(call.store, call.of("schedule", str), seen=call.sees_topic).name
        return Changed(change(call.store, name, actor=call.actor) is not False)

    changed.__name__, changed.__doc__ = id, summary
    return changed


for _word, _summary, _change in (
    ("pause", "Let it tick no more.", periodic.pause),
    ("resume", "Let it go on.", periodic.resume),
    ("run", "Let it tick now, once.", periodic.run_now),
):
    PERIODIC.add("POST", f"{_NAMED}/{_word}", _SCHEDULE)(_changing(f"{_word}_schedule", _summary, _change))
_REMOVE = _changing("remove_schedule", "Forget one that no worker declares.", periodic.remove)
PERIODIC.add("DELETE", _NAMED, _SCHEDULE)(_REMOVE)
