"""Schemas of values: list, register, remove."""

from collections.abc import Mapping
from typing import Any

from penstock.access.resource import AccessRight, topic
from penstock.operate import value_schemas

from .call import GrpcCall
from .messages import message

_Schema, _Listed = message("Schema"), message("ListSchemasResponse")
_Registered, _Removed = message("RegisterSchemaResponse"), message("RemoveSchemaResponse")


async def listed(call: GrpcCall, request: Any) -> Any:
    """Return the schemas of a topic."""
    call.allow(AccessRight.DESCRIBE, topic(request.topic))
    found = await call.asked(value_schemas.schemas, call.store, request.topic)
    return _Listed(
        schemas=[_Schema(topic=each.topic, type=each.type, message=each.message) for each in found]
    )


async def register(call: GrpcCall, request: Any) -> Any:
    """Register a schema."""
    schema = request.schema
    call.allow(AccessRight.ALTER, topic(schema.topic))
    await call.asked(
        value_schemas.register,
        call.store,
        schema.topic,
        schema.message,
        request.descriptors,
        type=schema.type,
        actor=call.actor,
    )
    return _Registered()


async def remove(call: GrpcCall, request: Any) -> Any:
    """Remove a schema."""
    call.allow(AccessRight.ALTER, topic(request.topic))
    name, type, actor = request.topic, request.type, call.actor
    await call.asked(value_schemas.remove, call.store, name, type=type, actor=actor)
    return _Removed()


SCHEMAS: Mapping[str, Any] = {"List": listed, "Register": register, "Remove": remove}
