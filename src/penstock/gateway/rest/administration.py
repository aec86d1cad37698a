"""Topics, groups and schemas of values: list, show, make, change, move, delete."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from penstock.access.resource import AccessRight, group, topic
from penstock.model.content import BINARY
from penstock.model.partition import MURMUR3
from penstock.model.protobuf import PROTOBUF
from penstock.operate import groups, reset, topics
from penstock.operate.groups import Forgotten, GroupPartition
from penstock.operate.operation import Page
from penstock.operate.progress import Group, GroupShown
from penstock.operate.reset import EARLIEST, LATEST
from penstock.operate.topics import TopicPartition, TopicShown
from penstock.operate.value_schemas import ValueSchema

from .. import administration
from .call import RestCall
from .operations import GROUP, LAST_OFFSET, PAGING, TOPIC, Operations, Parameter, RestAnswer, moment

PARTITIONS = 8  # default for a new topic, as through the other doors
_OF_TOPIC, _OF_GROUP = "/v1/topics/{topic}", "/v1/groups/{group}"
_SCHEMAS = f"{_OF_TOPIC}/schemas"
_FORCE = Parameter("force", bool, "Also while members serve it.", default=False)
_TYPE = Parameter("type", help="An event type; empty: all types.", default="", longest=255)
_MESSAGE = Parameter(
    "message", help="The full name of a Protobuf message.", required=True, longest=500, example="shop.v1.Order"
)
_ON_TOPIC = Parameter("topic", help="Only on this topic.", longest=249)
TOPICS, GROUPS = Operations("topics"), Operations("groups")


class TopicWanted(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to create. `partitioner`: kafka, or murmur3 as topics of an outbox have it."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=249, pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
    partitions: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = PARTITIONS
    partitioner: str = MURMUR3


class TopicDeleted(msgspec.Struct):
    """The number of records in a deleted topic."""

    records: int


class SchemasShown(msgspec.Struct):
    """The schemas of a topic; an empty `type` means all types."""

    schemas: list[ValueSchema]


@TOPICS.add("GET", "/v1/topics", *PAGING)
def list_topics(call: RestCall) -> Page[TopicShown]:
    """List topics."""
    return administration.list_topics(call, call.get("after", str), call.of("limit", int))


@TOPICS.add("POST", "/v1/topics", body=TopicWanted, answers={201: TopicShown, 200: TopicShown})
def create_topic(call: RestCall) -> RestAnswer:
    """Create a topic; an existing topic stays as it is."""
    wanted = call.json(TopicWanted)
    shown, is_new = administration.create_topic(call, wanted.name, wanted.partitions, wanted.partitioner)
    return RestAnswer(shown, 201 if is_new else 200)


@TOPICS.add("GET", _OF_TOPIC, TOPIC)
def show_topic(call: RestCall) -> TopicShown:
    """Show a topic."""
    return administration.show_topic(call, call.of("topic", str))


@TOPICS.add("GET", f"{_OF_TOPIC}/partitions", TOPIC, *PAGING)
def list_partitions(call: RestCall) -> Page[TopicPartition]:
    """List the partitions of a topic."""
    name = call.of("topic", str)
    call.allow(AccessRight.DESCRIBE, topic(name))
    return topics.partitions(call.store, name, after=call.get("after", str), limit=call.of("limit", int))


@TOPICS.add("DELETE", _OF_TOPIC, TOPIC, _FORCE)
def delete_topic(call: RestCall) -> TopicDeleted:
    """Delete a topic with all its records and every group's place in it."""
    name, force = call.of("topic", str), call.of("force", bool)
    return TopicDeleted(administration.delete_topic(call, name, force))


@TOPICS.add("GET", _SCHEMAS, TOPIC)
def list_schemas(call: RestCall) -> SchemasShown:
    """List the schemas by which values of a topic are JSON and Protobuf."""
    return SchemasShown(administration.list_schemas(call, call.of("topic", str)))


@TOPICS.add("PUT", _SCHEMAS, TOPIC, _TYPE, _MESSAGE, takes={PROTOBUF: {}, BINARY: {}})
def register_schema(call: RestCall) -> SchemasShown:
    """Register a Protobuf message of a FileDescriptorSet for values of a topic; it replaces an existing schema."""
    name, of, message = call.of("topic", str), call.of("type", str), call.of("message", str)
    return SchemasShown(administration.register_schema(call, name, of, message, call.body))


@TOPICS.add("DELETE", _SCHEMAS, TOPIC, _TYPE, answers={204: None})
def remove_schema(call: RestCall) -> RestAnswer:
    """Remove a schema; stored records stay as they are."""
    administration.remove_schema(call, call.of("topic", str), call.of("type", str))
    return RestAnswer(None, 204)


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


@GROUPS.add("GET", "/v1/groups", *PAGING)
def list_groups(call: RestCall) -> Page[Group]:
    """List groups."""
    return administration.list_groups(call, call.get("after", str), call.of("limit", int))


@GROUPS.add("POST", "/v1/groups", body=GroupWanted, answers={201: GroupShown})
def create_group(call: RestCall) -> RestAnswer:
    """Create a group on a topic; an existing group stays as it is."""
    wanted = call.json(GroupWanted)
    return RestAnswer(administration.create_group(call, wanted.name, wanted.topic, wanted.start), 201)


@GROUPS.add("GET", _OF_GROUP, GROUP)
def show_group(call: RestCall) -> GroupShown:
    """Show a group with its topics."""
    return administration.show_group(call, call.of("group", str))


@GROUPS.add("GET", f"{_OF_GROUP}/partitions", GROUP, _ON_TOPIC, *PAGING)
def list_cursors(call: RestCall) -> Page[GroupPartition]:
    """List where a group is in each partition."""
    name, given = call.of("group", str), call.texts("topic", "after")
    call.allow(AccessRight.DESCRIBE, group(name))
    call.allow_topic(given["topic"])
    return groups.partitions(call.store, name, limit=call.of("limit", int), seen=call.sees_topic, **given)


@GROUPS.add("POST", f"{_OF_GROUP}/pause", GROUP)
def pause_group(call: RestCall) -> Changed:
    """Pause a group."""
    return Changed(administration.pause_group(call, call.of("group", str)))


@GROUPS.add("POST", f"{_OF_GROUP}/resume", GROUP)
def resume_group(call: RestCall) -> Changed:
    """Resume a group."""
    return Changed(administration.resume_group(call, call.of("group", str)))


@GROUPS.add("DELETE", _OF_GROUP, GROUP)
def delete_group(call: RestCall) -> Forgotten:
    """Delete a group with its cursors, lanes and dead letters."""
    return administration.delete_group(call, call.of("group", str))


@GROUPS.add("POST", f"{_OF_GROUP}/move", GROUP, body=GroupMove)
def move_group(call: RestCall) -> GroupMoved:
    """Move a group on a topic: earliest, latest, a moment or an offset."""
    name, wanted = call.of("group", str), call.json(GroupMove)
    call.allow(AccessRight.ALTER, group(name))
    call.allow(AccessRight.DESCRIBE, topic(wanted.topic))
    done = reset.reset(
        call.store,
        name,
        to=_target(wanted.to),
        topic=wanted.topic,
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
