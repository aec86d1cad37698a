"""Handlers that are methods of a class: declared where the class is defined, registered with an instance.

The decorator sees a plain function, before there is a class. It is kept here until an instance is given; a
method without an instance would be a handler that is never called, so it is refused when the handlers are put
to use.
"""

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.errors import InvalidHandler, InvalidInput, shown

from .handler_options import HandlerFunction, HandlerOptions

_RECEIVERS = ("self", "cls")


class _DecoratedMethod(NamedTuple):
    """A function of a class with the options of its decorator."""

    function: HandlerFunction
    options: HandlerOptions


class DeclaredMethods:
    """The decorated methods, in that order, and which of them have found an instance."""

    def __init__(self) -> None:
        self._declared: list[_DecoratedMethod] = []
        self._found: set[HandlerFunction] = set()

    def add(self, function: HandlerFunction, options: HandlerOptions) -> None:
        """Keep a method until an instance of its class is given."""
        self._declared.append(_DecoratedMethod(function, options))

    def of(self, instance: object) -> list[tuple[HandlerFunction, HandlerOptions]]:
        """Return the methods of an instance, bound to it, in the order in which they were decorated.

        An override in a subclass is called in place of the decorated method, with the options of its own
        decorator if it has one. Raises InvalidInput when there are none.
        """
        if isinstance(instance, type):
            raise InvalidInput(f"register({instance.__qualname__}) is a class; give it an instance of it")
        known = {each.function for each in self._declared}
        names = dict[HandlerFunction, str]()  # of those whose options count
        for name, levels in _attributes(type(instance)):
            decorated = [some for level in levels if (some := [each for each in level if each in known])]
            self._found.update(each for some in decorated for each in some)
            names.update((each, name) for some in decorated[:1] for each in some)
        if not names:
            raise InvalidInput(
                f"register({shown(instance)}): no method of {type(instance).__qualname__} was decorated by "
                "handler() of this outbox"
            )
        return [
            (getattr(instance, names[each.function]), _bound_options(each.options, instance))
            for each in self._declared
            if each.function in names
        ]

    def check(self) -> None:
        """Refuse methods without an instance. Raises InvalidHandler."""
        for function, options in self._declared:
            if function not in self._found:
                owner, _, _ = function.__qualname__.rpartition(".")
                raise InvalidHandler(
                    options.group,
                    f"{function.__qualname__} is a method, and no instance of {owner} is registered: "
                    f"outbox.register({owner.rpartition('.')[2]}(...)) before the worker starts",
                )


def is_method(function: object) -> bool:
    """Return whether a function is defined in a class and needs an instance (or the class) first."""
    if not inspect.isfunction(function):
        return False
    owner, _, _ = function.__qualname__.rpartition(".")
    first = next(iter(inspect.signature(function).parameters), None)
    return bool(owner) and not owner.endswith("<locals>") and first in _RECEIVERS


def _attributes(cls: type) -> Iterator[tuple[str, list[list[HandlerFunction]]]]:
    """Yield each attribute of a class with the functions behind it, class by class, subclasses first."""
    for name in dict.fromkeys(name for base in cls.__mro__ for name in vars(base)):
        yield name, [list(_layers(vars(base)[name])) for base in cls.__mro__ if name in vars(base)]


def _layers(attribute: Any) -> Iterator[HandlerFunction]:
    """Yield a function and all functions that it wraps: other decorators may be above ours."""
    inner = getattr(attribute, "__func__", attribute)  # of a class method
    while inspect.isfunction(inner):
        yield inner
        inner = getattr(inner, "__wrapped__", None)


def _bound_options(options: HandlerOptions, instance: object) -> HandlerOptions:
    """Return options whose functions, if they are methods of the same class, are bound, too."""
    return replace(
        options, match=_bound(options.match, instance), fallback=_bound(options.fallback, instance)
    )


def _bound(function: Any, instance: object) -> Any:
    if not inspect.isfunction(function):
        return function
    for name, levels in _attributes(type(instance)):
        if any(function in level for level in levels):
            return getattr(instance, name)
    return function
