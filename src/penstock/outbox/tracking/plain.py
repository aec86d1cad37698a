"""What an object of a plain class says of itself: its fields, its id, its image. It knows no ORM."""

import dataclasses
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from penstock.errors import InvalidTracking

from .declaration import text_of


def fields_of(model: type) -> tuple[str, ...] | None:
    """Return the fields that a class declares; None for one that does not say what its objects hold."""
    if dataclasses.is_dataclass(model):
        return tuple(each.name for each in dataclasses.fields(model))
    if issubclass(model, msgspec.Struct):
        return model.__struct_fields__
    if hasattr(model, "model_fields"):  # pydantic
        return tuple(model.model_fields)
    return None


def image_of(target: Any, hidden: AbstractSet[str]) -> dict[str, Any]:
    """Return the fields; of a class that declares none, its attributes but for those that begin with `_`."""
    names = fields_of(type(target))
    if names is None:
        names = tuple(name for name in _attributes(target) if not name.startswith("_"))
    return {name: getattr(target, name) for name in names if name not in hidden}


def identity_of(target: Any, names: tuple[str, ...]) -> str:
    """Return the id as text, of several attributes `7,a`. Raises InvalidTracking when it has none yet."""
    found = [getattr(target, name, None) for name in names]
    if None in found:
        why = (
            f"its {names[found.index(None)]} is None; set it before the write ends, "
            "or let the function return the object that has it"
        )
        raise InvalidTracking(type(target), why)
    return ",".join(map(text_of, found))


def _attributes(target: Any) -> Iterator[str]:
    """Yield what an object holds, in its slots and besides."""
    for cls in reversed(type(target).__mro__):
        slots = vars(cls).get("__slots__", ())
        yield from (each for each in ((slots,) if isinstance(slots, str) else slots) if hasattr(target, each))
    yield from getattr(target, "__dict__", ())
