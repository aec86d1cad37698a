"""The methods that list, show, make, change and delete topics, groups and schemas of values."""

from collections.abc import Callable, Mapping
from typing import Any

from penstock.model.partition import MURMUR3

from .. import administration
from .door import GrpcCall
from .messages import group_shown, message, topic_shown
from .methods import OneMethod

_PARTITIONS = 8  # default for a new topic, as through the other doors
_PAGE = 100

_TopicsListed, _TopicDeleted = message("ListTopicsResponse"), message("DeleteTopicResponse")
_GroupsListed, _GroupDeleted = message("ListGroupsResponse"), message("DeleteGroupResponse")
_GroupChanged = message("ChangeGroupResponse")
_Schema, _SchemasListed = message("Schema"), message("ListSchemasResponse")
_SchemaRegistered, _SchemaRemoved = message("RegisterSchemaResponse"), message("RemoveSchemaResponse")


def _method(act: Callable[..., Any], asked: Callable[[Any], tuple[Any, ...]], shown: Callable[[Any], Any]) -> OneMethod:
    """Return the method that does an act with the arguments in a message, and shows its result as a message."""

    async def method(call: GrpcCall, request: Any) -> Any:
        return shown(await call.asked(act, call, *asked(request)))

    return method


def _page(request: Any) -> tuple[str | None, int]:
    return request.after if request.HasField("after") else None, request.limit or _PAGE


def _name(request: Any) -> tuple[str]:
    return (request.name,)


def _changed(changed: bool) -> Any:
    return _GroupChanged(changed=changed)


TOPICS: Mapping[str, OneMethod] = {
    "List": _method(
        administration.list_topics,
        _page,
        lambda page: _TopicsListed(topics=map(topic_shown, page.items), after=page.after),
    ),
    "Get": _method(administration.show_topic, _name, topic_shown),
    "Create": _method(
        administration.create_topic,
        lambda asked: (asked.name, asked.partitions or _PARTITIONS, asked.partitioner or MURMUR3),
        lambda made: topic_shown(made[0]),
    ),
    "Delete": _method(
        administration.delete_topic,
        lambda asked: (asked.name, asked.force),
        lambda records: _TopicDeleted(records=records),
    ),
}
GROUPS: Mapping[str, OneMethod] = {
    "List": _method(
        administration.list_groups,
        _page,
        lambda page: _GroupsListed(groups=map(group_shown, page.items), after=page.after),
    ),
    "Get": _method(administration.show_group, _name, lambda shown: group_shown(shown.group)),
    "Create": _method(
        administration.create_group,
        lambda asked: (asked.name, asked.topic, "latest" if asked.from_latest else "earliest"),
        lambda made: group_shown(made.group),
    ),
    "Pause": _method(administration.pause_group, _name, _changed),
    "Resume": _method(administration.resume_group, _name, _changed),
    "Delete": _method(
        administration.delete_group,
        _name,
        lambda gone: _GroupDeleted(cursors=gone.cursors, lanes=gone.lanes, dead=gone.dead),
    ),
}
SCHEMAS: Mapping[str, OneMethod] = {
    "List": _method(
        administration.list_schemas,
        lambda asked: (asked.topic,),
        lambda found: _SchemasListed(
            schemas=[_Schema(topic=each.topic, type=each.type, message=each.message) for each in found]
        ),
    ),
    "Register": _method(
        administration.register_schema,
        lambda asked: (asked.schema.topic, asked.schema.type, asked.schema.message, asked.descriptors),
        lambda _: _SchemaRegistered(),
    ),
    "Remove": _method(
        administration.remove_schema, lambda asked: (asked.topic, asked.type), lambda _: _SchemaRemoved()
    ),
}
