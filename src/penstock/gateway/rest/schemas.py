"""Schemas of values: list, register, remove."""

import msgspec

from penstock.access.resource import AccessRight, topic
from penstock.model.content import BINARY
from penstock.model.protobuf import PROTOBUF
from penstock.operate import value_schemas
from penstock.operate.value_schemas import ValueSchema

from .call import RestCall
from .operations import TOPIC, Operation, Parameter, RestAnswer


class SchemasShown(msgspec.Struct):
    """The schemas of a topic; an empty `type` means all types."""

    schemas: list[ValueSchema]


def listed(call: RestCall) -> SchemasShown:
    """Return the schemas of a topic."""
    name = call.of("topic", str)
    call.allow(AccessRight.DESCRIBE, topic(name))
    return SchemasShown(value_schemas.schemas(call.store, name))


def register(call: RestCall) -> SchemasShown:
    """Register a schema; it replaces an existing one."""
    name, of = call.of("topic", str), call.of("type", str)
    call.allow(AccessRight.ALTER, topic(name))
    value_schemas.register(call.store, name, call.of("message", str), call.body, type=of, actor=call.actor)
    return SchemasShown(value_schemas.schemas(call.store, name))


def remove(call: RestCall) -> RestAnswer:
    """Remove a schema; stored records stay as they are."""
    name, of = call.of("topic", str), call.of("type", str)
    call.allow(AccessRight.ALTER, topic(name))
    value_schemas.remove(call.store, name, type=of, actor=call.actor)
    return RestAnswer(None, 204)


_PATH = "/v1/topics/{topic}/schemas"
_TYPE = Parameter("type", help="An event type; empty: all types.", default="", longest=255)
_MESSAGE = Parameter(
    "message",
    help="The full name of a Protobuf message.",
    required=True,
    longest=500,
    example="shop.v1.Order",
)

SCHEMAS = (
    Operation(
        method="GET",
        path=_PATH,
        id="list_schemas",
        summary="List the schemas by which values of a topic are JSON and Protobuf.",
        tag="topics",
        call=listed,
        parameters=(TOPIC,),
        answers={200: SchemasShown},
    ),
    Operation(
        method="PUT",
        path=_PATH,
        id="register_schema",
        summary="Register a Protobuf message, described by a FileDescriptorSet, for values of a topic.",
        tag="topics",
        call=register,
        parameters=(TOPIC, _TYPE, _MESSAGE),
        takes={PROTOBUF: {}, BINARY: {}},
        answers={200: SchemasShown},
    ),
    Operation(
        method="DELETE",
        path=_PATH,
        id="remove_schema",
        summary="Remove a schema.",
        tag="topics",
        call=remove,
        parameters=(TOPIC, _TYPE),
        answers={204: None},
    ),
)
