"""Writes of plain classes, independent of any ORM: objects, their ids and images, and the calls."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from penstock.errors import InvalidTracking

from ..adapters import is_connection
from .block import Block
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


class Calls:
    """Inspects the arguments and results of the functions that write one model."""

    def __init__(self, model: type, connection: Callable[..., Any] | None) -> None:
        self._model, self._connection = model, connection

    def connection(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the connection of a call, before the call: without one it writes nothing. Raises InvalidTracking."""
        if self._connection is not None:
            return self._connection(*args, **kwargs)
        found = next((each for each in (*args, *kwargs.values()) if is_connection(each)), None)
        if found is None:
            why = (
                f"{_name(function)} was called without a connection; pass the one that it writes on, or "
                "a function that returns it: connection=lambda self, *rest: self.conn"
            )
            raise InvalidTracking(self._model, why)
        return found

    def written(self, function: Any, result: Any, arguments: tuple[Any, ...], held: Block) -> list[Any]:
        """Return the objects of a call's result, else of its arguments; False or 0: none. Raises InvalidTracking."""
        if (result is False or (type(result) is int and result == 0)) and not held.force:
            return []
        for several in ((result,), arguments):
            if found := [each for value in several for each in self._objects(value)]:
                return found
        if any(isinstance(value, list | tuple) and not value for value in (result, *arguments)):
            return []
        why = (
            f"{_name(function)} took no {self._model.__qualname__} and returned none; it must take or return "
            "the objects that it has written"
        )
        raise InvalidTracking(self._model, why)

    def check(self, objects: Iterable[Any]) -> None:
        """Refuse objects of another class than the model. Raises InvalidTracking."""
        for each in objects:
            if not isinstance(each, self._model):
                raise InvalidTracking(self._model, f"a {type(each).__qualname__} is not one of its objects")

    def _objects(self, value: Any) -> list[Any]:
        values = value if isinstance(value, list | tuple) else (value,)
        return [each for each in values if isinstance(each, self._model)]


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", function))
