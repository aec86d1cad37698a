"""The objects of an event class: their bytes, by JSON or a codec of your own; their keys and headers.

A dataclass, a msgspec Struct and a pydantic v2 model have a JSON form and need no codec. Any other class can
be an event with a codec; its bytes are marked with the codec's content type.

A key and a header are read by a function, or by a path through the fields such as "customer.id", which is
checked when its class is registered, not at the first publish.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol, get_type_hints

import msgspec

from penstock.errors import InvalidHeaders, InvalidKey, NotAnEventClass

from .limits import NAME_CHARACTERS, check_header

KeyOf = str | Callable[[Any], str | None] | None
HeadersOf = Callable[[Any], Mapping[str, str]] | Mapping[str, str] | None
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


def key_reader(cls: type, key: KeyOf) -> Callable[[Any], Any]:
    """Return a function from an event to its key. Raises NotAnEventClass."""
    if key is None:
        return lambda event: None
    if callable(key):
        return key
    names = _checked(cls, "key", key)

    def read(event: Any) -> Any:
        found = _read(event, names)
        if found is None:
            raise InvalidKey(None, NAME_CHARACTERS, f"{cls.__qualname__}.{key} is None")
        return found

    return read


def headers_reader(cls: type, headers: HeadersOf) -> Callable[[Any], Mapping[str, str]] | None:
    """Return a function from an event to its headers; None omits one. Raises NotAnEventClass, InvalidHeaders."""
    if headers is None or callable(headers):
        return headers
    if not isinstance(headers, Mapping):
        raise NotAnEventClass(cls, f"headers={headers!r} must be a function or a mapping of names to paths")
    paths = [(name, _checked(cls, f"headers[{name!r}]", path)) for name, path in headers.items()]
    for name, _ in paths:
        check_header(name, "")

    def read(event: Any) -> dict[str, str]:
        found = {name: value for name, names in paths if (value := _read(event, names)) is not None}
        for name, value in found.items():
            if not isinstance(value, str):
                path = f"{cls.__qualname__}.{headers[name]}"
                raise InvalidHeaders(name, f"{path} is of type {type(value).__name__}; it must be a string")
        return found

    return read


def _checked(cls: type, what: str, path: Any) -> list[str]:
    if not isinstance(path, str):
        raise NotAnEventClass(cls, f"{what}={path!r} must be a path such as 'customer.id'")
    names = path.split(".")
    holder: Any = cls
    for name in names:
        known = _fields(holder)
        if known is None:  # a type without declared fields
            break
        if name not in known and not hasattr(holder, name):
            why = f"{what}={path!r}, but {holder.__qualname__} has no field {name!r}; it has {sorted(known)}"
            raise NotAnEventClass(cls, why)
        holder = known.get(name)
    return names


def _read(event: Any, names: list[str]) -> Any:
    for name in names:
        event = getattr(event, name, None)
    return event


def _fields(cls: Any) -> dict[str, Any] | None:
    if is_pydantic(cls):
        return {name: each.annotation for name, each in cls.model_fields.items()}
    if is_struct(cls):
        return {each.name: each.type for each in msgspec.structs.fields(cls)}
    if hasattr(getattr(cls, "DESCRIPTOR", None), "fields_by_name"):  # a Protobuf message
        return dict.fromkeys(cls.DESCRIPTOR.fields_by_name)
    if is_dataclass(cls):
        return {each.name: get_type_hints(cls).get(each.name) for each in dataclasses.fields(cls)}
    return None
