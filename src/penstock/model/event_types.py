"""Typed events: objects of registered classes, stored under a logical name.

The stored name is the one given here, never a class path, so a class may be renamed or moved freely; old
names remain as aliases, each with a function that converts an old value if necessary. A type may have
parents: names or classes; a handler of a parent receives all types below it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import msgspec

from penstock.errors import EventNameTaken, InvalidValue, NotAnEventClass, Undecodable, UnregisteredEvent
from penstock.redaction import named, place, text, words

from .codec import Codec, HeadersOf, Json, KeyOf, check_codec, headers_reader, key_reader
from .content import ENCODE_ERRORS
from .limits import check_topic, check_type


class _DataclassObject(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class _PydanticObject(Protocol):
    def model_dump_json(self, *, by_alias: bool) -> str: ...


class _ProtobufMessage(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802  # its own name


class _AttrsObject(Protocol):
    __attrs_attrs__: ClassVar[Any]


EventObject: TypeAlias = _DataclassObject | msgspec.Struct | _PydanticObject | _ProtobufMessage | _AttrsObject


Upgrade = Callable[[Any], Any] | None
Aliases = str | Iterable[str] | Mapping[str, Upgrade]
Parent = str | type
Parents = Parent | Iterable[Parent]


@dataclass(frozen=True, slots=True)
class EventType:
    """One registered class. `upgrades`: by alias, from a value stored under that name to a current one."""

    name: str
    cls: type
    aliases: tuple[str, ...]
    topic: str
    key_of: Callable[[Any], Any]
    headers_of: Callable[[Any], Mapping[str, str]] | None
    codec: Codec
    parents: tuple[Parent, ...]
    upgrades: Mapping[str, Callable[[Any], Any]]

    @property
    def names(self) -> frozenset[str]:
        """Its name and its aliases."""
        return frozenset((self.name, *self.aliases))

    @property
    def content_type(self) -> str | None:
        """The content type to store beside its bytes; None for JSON, which needs no mark."""
        return None if isinstance(self.codec, Json) else self.codec.content_type

    def encode(self, event: Any) -> bytes:
        """Return an event as bytes. Raises InvalidValue."""
        try:
            data = self.codec.encode(event)
        except Exception as exc:  # a user's codec may raise anything, and quote the value
            is_plain = isinstance(self.codec, Json) and isinstance(exc, ENCODE_ERRORS)
            why = text(exc) if is_plain else f"its codec failed: {named(exc)}"
            raise InvalidValue(self.name, why) from exc
        if not isinstance(data, bytes):
            raise InvalidValue(self.name, f"its codec returned {type(data).__name__}, not bytes")
        return data

    def decode(self, data: bytes, name: str | None = None) -> Any:
        """Return the event in `data`, which was stored under `name`. Raises Undecodable."""
        upgrade = None if name is None else self.upgrades.get(name)
        try:
            return self.codec.decode(data) if upgrade is None else self._upgraded(data, upgrade)
        except Undecodable as exc:
            raise Undecodable(f"an event {self.name!r}", exc.why) from exc
        except (ValueError, RecursionError) as exc:  # msgspec's and pydantic's errors are ValueErrors
            why = place(exc) if upgrade is None else text(exc)  # an upgrade's message is its author's
            raise Undecodable(f"an event {self.name!r}", why) from exc
        except Exception as exc:
            if upgrade is None and isinstance(self.codec, Json):
                raise
            why = f"its codec failed with {named(exc)}"
            if upgrade is not None:
                why = f"its upgrade from {name!r} failed with {words(exc)}"
            raise Undecodable(f"an event {self.name!r}", why) from exc

    def _upgraded(self, data: bytes, upgrade: Callable[[Any], Any]) -> Any:
        """Convert an old value with a function: for JSON its data, for another codec its bytes."""
        is_json = isinstance(self.codec, Json)
        value = upgrade(msgspec.json.decode(data) if is_json else data)
        if isinstance(value, self.cls):
            return value
        return self.codec.decode(msgspec.json.encode(value) if is_json else value)


class EventTypes:
    """The registry of one outbox: by class for publishing, by name or alias for reading."""

    def __init__(self) -> None:
        self._by_class: dict[type, EventType] = {}
        self._by_name: dict[str, EventType] = {}
        self.version = 0  # raised by every registration

    def register(
        self,
        cls: type,
        name: str,
        *,
        key: KeyOf = None,
        aliases: Aliases = (),
        topic: str = "events",
        headers: HeadersOf = None,
        parents: Parents = (),
        codec: Codec | None = None,
    ) -> EventType:
        """Add a class by name. Raises NotAnEventClass, EventNameTaken, InvalidType, InvalidTopic, InvalidHeaders."""
        names, upgrades = _aliases(cls, name, aliases)
        event_type = EventType(
            names[0],
            cls,
            names[1:],
            check_topic(topic),
            key_reader(cls, key),
            headers_reader(cls, headers),
            Json(cls) if codec is None else check_codec(cls, codec),
            _parents(cls, names, parents),
            upgrades,
        )
        for each in names:
            owner = self._by_name.get(each)
            if owner is not None and not _same_class(owner.cls, cls):
                raise EventNameTaken(each, owner.cls.__qualname__, cls.__qualname__)
        self._by_class[cls] = event_type
        self._by_name.update(dict.fromkeys(names, event_type))
        self.version += 1
        return event_type

    def of(self, event: object) -> EventType:
        """Return the type of an event to publish. Raises UnregisteredEvent."""
        try:
            return self._by_class[type(event)]
        except KeyError:
            raise UnregisteredEvent(type(event)) from None

    def of_class(self, cls: type) -> EventType | None:
        """Return the type of a registered class, or None."""
        return self._by_class.get(cls)

    def of_class_named(self, name: str) -> EventType | None:
        """Return the type whose class has a name, for annotations that cannot be resolved; None if two share it."""
        found = [each for each in self._by_class.values() if each.cls.__name__ == name.rpartition(".")[2]]
        one = all(_same_class(each.cls, found[-1].cls) for each in found)
        return found[-1] if found and one else None

    def names(self) -> frozenset[str]:
        """Return every name and alias."""
        return frozenset(self._by_name)

    def beneath(self, wanted: Parent) -> dict[str, int]:
        """Return the stored names of a name or class and of its descendants, each with its depth.

        0: its own name and aliases; 1: the types that name it as a parent; and so on. Empty for a class that
        is neither registered nor a parent.
        """
        own = self._by_class.get(wanted) if isinstance(wanted, type) else self._by_name.get(wanted)
        level: set[Parent] = {wanted} if own is None else {wanted, own.cls, *own.names}
        found = {name: 0 for name in level if isinstance(name, str)}
        depth = 0
        while level:
            depth += 1
            children = [
                each
                for each in self._by_name.values()
                if each.name not in found and any(parent in level for parent in each.parents)
            ]
            found |= {name: depth for each in children for name in each.names}
            level = {*(each.cls for each in children), *(name for each in children for name in each.names)}
        return found

    def named_like(self, prefix: str) -> set[str]:
        """Return all names of the types that have a name with this prefix."""
        kinds = [kind for name, kind in self._by_name.items() if name.startswith(prefix)]
        return {name for kind in kinds for name in kind.names}

    def find(self, name: str) -> EventType | None:
        """Return the type stored under a name or alias, or None."""
        return self._by_name.get(name)


def _aliases(cls: type, name: str, aliases: Aliases) -> tuple[tuple[str, ...], dict[str, Callable[[Any], Any]]]:
    given = dict.fromkeys((aliases,) if isinstance(aliases, str) else aliases)
    if isinstance(aliases, Mapping):
        given = dict(aliases)
    for alias, upgrade in given.items():
        if upgrade is not None and not callable(upgrade):
            why = f"aliases[{alias!r}]={upgrade!r} must be a function from an old value to a new one, or None"
            raise NotAnEventClass(cls, why)
    names = (check_type(name), *(check_type(alias) for alias in given))
    return names, {alias: upgrade for alias, upgrade in given.items() if upgrade is not None}


def _parents(cls: type, names: tuple[str, ...], parents: Parents) -> tuple[Parent, ...]:
    try:
        given = (parents,) if isinstance(parents, str | type) else tuple(parents)
    except TypeError:
        given = (parents,)  # type: ignore[assignment]  # refused below, by its type
    for each in given:
        if not isinstance(each, str | type):
            raise NotAnEventClass(cls, f"its parent {each!r} must be the name of a type, or a class")
        if each is cls or each in names:
            raise NotAnEventClass(cls, "it cannot be a parent of itself")
        if isinstance(each, str):
            check_type(each)
    return given


def _same_class(one: type, other: type) -> bool:
    """Return whether two classes are the same: a reloaded module defines its classes again."""
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
