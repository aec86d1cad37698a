"""Topics: list, show, make, delete; and the schemas of their values."""

from typing import Annotated

import msgspec

from penstock.access.resource import AccessRight, topic
from penstock.model.content import BINARY
from penstock.model.partition import MURMUR3
from penstock.model.protobuf import PROTOBUF
from penstock.operate import topics
from penstock.operate.operation import Page
from penstock.operate.topics import TopicPartition, TopicShown
from penstock.operate.value_schemas import ValueSchema

from .. import administration
from .call import RestCall
from .operations import PAGING, TOPIC, Operations, Parameter, RestAnswer

PARTITIONS = 8  # default for a new topic, as through the other doors
_ONE = "/v1/topics/{topic}"
_SCHEMAS = f"{_ONE}/schemas"
_FORCE = Parameter("force", bool, "Also while members serve it.", default=False)
_TYPE = Parameter("type", help="An event type; empty: all types.", default="", longest=255)
_MESSAGE = Parameter(
    "message", help="The full name of a Protobuf message.", required=True, longest=500, example="shop.v1.Order"
)
TOPICS = Operations("topics")


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


@TOPICS.add("GET", "/v1/topics", "list_topics", "List topics.", *PAGING)
def listed(call: RestCall) -> Page[TopicShown]:
    """Return a page of the topics that the caller may know of."""
    return administration.list_topics(call, call.get("after", str), call.of("limit", int))


@TOPICS.add(
    "POST", "/v1/topics", "create_topic", "Make a topic.", body=TopicWanted, answers={201: TopicShown, 200: TopicShown}
)
def create(call: RestCall) -> RestAnswer:
    """Create a topic; an existing one stays as it is."""
    wanted = call.json(TopicWanted)
    shown, is_new = administration.create_topic(call, wanted.name, wanted.partitions, wanted.partitioner)
    return RestAnswer(shown, 201 if is_new else 200)


@TOPICS.add("GET", _ONE, "show_topic", "Show a topic.", TOPIC)
def show(call: RestCall) -> TopicShown:
    """Return a topic."""
    return administration.show_topic(call, call.of("topic", str))


@TOPICS.add("GET", f"{_ONE}/partitions", "list_partitions", "List the partitions of a topic.", TOPIC, *PAGING)
def partitions(call: RestCall) -> Page[TopicPartition]:
    """Return a page of a topic's partitions, with their offset ranges."""
    name = call.of("topic", str)
    call.allow(AccessRight.DESCRIBE, topic(name))
    return topics.partitions(call.store, name, after=call.get("after", str), limit=call.of("limit", int))


@TOPICS.add(
    "DELETE", _ONE, "delete_topic", "Delete a topic with all its records and every group's place in it.", TOPIC, _FORCE
)
def delete(call: RestCall) -> TopicDeleted:
    """Delete a topic with all its records."""
    name, force = call.of("topic", str), call.of("force", bool)
    return TopicDeleted(administration.delete_topic(call, name, force=force))


@TOPICS.add(
    "GET", _SCHEMAS, "list_schemas", "List the schemas by which values of a topic are JSON and Protobuf.", TOPIC
)
def schemas(call: RestCall) -> SchemasShown:
    """Return the schemas of a topic."""
    return SchemasShown(administration.list_schemas(call, call.of("topic", str)))


@TOPICS.add(
    "PUT",
    _SCHEMAS,
    "register_schema",
    "Register a Protobuf message, described by a FileDescriptorSet, for values of a topic.",
    TOPIC,
    _TYPE,
    _MESSAGE,
    takes={PROTOBUF: {}, BINARY: {}},
)
def register(call: RestCall) -> SchemasShown:
    """Register a schema; it replaces an existing one."""
    name, of, message = call.of("topic", str), call.of("type", str), call.of("message", str)
    return SchemasShown(administration.register_schema(call, name, of, message, call.body))


@TOPICS.add("DELETE", _SCHEMAS, "remove_schema", "Remove a schema.", TOPIC, _TYPE, answers={204: None})
def remove(call: RestCall) -> RestAnswer:
    """Remove a schema; stored records stay as they are."""
    administration.remove_schema(call, call.of("topic", str), call.of("type", str))
    return RestAnswer(None, 204)
