"""The fields, the id and the image of an object of a plain class. Independent of any ORM."""

import dataclasses
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from penstock.errors import InvalidTracking

from .declaration import text_of


def fields_of(model: type) -> tuple[str, ...] | None:
    """Return the fields that a class declares; None for a class without declared fields."""
    if dataclasses.is_dataclass(model):
        return tuple(each.name for each in dataclasses.fields(model))
    if issubclass(model, msgspec.Struct):
        return model.__struct_fields__
    if hasattr(model, "model_fields"):  # pydantic
        return tuple(model.model_fields)
    return None


def image_of(target: Any, hidden: AbstractSet[str]) -> dict[str, Any]:
    """Return the fields or, for a class that declares none, the attributes that do not begin with `_`."""
    names = fields_of(type(target))
    if names is None:
        names = tuple(name for name in _attributes(target) if not name.startswith("_"))
    return {name: getattr(target, name) for name in names if name not in hidden}


def identity_of(target: Any, names: tuple[str, ...]) -> str:
    """Return the id as text, for several attributes `7,a`. Raises InvalidTracking when it has none yet."""
    found = [getattr(target, name, None) for name in names]
    if None in found:
        why = (
            f"its {names[found.index(None)]} is None; set it before the write ends, "
            "or return the object that has it from the function"
        )
        raise InvalidTracking(type(target), why)
    return ",".join(map(text_of, found))


def _attributes(target: Any) -> Iterator[str]:
    """Yield the names of an object's attributes, in its slots and its `__dict__`."""
    for cls in reversed(type(target).__mro__):
        slots = vars(cls).get("__slots__", ())
        yield from (each for each in ((slots,) if isinstance(slots, str) else slots) if hasattr(target, each))
    yield from getattr(target, "__dict__", ())
