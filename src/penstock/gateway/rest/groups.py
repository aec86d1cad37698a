"""Groups: list, show, make, pause, resume, move, delete."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from penstock.access.resource import AccessRight, group, topic
from penstock.operate import groups, reset
from penstock.operate.groups import Forgotten, GroupPartition
from penstock.operate.operation import Page
from penstock.operate.progress import Group, GroupShown
from penstock.operate.reset import EARLIEST, LATEST

from .. import administration
from .call import RestCall
from .operations import GROUP, LAST_OFFSET, PAGING, Operations, Parameter, RestAnswer, moment

_ONE = "/v1/groups/{group}"
_ON_TOPIC = Parameter("topic", help="Only on this topic.", longest=249)
GROUPS = Operations("groups")


class GroupWanted(msgspec.Struct, forbid_unknown_fields=True):
    """A group to create on a topic: at its first record, or behind its last."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    topic: Annotated[str, msgspec.Meta(min_length=1, max_length=249)]
    start: Literal["earliest", "latest"] = "earliest"


class Changed(msgspec.Struct):
    """Whether the call changed anything."""

    changed: bool


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


@GROUPS.add("GET", "/v1/groups", "list_groups", "List groups.", *PAGING)
def listed(call: RestCall) -> Page[Group]:
    """Return a page of the groups that the caller may know of."""
    return administration.list_groups(call, call.get("after", str), call.of("limit", int))


@GROUPS.add(
    "POST", "/v1/groups", "create_group", "Make a group on a topic.", body=GroupWanted, answers={201: GroupShown}
)
def create(call: RestCall) -> RestAnswer:
    """Create a group on a topic; an existing one stays as it is."""
    wanted = call.json(GroupWanted)
    return RestAnswer(administration.create_group(call, wanted.name, wanted.topic, wanted.start), 201)


@GROUPS.add("GET", _ONE, "show_group", "Show a group with its topics.", GROUP)
def show(call: RestCall) -> GroupShown:
    """Return a group with those of its topics that the caller may know of."""
    return administration.show_group(call, call.of("group", str))


@GROUPS.add(
    "GET", f"{_ONE}/partitions", "list_cursors", "List where a group is in each partition.", GROUP, _ON_TOPIC, *PAGING
)
def partitions(call: RestCall) -> Page[GroupPartition]:
    """Return a page of a group's cursors."""
    name, given = call.of("group", str), call.texts("topic", "after")
    call.allow(AccessRight.DESCRIBE, group(name))
    call.allow_topic(given["topic"])
    return call.of_topics_seen(groups.partitions(call.store, name, limit=call.of("limit", int), **given))


@GROUPS.add("POST", f"{_ONE}/pause", "pause_group", "Give it nothing for now.", GROUP)
def pause(call: RestCall) -> Changed:
    """Stop delivery to a group until it is resumed."""
    return Changed(administration.pause_group(call, call.of("group", str)))


@GROUPS.add("POST", f"{_ONE}/resume", "resume_group", "Let it go on.", GROUP)
def resume(call: RestCall) -> Changed:
    """Resume a paused group."""
    return Changed(administration.resume_group(call, call.of("group", str)))


@GROUPS.add("DELETE", _ONE, "delete_group", "Forget a group: its cursors, lanes and dead letters.", GROUP)
def delete(call: RestCall) -> Forgotten:
    """Forget a group."""
    return administration.delete_group(call, call.of("group", str))


@GROUPS.add(
    "POST",
    f"{_ONE}/move",
    "move_group",
    f"Move a group on a topic: {EARLIEST}, {LATEST}, a moment or an offset.",
    GROUP,
    body=GroupMove,
)
def move(call: RestCall) -> GroupMoved:
    """Move a group on a topic, or report what would happen (`dry_run`)."""
    name, wanted = call.of("group", str), call.json(GroupMove)
    call.allow(AccessRight.ALTER, group(name))
    call.allow(AccessRight.DESCRIBE, topic(wanted.topic))
    done = reset.reset(
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


def _target(to: int | str) -> int | Literal["earliest", "latest"] | datetime:
    if isinstance(to, int):
        return to
    if to in (EARLIEST, LATEST):
        return EARLIEST if to == EARLIEST else LATEST
    return moment("to", to, f"{EARLIEST}, {LATEST}")
