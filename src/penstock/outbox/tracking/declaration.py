"""The declaration of a tracked model: the writes that have events, and the content of those events.

It is checked when declared, and independent of any ORM. `parts_of` makes the events of a write, as mappings
for `publish_many`.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from penstock.errors import InvalidKey, InvalidTracking, InvalidValue
from penstock.model.content import encode_value
from penstock.model.limits import NAME_CHARACTERS, check_topic, check_type

from .block import ACTION, CHANGED, ENTITY, Block

TrackedAction = Literal["insert", "update", "delete"]
# The actions that may be tracked, and the suffix of the event type for each.
ACTIONS: dict[str, str] = {"insert": "inserted", "update": "updated", "delete": "deleted"}
ValueForm = Literal["image", "reference"]
IMAGE: ValueForm = "image"
REFERENCE: ValueForm = "reference"

TypeNames = str | Iterable[str] | Mapping[TrackedAction, str | Iterable[str]] | None
ValueReader = str | Callable[[Any], Any] | None  # an attribute path such as "customer.id", or a function
Value = ValueForm | Callable[[Any], Any]
Values = Value | Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Declaration:
    """One model: the event types per action (None: its own `events` names them), and the event parts."""

    model: type
    table: str
    types: Mapping[str, tuple[str, ...] | None]
    key_of: Callable[[Any], str | None] | None  # None: the primary key
    owner_of: Callable[[Any], str | None]
    values: Mapping[str, Value]
    value: Value
    exclude: frozenset[str]
    topic: str

    def types_for(self, action: str, target: Any) -> tuple[str, ...]:
        """Return the event types for an action on this object, one event each."""
        types = self.types[action]
        return _several(target.events()) if types is None else types

    def value_for(self, type: str) -> Value:
        """Return the form of the value for an event type."""
        return self.values.get(type, self.value)


def declare(
    model: type,
    table: str,
    *,
    on: str | Iterable[str],
    names: TypeNames,
    key: ValueReader,
    value: Values,
    exclude: str | Iterable[str],
    topic: str,
    owner: ValueReader,
    fields: Collection[str] | None = (),
) -> Declaration:
    """Return the checked declaration. Raises InvalidTracking, InvalidType, InvalidTopic.

    `fields` are attributes that objects have besides those of the class; None: any.
    """
    actions = _several(on)
    if not actions or not set(actions) <= set(ACTIONS):
        raise InvalidTracking(model, f"on={on!r} must be some of {', '.join(ACTIONS)}")
    own = names is None and inspect.isroutine(getattr(model, "events", None))
    types = {each: None if own else _types(model, table, each, names, actions) for each in actions}
    hidden = _several(exclude)
    for each in hidden:
        _check_attribute(model, each, "exclude", fields)
    return Declaration(
        model,
        table,
        types,
        None if key is None else _reader(model, key, "key", fields, needed=True),
        _reader(model, owner, "owner", fields, needed=False),
        _values(model, value, None if own else {each for several in types.values() for each in several or ()}),
        IMAGE if isinstance(value, Mapping) else _value(model, value),
        frozenset(hidden),
        check_topic(topic),
    )


def text_of(value: Any) -> str:
    """Return the text of one part of a key: an enum by its value, bytes as hexadecimal digits."""
    if isinstance(value, Enum):
        value = value.value
    return value.hex() if isinstance(value, bytes) else str(value)


def _types(model: type, table: str, action: str, names: TypeNames, actions: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(names, Mapping):
        if unknown := set(names) - set(actions):
            raise InvalidTracking(model, f"names has {sorted(unknown)}, which is not among on={actions!r}")
        names = {**names}.get(action)
    types = (f"{table}.{ACTIONS[action]}",) if names is None else _several(names)
    if not types:
        raise InvalidTracking(model, f"names has no event for {action}; leave {action} out of on=")
    return tuple(check_type(each) for each in types)


def _values(model: type, value: Values, known: set[str] | None) -> dict[str, Value]:
    if not isinstance(value, Mapping):
        return {}
    if known is not None and (unknown := set(value) - known):
        raise InvalidTracking(model, f"value names {sorted(unknown)}; its events are {sorted(known)}")
    return {name: _value(model, each) for name, each in value.items()}


def _value(model: type, value: Any) -> Value:
    if callable(value) or value in (IMAGE, REFERENCE):
        chosen: Value = value
        return chosen
    raise InvalidTracking(model, f"value={value!r} must be {IMAGE!r}, {REFERENCE!r} or a function")


def _reader(
    model: type, path: ValueReader, what: str, fields: Collection[str] | None, *, needed: bool
) -> Callable[[Any], str | None]:
    """Return a function from an object to text; the first attribute of a path is checked now."""
    if path is None:
        return lambda target: None
    if callable(path):
        function = path
        return lambda target: None if (found := function(target)) is None else text_of(found)
    names = path.split(".")
    _check_attribute(model, names[0], what, fields)

    def read(target: Any) -> str | None:
        for name in names:
            target = getattr(target, name, None)
        if target is None and needed:
            raise InvalidKey(None, NAME_CHARACTERS, f"{model.__qualname__}.{path} is None")
        return None if target is None else text_of(target)

    return read


def _check_attribute(model: type, name: str, what: str, fields: Collection[str] | None) -> None:
    if fields is not None and name not in fields and not hasattr(model, name):
        raise InvalidTracking(model, f"{what}={name!r}, but it has no such attribute")


def _several(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


ImageOf = Callable[[Any, AbstractSet[str]], dict[str, Any]]  # of an object, without hidden attributes


def parts_of(
    declaration: Declaration,
    action: str,
    target: Any,
    *,
    identity: str,
    image_of: ImageOf,
    changed: Iterable[str] | None = None,
) -> list[dict[str, Any]]:
    """Return the events of a write, one for each declared type."""
    reference = f"{declaration.table}:{identity}"
    headers = {ACTION: action.upper(), ENTITY: reference}
    if changed is not None:
        headers[CHANGED] = ",".join(changed)
    return [
        {
            "type": each,
            "value": _content(declaration, each, target, reference, image_of),
            "key": identity if declaration.key_of is None else declaration.key_of(target),
            "topic": declaration.topic,
            "headers": headers,
            "owner": declaration.owner_of(target),
        }
        for each in declaration.types_for(action, target)
    ]


def with_metadata(events: Iterable[Mapping[str, Any]], block: Block) -> list[dict[str, Any]]:
    """Return events with the metadata of their block."""
    return [{**each, "headers": {**block.metadata, **each["headers"]}} for each in events]


@contextmanager
def blaming_column(events: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Raise InvalidTracking instead of InvalidValue if a column of an image is the value without a JSON form."""
    try:
        yield
    except InvalidValue as error:
        for each in events:
            for column, value in each["value"].items() if isinstance(each["value"], dict) else ():
                try:
                    encode_value(each["type"], {column: value})
                except InvalidValue:
                    why = (
                        f"its column {column!r} holds a {type(value).__qualname__}, which has no JSON form; "
                        "leave it out with exclude=, or pass a function as value="
                    )
                    raise InvalidTracking(each["headers"][ENTITY], why) from error
        raise


def _content(declaration: Declaration, type: str, target: Any, reference: str, image_of: ImageOf) -> Any:
    wanted = declaration.value_for(type)
    if wanted == REFERENCE:
        return reference
    if wanted == IMAGE:
        return image_of(target, declaration.exclude)
    assert callable(wanted)
    return wanted(target)
