"""The handlers of one outbox: which function is called for which record, in which group.

A record that no handler of a group wants is done there without a call: unknown types use up no retries. The decorator
sees a method as a plain function, before there is a class; it is kept until an instance is given, and refused without
one when the handlers are used.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from penstock.errors import DuplicateHandler, InvalidHandler, InvalidInput, shown
from penstock.model.event_types import EventTypes
from penstock.model.record import Record
from penstock.model.retry import RetryPolicy
from penstock.outbox.listeners import Listener
from penstock.redaction import ErrorText

from .calling.runner import ProcessingSettings
from .handler import Handler, Subscription, about_handler
from .handler_options import HandlerFunction, HandlerOptions, Match, check_policy, policy_of

_RECEIVERS = ("self", "cls")


class _DecoratedMethod(NamedTuple):
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

        An override in a subclass replaces the decorated method, with the options of its own decorator if it has one.
        Raises InvalidInput when there are none.
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
    return replace(options, match=_bound(options.match, instance), fallback=_bound(options.fallback, instance))


def _bound(function: Any, instance: object) -> Any:
    if not inspect.isfunction(function):
        return function
    for name, levels in _attributes(type(instance)):
        if any(function in level for level in levels):
            return getattr(instance, name)
    return function


logger = logging.getLogger("penstock.handlers")


class Handlers:
    """The registry. Handlers of one group on one topic share a cursor, so each record is handled once."""

    def __init__(self, types: EventTypes | None = None, *, retry: RetryPolicy | None = None) -> None:
        """`retry`: the policy of handlers that name none; else that of the settings. Raises InvalidInput."""
        self._types, self._retry = types or EventTypes(), check_policy(retry)
        self._handlers: list[Handler] = []
        self._methods = DeclaredMethods()
        self._subscriptions: tuple[Subscription, ...] | None = None
        self._types_version = 0  # of the types, when the subscriptions were made
        self.is_served = False  # a worker runs with the handlers registered before it

    def declare(self, function: HandlerFunction, options: HandlerOptions) -> None:
        """Register a function now, a method once there is an instance. Raises InvalidHandler, DuplicateHandler."""
        if is_method(function):
            self._methods.add(function, options)
        else:
            self.add(function, options)

    def add_methods(self, instance: object) -> None:
        """Register the declared methods of an object. Raises as `add` does, and InvalidInput."""
        for method, options in self._methods.of(instance):
            self.add(method, options)

    def add(self, function: HandlerFunction, options: HandlerOptions) -> Handler:
        """Register a function. Raises InvalidHandler, DuplicateHandler."""
        policy, origin = policy_of(function, options.group, given=options.retry, outbox=self._retry)
        error_text = ErrorText(ProcessingSettings.load().error_text)
        handler = Handler.of(function, options, options.rules_with(policy, error_text), origin)
        for other in self._handlers:
            _check_beside(handler, other)
        self._handlers.append(handler)
        self._subscriptions = None
        if self.is_served:
            too_late = "handler %s is registered too late for the running worker; restart it"
            logger.warning(too_late, handler.id, extra=about_handler(handler))
        return handler

    @property
    def types(self) -> EventTypes:
        """The classes that are registered as events."""
        return self._types

    def subscriptions(self) -> Iterator[Subscription]:
        """Yield each group on each topic. Raises InvalidHandler and DuplicateHandler, for what only now is known."""
        self._methods.check()
        if self._subscriptions is None or self._types_version != self._types.version:
            self._subscriptions, self._types_version = tuple(self._made()), self._types.version
        yield from self._subscriptions

    def _made(self) -> Iterator[Subscription]:
        for handler in self._handlers:
            handler.resolve(self._types)
        for group, topic in dict.fromkeys((handler.group, handler.topic) for handler in self._handlers):
            mine = [handler for handler in self._handlers if (handler.group, handler.topic) == (group, topic)]
            _check_names(mine)
            yield Subscription(group, topic, mine[0].start, tuple(sorted(mine, key=Handler.width)))


def _check_beside(handler: Handler, other: Handler) -> None:
    """Compare a new handler with a registered one. Raises DuplicateHandler, InvalidHandler."""
    shared = {handler.id, *handler.aliases} & {other.id, *other.aliases}
    if shared:
        raise DuplicateHandler("id", min(shared))
    if (other.group, other.topic) != (handler.group, handler.topic):
        return
    if (handler.match, handler.binding.wanted) == (other.match, other.binding.wanted) or (
        handler.match is not None and handler.match == other.match
    ):
        raise DuplicateHandler("match", f"{handler.match!r} in group {handler.group!r}")
    for name in ("start", "transaction", "lanes"):
        here, there = getattr(handler, name), getattr(other, name)
        if here != there:
            raise InvalidHandler(handler.group, f"its handlers disagree on {name}: {there!r} and {here!r}")


def _check_names(handlers: list[Handler]) -> None:
    """Find two handlers for one type, now that their classes are known. Raises DuplicateHandler."""
    seen: set[str] = set()
    for handler in handlers:
        names = set(handler.binding.names or ()) if handler.match is None else {handler.match}
        exact = {name for name in names if isinstance(name, str) and not name.endswith(".*")}
        if exact & seen:
            raise DuplicateHandler("match", f"{min(exact & seen)!r} in group {handler.group!r}")
        seen |= exact


T = TypeVar("T")
_GROUP = "listeners"


def listener_of(function: Callable[..., Any], *, match: Match, topic: str | None, types: EventTypes) -> Listener:
    """Return the listener for a function. Raises InvalidHandler, InvalidTopic, InvalidType."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    options = HandlerOptions(match, group=_GROUP, id=name, topic=topic or _GROUP, start="latest")
    handler = Handlers(types).add(function, options)

    resolved = -1

    def wants(record: Record) -> bool:
        nonlocal resolved
        if resolved != types.version:  # its class may be registered later than the listener
            handler.resolve(types)
            resolved = types.version
        return (topic is None or record.topic == topic) and handler.wants(record)

    def call(record: Record) -> None:
        answer = handler.binding.call(record)
        if inspect.isawaitable(answer):
            asyncio.run(_awaited(answer))

    return Listener(name, wants, call)


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer
