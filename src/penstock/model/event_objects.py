"""The types of publishable event objects. Types only: the registry has the classes.

A type checker does not know the classes that `outbox.event` has registered, but it knows the types that can
never be one: a number, a string, a mapping. So `publish(conn, "order.placed")` without a value is an error
before it runs.
"""

from dataclasses import Field
from typing import Any, ClassVar, Protocol, TypeAlias

import msgspec


class _DataclassObject(Protocol):
    """An object of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class _PydanticObject(Protocol):
    """An object of a pydantic v2 model."""

    def model_dump_json(self, *, by_alias: bool) -> str: ...


class _ProtobufMessage(Protocol):
    """A message of Protobuf."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802  # its own name


class _AttrsObject(Protocol):
    """An object of a class made by attrs, with a codec."""

    __attrs_attrs__: ClassVar[Any]


EventObject: TypeAlias = _DataclassObject | msgspec.Struct | _PydanticObject | _ProtobufMessage | _AttrsObject
