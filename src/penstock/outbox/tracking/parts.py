"""From a write to its events, as mappings for `publish_many`; shared by all ways of writing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from penstock.errors import InvalidTracking, InvalidValue
from penstock.model.content import encode_value

from .block import ACTION, CHANGED, ENTITY, Block
from .declaration import IMAGE, REFERENCE, Declaration

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
            "value": _value(declaration, each, target, reference, image_of),
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


def blame_column(events: Sequence[Mapping[str, Any]], error: InvalidValue) -> None:
    """Raise InvalidTracking if a column of an image is the value without a JSON form."""
    for each in events:
        if isinstance(each["value"], dict):
            for column, value in each["value"].items():
                try:
                    encode_value(each["type"], {column: value})
                except InvalidValue:
                    why = (
                        f"its column {column!r} holds a {type(value).__qualname__}, which has no JSON form; "
                        "leave it out with exclude=, or pass a function as value="
                    )
                    raise InvalidTracking(each["headers"][ENTITY], why) from error


def _value(declaration: Declaration, type: str, target: Any, reference: str, image_of: ImageOf) -> Any:
    wanted = declaration.value_for(type)
    if wanted == REFERENCE:
        return reference
    if wanted == IMAGE:
        return image_of(target, declaration.exclude)
    assert callable(wanted)
    return wanted(target)
