"""The connection of a call to a writing function, and the objects that the call has written."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.errors import InvalidTracking

from ..adapters import is_connection
from .block import Block


class Calls:
    """Inspects the arguments and results of the functions that write one model."""

    def __init__(self, model: type, connection: Callable[..., Any] | None) -> None:
        self._model, self._connection = model, connection

    def connection(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the connection of a call, before the call, so that one without a connection writes nothing.

        Raises InvalidTracking.
        """
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
        """Return the objects that a call has written: those of its result, else those of its arguments.

        False or 0 means that it has written nothing. Raises InvalidTracking if there is no such object.
        """
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
