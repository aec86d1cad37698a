"""Records that were not delivered: dead letters, waiting lanes, and why an event waits."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from penstock.access.resource import CLUSTER, AccessRight, group, topic
from penstock.operate import dead, lanes
from penstock.operate.dead import DeadLetter, DeadSelection, LetterOutcome
from penstock.operate.dead_views import DeadErrors, dead_errors
from penstock.operate.lanes import WaitingLane
from penstock.operate.operation import Page
from penstock.operate.why import Answer as WhyAnswer
from penstock.operate.why import why as answers_to

from .answers import RecordShown, record_shown
from .call import RestCall
from .operations import GROUP, PAGING, Operations, Parameter, narrowing

ShortText = Annotated[str, msgspec.Meta(max_length=1024)]
_DEAD = "/v1/groups/{group}/dead"
_OF = narrowing(group="Only of this group.", topic="Only on this topic.", key="Only of this key.")
DELIVERY = Operations("dead letters")


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
    """Requeue dead letters, let their keys go on without them, or discard them."""
    name, wanted = call.of("group", str), call.json(DeadDecision)
    call.allow(AccessRight.ALTER, group(name))
    call.allow_topic(wanted.topic)
    picked = DeadSelection(
        group=name,
        id=wanted.id,
        key=wanted.key,
        type=wanted.type,
        topic=wanted.topic,
        since=wanted.since,
        before=wanted.before,
        all=wanted.all,
        error=wanted.error,
    )
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
    """List the errors of the newest dead letters."""
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
    """Say why an event, a key or a group has not been delivered."""
    of, given = _narrowed(call, "key")
    return answers_to(call.store, call.of("subject", str), group=of, seen=call.sees_topic, **given)
