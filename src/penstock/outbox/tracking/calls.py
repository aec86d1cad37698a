"""What a call of a function that writes has to do with: the connection, and the objects it has written."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.errors import InvalidTracking

from ..adapters import is_connection
from .block import Block


class Calls:
    """Looks through the arguments and results of the functions that write one model."""

    def __init__(self, model: type, connection: Callable[..., Any] | None) -> None:
        self._model, self._connection = model, connection

    def connection(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the connection of a call; it is asked for before, so that one without writes nothing.

        Raises InvalidTracking.
        """
        if self._connection is not None:
            return self._connection(*args, **kwargs)
        found = next((each for each in (*args, *kwargs.values()) if is_connection(each)), None)
        if found is None:
            why = (
                f"{_name(function)} was called without a connection; pass it the one it writes on, or "
                "say where it has it: connection=lambda self, *rest: self.conn"
            )
            raise InvalidTracking(self._model, why)
        return found

    def written(self, function: Any, result: Any, arguments: tuple[Any, ...], held: Block) -> list[Any]:
        """Return the objects that a call has written: those of its result, else those of its arguments.

        False or 0 says that it has written nothing. Raises InvalidTracking if there is no object to be seen.
        """
        if (result is False or (type(result) is int and result == 0)) and not held.force:
            return []
        for several in ((result,), arguments):
            if found := [each for value in several for each in self._objects(value)]:
                return found
        if any(isinstance(value, list | tuple) and not value for value in (result, *arguments)):
            return []
        why = (
            f"{_name(function)} was given no {self._model.__qualname__} and returned none; let it take "
            "or return what it has written"
        )
        raise InvalidTracking(self._model, why)

    def check(self, objects: Iterable[Any]) -> None:
        """Refuse what is not an object of the model. Raises InvalidTracking."""
        for each in objects:
            if not isinstance(each, self._model):
                raise InvalidTracking(self._model, f"a {type(each).__qualname__} is not one of its objects")

    def _objects(self, value: Any) -> list[Any]:
        values = value if isinstance(value, list | tuple) else (value,)
        return [each for each in values if isinstance(each, self._model)]


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", function))
