"""Reading an event's key and headers: by a function, or by a path through its fields such as "customer.id".

A path is checked when its class is registered, not at the first publish.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from penstock.errors import InvalidHeaders, InvalidKey, NotAnEventClass

from .codec import is_dataclass, is_pydantic, is_struct
from .limits import NAME_CHARACTERS, check_header

KeyOf = str | Callable[[Any], str | None] | None
HeadersOf = Callable[[Any], Mapping[str, str]] | Mapping[str, str] | None


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
    """Return a function from an event to its headers; in a mapping each value is a path.

    The value at a path must be a string; None omits the header. Raises NotAnEventClass, InvalidHeaders.
    """
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
    """Return the steps of a path through a class's fields. Raises NotAnEventClass."""
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
    """Return the fields of a class that could be an event, with their types; None for anything else."""
    if is_pydantic(cls):
        return {name: each.annotation for name, each in cls.model_fields.items()}
    if is_struct(cls):
        return {each.name: each.type for each in msgspec.structs.fields(cls)}
    if hasattr(getattr(cls, "DESCRIPTOR", None), "fields_by_name"):  # a Protobuf message
        return dict.fromkeys(cls.DESCRIPTOR.fields_by_name)
    if is_dataclass(cls):
        return {each.name: get_type_hints(cls).get(each.name) for each in dataclasses.fields(cls)}
    return None
