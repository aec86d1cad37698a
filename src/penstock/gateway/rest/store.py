"""The store as a whole: an overview, its members, the audit, and the access rules in force."""

from dataclasses import replace

import msgspec

from penstock.access.resource import CLUSTER, AccessRight, Resource, ResourceKind
from penstock.errors import InvalidInput
from penstock.operate import audit, members
from penstock.operate.audit import AuditEntry
from penstock.operate.members import MemberShown
from penstock.operate.operation import Page
from penstock.operate.overview import StoreOverview
from penstock.operate.overview import overview as store_overview

from .call import RestCall
from .operations import PAGING, Operations, Parameter, narrowing

STORE, ACCESS = Operations("store"), Operations("access")


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
    """List principals and access rules."""
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
    """Say whether a principal has a right, and by which rule."""
    call.allow(AccessRight.DESCRIBE, CLUSTER)
    right, kind = call.of("right", str), call.of("kind", str)
    if right not in list(AccessRight) or kind not in list(ResourceKind):
        raise InvalidInput("right and kind must be ones that rules know")
    resource = Resource(ResourceKind(kind), call.get("name", str) or "")
    verdict = call.door.access.explain(call.of("principal", str), AccessRight(right), resource)
    return AccessExplained(verdict.allowed, verdict.why)
