"""Encoding the objects of a class to bytes and decoding them: JSON, or a codec of your own.

A dataclass, a msgspec Struct and a pydantic v2 model have a JSON form and need no codec. Any other class can
be an event with a codec; its bytes are marked with the codec's content type.
"""

import dataclasses
from typing import Any, Protocol

import msgspec

from penstock.errors import NotAnEventClass

_KINDS = "a dataclass, a msgspec Struct or a pydantic v2 model"


class Codec(Protocol):
    """Encodes and decodes the events of one class: Protobuf, Avro, or anything else.

    `content_type` is stored beside the bytes, in the header of that name. If `decode` raises, the
    bytes are not such an event: the record is not retried.
    """

    content_type: str

    def encode(self, event: Any, /) -> bytes:
        """Return an event as bytes."""

    def decode(self, data: bytes, /) -> Any:
        """Return the event in bytes."""


class Json:
    """The JSON form of a class that has one."""

    content_type = "application/json"

    def __init__(self, cls: Any) -> None:
        """Determine the kind of the class. Raises NotAnEventClass."""
        if is_pydantic(cls):
            self.encode = lambda event: event.model_dump_json(by_alias=True).encode()
            self.decode = cls.model_validate_json
            return
        if not is_struct(cls) and not is_dataclass(cls):
            raise NotAnEventClass(cls, f"it must be {_KINDS}, or have a codec=")
        try:
            self.encode, self.decode = msgspec.json.encode, msgspec.json.Decoder(cls).decode
        except (TypeError, NameError) as exc:  # a field's type is unknown, or cannot be decoded from JSON
            raise NotAnEventClass(cls, str(exc)) from exc


def check_codec(cls: type, codec: Any) -> Codec:
    """Return a codec. Raises NotAnEventClass when it lacks a part of `Codec`."""
    for name in ("encode", "decode"):
        if not callable(getattr(codec, name, None)):
            raise NotAnEventClass(cls, f"its codec {codec!r} has no method {name!r}")
    kind = getattr(codec, "content_type", None)
    if not isinstance(kind, str) or not kind.isascii() or not kind.isprintable() or "/" not in kind:
        why = f"its codec {codec!r} has content_type={kind!r}; it must be one such as 'application/x-protobuf'"
        raise NotAnEventClass(cls, why)
    checked: Codec = codec
    return checked


def is_pydantic(cls: Any) -> bool:
    """Return whether a class is a pydantic v2 model."""
    return isinstance(cls, type) and hasattr(cls, "model_validate_json")


def is_struct(cls: Any) -> bool:
    """Return whether a class is a msgspec Struct."""
    return isinstance(cls, type) and issubclass(cls, msgspec.Struct)


def is_dataclass(cls: Any) -> bool:
    """Return whether a class is a dataclass."""
    return isinstance(cls, type) and dataclasses.is_dataclass(cls)
