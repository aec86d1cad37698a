"""Groups: list, show, make, pause, resume, delete."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

from penstock.access.resource import AccessRight, group, topic
from penstock.operate import groups
from penstock.operate.groups import Forgotten, GroupPartition
from penstock.operate.groups import create as create_group
from penstock.operate.paging import Page
from penstock.operate.progress import Group, GroupShown

from .call import RestCall
from .operations import GROUP, PAGING, Operation, Parameter, RestAnswer


class GroupWanted(msgspec.Struct, forbid_unknown_fields=True):
    """A group to create on a topic: at its first record, or behind its last."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    topic: Annotated[str, msgspec.Meta(min_length=1, max_length=249)]
    start: Literal["earliest", "latest"] = "earliest"


class Changed(msgspec.Struct):
    """Whether the call changed anything."""

    changed: bool


def listed(call: RestCall) -> Page[Group]:
    """Return a page of the groups that the caller may know of."""
    after, limit = call.get("after", str), call.of("limit", int)
    page = groups.groups(call.store, after=after, limit=limit, seen=call.sees_topic)
    return Page([each for each in page.items if call.sees(group(each.name))], page.after)


def create(call: RestCall) -> RestAnswer:
    """Create a group on a topic; an existing one stays as it is."""
    wanted = call.json(GroupWanted)
    call.allow(AccessRight.READ, topic(wanted.topic), group(wanted.name))
    create_group(call.store, wanted.name, wanted.topic, start=wanted.start)
    return RestAnswer(groups.show(call.store, wanted.name, seen=call.sees_topic), 201)


def show(call: RestCall) -> GroupShown:
    """Return a group with those of its topics that the caller may know of."""
    name = call.of("group", str)
    call.allow(AccessRight.DESCRIBE, group(name))
    return groups.show(call.store, name, seen=call.sees_topic)


def partitions(call: RestCall) -> Page[GroupPartition]:
    """Return a page of a group's cursors."""
    name = call.of("group", str)
    call.allow(AccessRight.DESCRIBE, group(name))
    call.allow_topic(call.get("topic", str))
    asked = {"topic": call.get("topic", str), "after": call.get("after", str)}
    return call.of_topics_seen(groups.partitions(call.store, name, limit=call.of("limit", int), **asked))


def pause(call: RestCall) -> Changed:
    """Stop delivery to a group until it is resumed."""
    name = call.of("group", str)
    call.allow(AccessRight.ALTER, group(name))
    return Changed(groups.pause(call.store, name, actor=call.actor))


def resume(call: RestCall) -> Changed:
    """Resume a paused group."""
    name = call.of("group", str)
    call.allow(AccessRight.ALTER, group(name))
    return Changed(groups.resume(call.store, name, actor=call.actor))


def delete(call: RestCall) -> Forgotten:
    """Forget a group."""
    name = call.of("group", str)
    call.allow(AccessRight.DELETE, group(name))
    return groups.delete(call.store, name, actor=call.actor)


_ONE = "/v1/groups/{group}"
_ON_TOPIC = Parameter("topic", help="Only on this topic.", longest=249)


def _row(
    method: str,
    path: str,
    id: str,
    summary: str,
    call: Callable[[RestCall], Any],
    answer: Any,
    parameters: tuple[Parameter, ...],
) -> Operation:
    return Operation(
        method=method,
        path=path,
        id=id,
        summary=summary,
        tag="groups",
        call=call,
        answers={200: answer},
        parameters=parameters,
    )


GROUPS = (
    _row("GET", "/v1/groups", "list_groups", "List groups.", listed, Page[Group], parameters=PAGING),
    Operation(
        method="POST",
        path="/v1/groups",
        id="create_group",
        summary="Make a group on a topic.",
        tag="groups",
        call=create,
        takes={"application/json": GroupWanted},
        answers={201: GroupShown},
    ),
    _row("GET", _ONE, "show_group", "Show a group with its topics.", show, GroupShown, parameters=(GROUP,)),
    _row(
        "GET",
        f"{_ONE}/partitions",
        "list_cursors",
        "List where a group is in each partition.",
        partitions,
        Page[GroupPartition],
        parameters=(GROUP, _ON_TOPIC, *PAGING),
    ),
    _row(
        "POST",
        f"{_ONE}/pause",
        "pause_group",
        "Give it nothing for now.",
        pause,
        Changed,
        parameters=(GROUP,),
    ),
    _row("POST", f"{_ONE}/resume", "resume_group", "Let it go on.", resume, Changed, parameters=(GROUP,)),
    _row(
        "DELETE",
        _ONE,
        "delete_group",
        "Forget a group: its cursors, lanes and dead letters.",
        delete,
        Forgotten,
        parameters=(GROUP,),
    ),
)
