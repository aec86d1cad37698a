"""Events declared on plain models: a program that writes rows with its own SQL marks its writing functions.

When a marked function returns, the events of the objects it has written are staged on its connection, in the caller's
transaction; a function that raises stages none. Nothing here writes a row of the program.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import msgspec

from penstock.errors import InvalidTracking
from penstock.model.connections import AsyncConnection, Connection

from ..adapters import is_connection
from . import block
from .block import Block
from .declaration import Declaration, blaming_column, declare, parts_of, text_of, with_metadata


class Publishes(Protocol):
    """The part of the outbox that a repository needs."""

    def publish_many(self, conn: Any, events: Iterable[Mapping[str, Any]], /) -> list[str]:
        """Write events on a connection."""

    async def apublish_many(self, conn: Any, events: Iterable[Mapping[str, Any]], /) -> list[str]:
        """Write events on an async connection."""


ConnectionOf = Callable[..., Any] | None  # from the arguments of a marked function to its connection


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
    for cls in reversed(type(target).__mro__):
        slots = vars(cls).get("__slots__", ())
        yield from (each for each in ((slots,) if isinstance(slots, str) else slots) if hasattr(target, each))
    yield from getattr(target, "__dict__", ())


class Calls:
    """Inspects the arguments and results of the functions that write one model."""

    def __init__(self, model: type, connection: ConnectionOf) -> None:
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
            values = [each for value in several for each in (value if isinstance(value, list | tuple) else (value,))]
            if found := [each for each in values if isinstance(each, self._model)]:
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


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", function))


M = TypeVar("M")
P = ParamSpec("P")
T = TypeVar("T")
INSERT, UPDATE, DELETE = "insert", "update", "delete"
Metadata = Mapping[str, Any] | None


class Repository(Generic[M]):
    """The events of one plain model. Safe to share between threads, and to create at import."""

    def __init__(
        self, outbox: Publishes, declaration: Declaration, id: tuple[str, ...], connection: ConnectionOf
    ) -> None:
        self._outbox, self._declaration, self._id = outbox, declaration, id
        self._calls = Calls(declaration.model, connection)

    # --- functions that write ---------------------------------------------------------------------

    def inserts(self, function: Callable[P, T], /) -> Callable[P, T]:
        """Mark a function, sync or async, that inserts objects of the model.

        These are the objects that it returns, alone or in a list, or else those among its arguments. A return
        of False or 0 means that it has written nothing. Raises InvalidTracking.
        """
        return self._marked(INSERT, function)

    def updates(self, function: Callable[P, T], /) -> Callable[P, T]:
        """Mark a function that updates objects; else as `inserts`."""
        return self._marked(UPDATE, function)

    def deletes(self, function: Callable[P, T], /) -> Callable[P, T]:
        """Mark a function that deletes objects; else as `inserts`."""
        return self._marked(DELETE, function)

    # --- writes reported by hand ------------------------------------------------------------------

    def inserted(
        self, conn: Connection, *objects: M, skip: bool = False, force: bool = False, metadata: Metadata = None
    ) -> list[str]:
        """Publish that objects were inserted; return the ids of the events. Options as for `outbox.tracking`."""
        return self._report(INSERT, conn, objects, skip, force, metadata)

    def updated(
        self, conn: Connection, *objects: M, skip: bool = False, force: bool = False, metadata: Metadata = None
    ) -> list[str]:
        """Publish that objects were updated; else as `inserted`."""
        return self._report(UPDATE, conn, objects, skip, force, metadata)

    def deleted(
        self, conn: Connection, *objects: M, skip: bool = False, force: bool = False, metadata: Metadata = None
    ) -> list[str]:
        """Publish that objects were deleted; else as `inserted`."""
        return self._report(DELETE, conn, objects, skip, force, metadata)

    async def ainserted(
        self, conn: AsyncConnection, *objects: M, skip: bool = False, force: bool = False, metadata: Metadata = None
    ) -> list[str]:
        """Publish that objects were inserted on an async connection; else as `inserted`."""
        return await self._areport(INSERT, conn, objects, skip, force, metadata)

    async def aupdated(
        self, conn: AsyncConnection, *objects: M, skip: bool = False, force: bool = False, metadata: Metadata = None
    ) -> list[str]:
        """Publish that objects were updated on an async connection; else as `inserted`."""
        return await self._areport(UPDATE, conn, objects, skip, force, metadata)

    async def adeleted(
        self, conn: AsyncConnection, *objects: M, skip: bool = False, force: bool = False, metadata: Metadata = None
    ) -> list[str]:
        """Publish that objects were deleted on an async connection; else as `inserted`."""
        return await self._areport(DELETE, conn, objects, skip, force, metadata)

    def _report(
        self, action: str, conn: Any, objects: tuple[M, ...], skip: bool, force: bool, metadata: Metadata
    ) -> list[str]:
        self._calls.check(objects)
        with block.tracking(self._outbox, skip, force, metadata):
            return self._stage(conn, self._events(action, objects))

    async def _areport(
        self, action: str, conn: Any, objects: tuple[M, ...], skip: bool, force: bool, metadata: Metadata
    ) -> list[str]:
        self._calls.check(objects)
        with block.tracking(self._outbox, skip, force, metadata):
            return await self._astage(conn, self._events(action, objects))

    def _marked(self, action: str, function: Callable[P, T]) -> Callable[P, T]:
        is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        if not callable(function) or inspect.isclass(function) or is_generator:
            raise InvalidTracking(self._declaration.model, f"{function!r} must be a function that writes")
        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                conn = self._calls.connection(function, args, kwargs)
                result = await function(*args, **kwargs)
                written = self._calls.written(function, result, (*args, *kwargs.values()), self._block())
                await self._astage(conn, self._events(action, written))
                return result

            return awaited  # type: ignore[return-value]  # the same kind of function

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> T:
            conn = self._calls.connection(function, args, kwargs)
            result = function(*args, **kwargs)
            written = self._calls.written(function, result, (*args, *kwargs.values()), self._block())
            self._stage(conn, self._events(action, written))
            return result

        return called

    def _events(self, action: str, objects: Iterable[Any]) -> list[dict[str, Any]]:
        declaration, held = self._declaration, self._block()
        if action not in declaration.types:
            return []
        return [
            event
            for each in objects
            if not held.skips(each)
            for event in with_metadata(
                parts_of(declaration, action, each, identity=identity_of(each, self._id), image_of=image_of), held
            )
        ]

    def _block(self) -> block.Block:
        return block.current(self._outbox)

    def _stage(self, conn: Any, events: list[dict[str, Any]]) -> list[str]:
        with blaming_column(events):
            return self._outbox.publish_many(conn, events)

    async def _astage(self, conn: Any, events: list[dict[str, Any]]) -> list[str]:
        with blaming_column(events):
            return await self._outbox.apublish_many(conn, events)


def declared_repository(
    outbox: Publishes, model: type[M], table: str, *, id: str | Iterable[str], connection: ConnectionOf, **options: Any
) -> Repository[M]:
    """Return the repository of a model, checked. Raises InvalidTracking, InvalidType, InvalidTopic."""
    if not isinstance(model, type):
        raise InvalidTracking(model, "it is not a class")
    if not isinstance(table, str) or not table:
        raise InvalidTracking(model, f"table={table!r} must be the name of its table")
    fields, names = fields_of(model), (id,) if isinstance(id, str) else tuple(id)
    if not names:
        raise InvalidTracking(model, "id=() names no attribute; name those of the primary key")
    for each in names:
        if fields is not None and each not in fields and not hasattr(model, each):
            raise InvalidTracking(model, f"id={each!r}, but it has no such attribute")
    return Repository(outbox, declare(model, table, fields=fields, **options), names, connection)
