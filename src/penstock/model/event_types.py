"""Typed events: classes published as themselves, stored under a logical name.

The stored name is the one given here, never a class path, so a class may be renamed or moved freely; old
names live on as aliases. Which kind a class is (dataclass, msgspec Struct, pydantic v2 model) is decided
once, when it is registered.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import msgspec

from penstock.errors import (
    EventNameTaken,
    InvalidKey,
    InvalidValue,
    NotAnEventClass,
    Undecodable,
    UnregisteredEvent,
)

from .content import ENCODE_ERRORS
from .limits import NAME_CHARACTERS, check_topic, check_type

KeyOf = str | Callable[[Any], str | None] | None  # an attribute path such as "customer.id", or a function
HeadersOf = Callable[[Any], Mapping[str, str]] | None


@dataclass(frozen=True, slots=True)
class EventType:
    """One registered class: its name, where it goes, and how it is turned to bytes and back."""

    name: str
    cls: type
    aliases: tuple[str, ...]
    topic: str
    key_of: Callable[[Any], Any]
    headers_of: HeadersOf
    _encode: Callable[[Any], bytes]
    _decode: Callable[[bytes], Any]

    def encode(self, event: Any) -> bytes:
        """Return an event as bytes. Raises InvalidValue."""
        try:
            return self._encode(event)
        except ENCODE_ERRORS as exc:
            raise InvalidValue(self.name, str(exc)) from exc

    def decode(self, data: bytes) -> Any:
        """Return the event that `data` holds. Raises Undecodable."""
        try:
            return self._decode(data)
        except (ValueError, RecursionError) as exc:  # msgspec's and pydantic's errors are ValueErrors
            raise Undecodable(f"an event {self.name!r}", str(exc)) from exc


class EventTypes:
    """The registry of one outbox: by class for publishing, by name or alias for reading."""

    def __init__(self) -> None:
        self._by_class: dict[type, EventType] = {}
        self._by_name: dict[str, EventType] = {}

    def register(
        self,
        cls: type,
        name: str,
        *,
        key: KeyOf = None,
        aliases: Iterable[str] = (),
        topic: str = "events",
        headers: HeadersOf = None,
    ) -> EventType:
        """Add a class under a logical name.

        Raises NotAnEventClass, EventNameTaken, InvalidType, InvalidTopic.
        """
        encode, decode = _codec(cls)
        aliases = (aliases,) if isinstance(aliases, str) else aliases
        names = (check_type(name), *(check_type(alias) for alias in aliases))
        event_type = EventType(
            names[0],
            cls,
            names[1:],
            check_topic(topic),
            _key_reader(cls, key),
            headers,
            encode,
            decode,
        )
        for each in names:
            owner = self._by_name.get(each)
            if owner is not None and not _same_class(owner.cls, cls):
                raise EventNameTaken(each, owner.cls.__qualname__, cls.__qualname__)
        self._by_class[cls] = event_type
        self._by_name.update(dict.fromkeys(names, event_type))
        return event_type

    def of(self, event: object) -> EventType:
        """Return the type of an event to publish. Raises UnregisteredEvent."""
        try:
            return self._by_class[type(event)]
        except KeyError:
            raise UnregisteredEvent(type(event)) from None

    def of_class(self, cls: type) -> EventType | None:
        """Return the type that a class is registered as, if it is."""
        return self._by_class.get(cls)

    def of_class_named(self, name: str) -> EventType | None:
        """Return the type whose class bears a name, the newest if a module was loaded again.

        For annotations that cannot be looked up: names seen by type checkers only. None if two classes share
        the name.
        """
        found = [each for each in self._by_class.values() if each.cls.__name__ == name.rpartition(".")[2]]
        one = all(_same_class(each.cls, found[-1].cls) for each in found)
        return found[-1] if found and one else None

    def names(self) -> frozenset[str]:
        """Return every name and alias."""
        return frozenset(self._by_name)

    def find(self, name: str) -> EventType | None:
        """Return the type stored under a name or alias, if there is one."""
        return self._by_name.get(name)


def _codec(cls: Any) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Return how a class is encoded and decoded."""
    if _is_pydantic(cls):
        return lambda event: event.model_dump_json(by_alias=True).encode(), cls.model_validate_json
    if not _is_struct(cls) and not _is_dataclass(cls):
        raise NotAnEventClass(cls, "it must be a dataclass, a msgspec Struct or a pydantic v2 model")
    try:
        return msgspec.json.encode, msgspec.json.Decoder(cls).decode
    except (TypeError, NameError) as exc:  # a field's type is unknown, or none that JSON could give back
        raise NotAnEventClass(cls, str(exc)) from exc


def _key_reader(cls: type, key: KeyOf) -> Callable[[Any], Any]:
    """Return a function from an event to its key; a path is checked now, not at the first publish."""
    if key is None:
        return lambda event: None
    if callable(key):
        return key
    names = key.split(".")
    holder: Any = cls
    for name in names:
        known = _fields(holder)
        if known is None:  # of a type that does not say what it holds
            break
        if name not in known and not hasattr(holder, name):
            why = f"key={key!r}, but {holder.__qualname__} has no field {name!r}; it has {sorted(known)}"
            raise NotAnEventClass(cls, why)
        holder = known.get(name)

    def read(event: Any) -> Any:
        for name in names:
            event = getattr(event, name, None)
        if event is None:
            raise InvalidKey(None, NAME_CHARACTERS, f"{cls.__qualname__}.{key} gives none")
        return event

    return read


def _fields(cls: Any) -> dict[str, Any] | None:
    """Return the fields of a class that could be an event, with their types; None for any other thing."""
    if _is_pydantic(cls):
        return {name: each.annotation for name, each in cls.model_fields.items()}
    if _is_struct(cls):
        return {each.name: each.type for each in msgspec.structs.fields(cls)}
    if _is_dataclass(cls):
        return {each.name: get_type_hints(cls).get(each.name) for each in dataclasses.fields(cls)}
    return None


def _is_pydantic(cls: Any) -> bool:
    return isinstance(cls, type) and hasattr(cls, "model_validate_json")


def _is_struct(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, msgspec.Struct)


def _is_dataclass(cls: Any) -> bool:
    return isinstance(cls, type) and dataclasses.is_dataclass(cls)


def _same_class(one: type, other: type) -> bool:
    """Return whether two classes are one: a module that is loaded again defines its classes anew."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
