"""The methods that list, show, make, change and delete topics, groups and schemas of values."""

from collections.abc import Mapping
from typing import Any

from penstock.model.partition import MURMUR3
from penstock.worker.handler_options import Start

from .. import administration
from .call import GrpcCall
from .messages import group_shown, message, topic_shown

_PARTITIONS = 8  # default for a new topic, as through the other doors
_PAGE = 100

_TopicsListed, _TopicDeleted = message("ListTopicsResponse"), message("DeleteTopicResponse")
_GroupsListed, _GroupDeleted = message("ListGroupsResponse"), message("DeleteGroupResponse")
_GroupChanged = message("ChangeGroupResponse")
_Schema, _SchemasListed = message("Schema"), message("ListSchemasResponse")
_SchemaRegistered, _SchemaRemoved = message("RegisterSchemaResponse"), message("RemoveSchemaResponse")


def _after(request: Any) -> str | None:
    return request.after if request.HasField("after") else None


async def _list_topics(call: GrpcCall, request: Any) -> Any:
    page = await call.asked(administration.list_topics, call, _after(request), request.limit or _PAGE)
    return _TopicsListed(topics=map(topic_shown, page.items), after=page.after)


async def _get_topic(call: GrpcCall, request: Any) -> Any:
    return topic_shown(await call.asked(administration.show_topic, call, request.name))


async def _create_topic(call: GrpcCall, request: Any) -> Any:
    partitions, partitioner = request.partitions or _PARTITIONS, request.partitioner or MURMUR3
    made = await call.asked(administration.create_topic, call, request.name, partitions, partitioner)
    return topic_shown(made[0])


async def _delete_topic(call: GrpcCall, request: Any) -> Any:
    gone = await call.asked(administration.delete_topic, call, request.name, force=request.force)
    return _TopicDeleted(records=gone)


async def _list_groups(call: GrpcCall, request: Any) -> Any:
    page = await call.asked(administration.list_groups, call, _after(request), request.limit or _PAGE)
    return _GroupsListed(groups=map(group_shown, page.items), after=page.after)


async def _get_group(call: GrpcCall, request: Any) -> Any:
    return group_shown((await call.asked(administration.show_group, call, request.name)).group)


async def _create_group(call: GrpcCall, request: Any) -> Any:
    start: Start = "latest" if request.from_latest else "earliest"
    made = await call.asked(administration.create_group, call, request.name, request.topic, start)
    return group_shown(made.group)


async def _pause_group(call: GrpcCall, request: Any) -> Any:
    return _GroupChanged(changed=await call.asked(administration.pause_group, call, request.name))


async def _resume_group(call: GrpcCall, request: Any) -> Any:
    return _GroupChanged(changed=await call.asked(administration.resume_group, call, request.name))


async def _delete_group(call: GrpcCall, request: Any) -> Any:
    gone = await call.asked(administration.delete_group, call, request.name)
    return _GroupDeleted(cursors=gone.cursors, lanes=gone.lanes, dead=gone.dead)


async def _list_schemas(call: GrpcCall, request: Any) -> Any:
    found = await call.asked(administration.list_schemas, call, request.topic)
    return _SchemasListed(schemas=[_Schema(topic=each.topic, type=each.type, message=each.message) for each in found])


async def _register_schema(call: GrpcCall, request: Any) -> Any:
    of, descriptors = request.schema, request.descriptors
    await call.asked(administration.register_schema, call, of.topic, of.type, of.message, descriptors)
    return _SchemaRegistered()


async def _remove_schema(call: GrpcCall, request: Any) -> Any:
    await call.asked(administration.remove_schema, call, request.topic, request.type)
    return _SchemaRemoved()


TOPICS: Mapping[str, Any] = {"List": _list_topics, "Get": _get_topic, "Create": _create_topic, "Delete": _delete_topic}
GROUPS: Mapping[str, Any] = {
    "List": _list_groups,
    "Get": _get_group,
    "Create": _create_group,
    "Pause": _pause_group,
    "Resume": _resume_group,
    "Delete": _delete_group,
}
SCHEMAS: Mapping[str, Any] = {"List": _list_schemas, "Register": _register_schema, "Remove": _remove_schema}
