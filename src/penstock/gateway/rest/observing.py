"""Observing: the store as a whole, its members, records, a key, errors, the audit, the rules.

And moving a group, which can be tried first (`dry_run`).
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from penstock.access.resource import CLUSTER, AccessRight, Resource, ResourceKind, group, topic
from penstock.errors import InvalidInput, shown
from penstock.operate import audit, key_course, members, overview, reset
from penstock.operate.audit import AuditEntry
from penstock.operate.browse import NEWEST, OLDEST, Browsed, BrowseStart, browse
from penstock.operate.dead_errors import DeadErrors, dead_errors
from penstock.operate.key_course import KeyCourse
from penstock.operate.members import MemberShown
from penstock.operate.overview import StoreOverview
from penstock.operate.paging import Page
from penstock.operate.reset import EARLIEST, LATEST, Reset

from .call import RestCall
from .operations import GROUP, LAST_OFFSET, PAGING, TOPIC, Operation, Parameter
from .shapes import RecordShown, record_shown

_DESCRIBED = "Where a page begins: newest, oldest, an offset, or a moment as 2026-11-16T02:00Z."


class RecordsBrowsed(msgspec.Struct):
    """A page of records. `unread`: ids of records whose values did not fit into the page.

    `scanned`: how many were examined; `is_cut`: the filter stopped early on this page.
    """

    records: list[RecordShown]
    unread: list[str]
    after: str | None
    scanned: int
    is_cut: bool


class GroupMove(msgspec.Struct, forbid_unknown_fields=True):
    """The target of a group on a topic: earliest, latest, the first record at a moment, or an offset."""

    topic: Annotated[str, msgspec.Meta(max_length=249)]
    to: Annotated[int, msgspec.Meta(ge=0, le=LAST_OFFSET)] | Annotated[str, msgspec.Meta(max_length=64)]
    partition: Annotated[int, msgspec.Meta(ge=0, le=9_999)] | None = None
    drop_parked: bool = False
    dry_run: bool = False


class GroupMoved(msgspec.Struct):
    """The effect of moving a group: records that come again, and records that are skipped."""

    again: int
    skipped: int
    partitions: int


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


def looked_over(call: RestCall) -> StoreOverview:
    """Return an overview of the store."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return of_topics_seen(call, overview.overview(call.store, clock=call.api.clock))


def of_topics_seen(call: RestCall, found: StoreOverview) -> StoreOverview:
    """Return an overview of a store without the names of topics that the caller may not know of."""
    told = [
        replace(each, topics=tuple(name for name in each.topics if call.sees_topic(name)))
        for each in found.groups
    ]
    return replace(found, groups=tuple(told))


def listed_members(call: RestCall) -> list[MemberShown]:
    """Return the members."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return members.members(call.store, clock=call.api.clock)


def browsed(call: RestCall) -> RecordsBrowsed:
    """Return a page of a topic's records."""
    found = browsed_records(call)
    return RecordsBrowsed(
        [record_shown(each.record) for each in found.items],
        [each.record.id for each in found.items if not each.has_value],
        found.after,
        found.scanned,
        found.is_cut,
    )


def browsed_records(call: RestCall) -> Browsed:
    """Return a page of a topic's records, unconverted."""
    name = call.of("topic", str)
    call.allow(AccessRight.READ, topic(name))
    return browse(
        call.store,
        name,
        start=_start(call.of("from", str)),
        partition=call.get("partition", int),
        key=call.get("key", str),
        type=call.get("type", str),
        after=call.get("after", str),
        limit=call.of("limit", int),
    )


def _start(text: str) -> BrowseStart:
    if text in (NEWEST, OLDEST):
        return NEWEST if text == NEWEST else OLDEST
    if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= LAST_OFFSET:
        return int(text)
    return _moment("from", text, f"{NEWEST}, {OLDEST}")


def _target(to: int | str) -> int | Literal["earliest", "latest"] | datetime:
    if isinstance(to, int):
        return to
    if to in (EARLIEST, LATEST):
        return EARLIEST if to == EARLIEST else LATEST
    return _moment("to", to, f"{EARLIEST}, {LATEST}")


def _moment(name: str, text: str, words: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        wanted = f"{words}, an offset, or a moment with a zone, such as 2026-11-16T02:00:00Z"
        raise InvalidInput(f"{name} is {shown(text)}, and must be {wanted}")
    return moment


def course(call: RestCall) -> KeyCourse:
    """Return the last records of a key, and each group's progress with them."""
    of = call.get("topic", str)
    call.allow(AccessRight.DESCRIBE, CLUSTER)  # the answer names every group that reads the key
    call.allow_topic(of)
    return key_course.key_course(
        call.store, call.of("key", str), topic=of, seen=call.sees_topic, clock=call.api.clock
    )


def errors(call: RestCall) -> DeadErrors:
    """Return the errors of the newest dead letters."""
    of = call.get("group", str)
    call.allow(AccessRight.DESCRIBE, CLUSTER if of is None else group(of))
    call.allow_topic(call.get("topic", str))
    narrowed = {"topic": call.get("topic", str), "type": call.get("type", str)}
    return dead_errors(call.store, group=of, seen=call.sees_topic, **narrowed)


def move(call: RestCall) -> GroupMoved:
    """Move a group on a topic, or report what would happen."""
    name, wanted = call.of("group", str), call.json(GroupMove)
    call.allow(AccessRight.ALTER, group(name))
    call.allow(AccessRight.DESCRIBE, topic(wanted.topic))
    done: Reset = reset.reset(
        call.store,
        name,
        topic=wanted.topic,
        to=_target(wanted.to),
        partition=wanted.partition,
        drop_parked=wanted.drop_parked,
        dry_run=wanted.dry_run,
        actor=call.actor,
    )
    return GroupMoved(done.again, done.skipped, len(done.moves))


def audited(call: RestCall) -> Page[AuditEntry]:
    """Return a page of the audit."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    return audit.audit(
        call.store,
        action=call.get("action", str),
        actor=call.get("actor", str),
        after=call.get("after", str),
        limit=call.of("limit", int),
    )


def rules(call: RestCall) -> AccessShown:
    """Return the names in the policy, and the rules in force."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    access = call.api.access
    found = [RuleShown(str(each), each.place) for each in access.rules]
    return AccessShown(not access.names() and access.admits_anonymous, access.names(), found)


def explained(call: RestCall) -> AccessExplained:
    """Return whether a principal has a right, and by which rule."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    right, kind = call.of("right", str), call.of("kind", str)
    if right not in list(AccessRight) or kind not in list(ResourceKind):
        raise InvalidInput("right and kind must be ones that rules know")
    resource = Resource(ResourceKind(kind), call.get("name", str) or "")
    verdict = call.api.access.explain(call.of("principal", str), AccessRight(right), resource)
    return AccessExplained(verdict.allowed, verdict.why)


def _row(
    tag: str,
    id: str,
    path: str,
    summary: str,
    call: Callable[[RestCall], Any],
    answer: Any,
    *parameters: Parameter,
) -> Operation:
    return Operation(
        method="GET",
        path=path,
        id=id,
        summary=summary,
        tag=tag,
        call=call,
        parameters=parameters,
        answers={200: answer},
    )


def _words(values: list[str]) -> str:
    return f"^({'|'.join(values)})$"


OBSERVING = (
    _row("store", "overview", "/v1/overview", "Show the store at a glance.", looked_over, StoreOverview),
    _row("store", "list_members", "/v1/members", "List members.", listed_members, list[MemberShown]),
    _row(
        "store",
        "list_audit",
        "/v1/audit",
        "List who did what, the newest first.",
        audited,
        Page[AuditEntry],
        Parameter("action", help="Only this action."),
        Parameter("actor", help="Only what this person did."),
        *PAGING,
    ),
    _row("access", "list_rules", "/v1/access", "List who there is and the rules.", rules, AccessShown),
    _row(
        "access",
        "explain_access",
        "/v1/access/explain",
        "Say whether somebody may do something, and by which rule.",
        explained,
        AccessExplained,
        Parameter("principal", help="The name of a principal.", required=True, longest=200),
        Parameter("right", help="What to do.", required=True, pattern=_words(list(AccessRight))),
        Parameter("kind", help="To what.", required=True, pattern=_words(list(ResourceKind))),
        Parameter("name", help="Its name; the cluster has none.", longest=255),
    ),
    _row(
        "records",
        "browse",
        "/v1/topics/{topic}/records",
        "Show a page of a topic's records, across partitions.",
        browsed,
        RecordsBrowsed,
        TOPIC,
        Parameter("from", help=_DESCRIBED, default=NEWEST, longest=64),
        Parameter("partition", int, "Only this one.", least=0, most=9_999),
        Parameter("key", help="Only of this key."),
        Parameter("type", help="Only of this type."),
        Parameter("after", help="The `after` of the page before.", longest=8192, pattern="^[A-Za-z0-9_-]*$"),
        Parameter("limit", int, "Most records.", default=50, least=1, most=200),
    ),
    _row(
        "records",
        "show_key",
        "/v1/key",
        "Show the last records of a key, and what each group has done with them.",
        course,
        KeyCourse,
        Parameter("key", help="The key.", required=True),
        Parameter("topic", help="Only on this topic."),
    ),
    _row(
        "dead letters",
        "list_errors",
        "/v1/dead/errors",
        "List what the newest dead letters died of.",
        errors,
        DeadErrors,
        Parameter("group", help="Only of this group."),
        Parameter("topic", help="Only on this topic."),
        Parameter("type", help="Only of this type."),
    ),
    Operation(
        method="POST",
        path="/v1/groups/{group}/move",
        id="move_group",
        summary=f"Move a group on a topic: {EARLIEST}, {LATEST}, a moment or an offset.",
        tag="groups",
        call=move,
        parameters=(GROUP,),
        takes={"application/json": GroupMove},
        answers={200: GroupMoved},
    ),
)
