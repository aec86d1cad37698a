"""The handlers of one outbox: which function is called for which record, in which group.

A record that no handler of a group wants is done there without a call: unknown types use up no retries.
"""

import logging
from collections.abc import Iterator

from penstock.errors import DuplicateHandler, InvalidHandler
from penstock.model.event_types import EventTypes
from penstock.model.retry import RetryPolicy
from penstock.redaction import ErrorText

from .calling.runner import ProcessingSettings
from .handler import Handler
from .handler_options import HandlerFunction, HandlerOptions
from .log_fields import about_handler
from .methods import DeclaredMethods, is_method
from .policies import check_policy, policy_of
from .subscription import Subscription

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
        """Register a decorated function: a function now, a method once there is an instance.

        Raises InvalidHandler, DuplicateHandler.
        """
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
        handler = Handler.of(function, options, options.rules_with(policy, _error_text()), origin)
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
        """Yield each group on each topic.

        Raises InvalidHandler for a handler that asks for an unregistered class, or is a method without an
        instance; DuplicateHandler.
        """
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


def _error_text() -> ErrorText:
    return ErrorText(ProcessingSettings.load().error_text)


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
