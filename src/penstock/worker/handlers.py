"""The handlers of one outbox: which function is called for which record, in which group."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.errors import DuplicateHandler, InvalidHandler
from penstock.model.limits import check_topic, check_type
from penstock.model.record import Record

Match = str | Callable[[Record], bool] | None
Function = Callable[[Record], Any]
_STARTS = ("earliest", "latest")


@dataclass(frozen=True, slots=True)
class Handler:
    """One function and what it is for."""

    function: Function
    match: Match
    group: str
    id: str
    topic: str
    start: str

    def wants(self, record: Record) -> bool:
        """Return whether this handler is for a record: its type, a prefix of it, or a predicate says so."""
        if self.match is None:
            return True
        if not isinstance(self.match, str):
            return bool(self.match(record))
        if self.match.endswith(".*"):
            return record.type.startswith(self.match[:-1])
        return record.type == self.match


@dataclass(frozen=True, slots=True)
class Subscription:
    """A group on a topic with its handlers, in the order they were registered."""

    group: str
    topic: str
    start: str
    handlers: tuple[Handler, ...]

    def handler_for(self, record: Record) -> Handler | None:
        """Return the first handler that wants a record: exact and narrower matches come before wider ones."""
        return next((handler for handler in self.handlers if handler.wants(record)), None)


class Handlers:
    """The registry. Handlers of one group on one topic share a cursor, so each record is handled once."""

    def __init__(self) -> None:
        self._handlers: list[Handler] = []

    def add(
        self, function: Function, *, match: Match, group: str, id: str | None, topic: str, start: str
    ) -> Handler:
        """Register a function. Raises InvalidHandler, DuplicateHandler, InvalidTopic."""
        check_topic(topic)
        if not callable(function):
            raise InvalidHandler(group, f"{function!r} cannot be called")
        if isinstance(match, str):
            check_type(match)
        elif match is not None and not callable(match):
            raise InvalidHandler(group, f"match={match!r} must be a type, a prefix, a predicate or None")
        if start not in _STARTS:
            raise InvalidHandler(group, f"start={start!r} must be one of {', '.join(_STARTS)}")
        if not isinstance(group, str) or not group.strip() or len(group) > 255 or not group.isprintable():
            raise InvalidHandler(str(group), "a group's name must be 1 to 255 printable characters")
        handler = Handler(function, match, group, id or _id_of(function, group), topic, start)
        for other in self._handlers:
            if other.id == handler.id:
                raise DuplicateHandler("id", handler.id)
            if (other.group, other.topic) == (group, topic):
                if match == other.match:
                    raise DuplicateHandler("match", f"{match!r} in group {group!r}")
                if start != other.start:
                    raise InvalidHandler(
                        group, f"its handlers disagree on start: {other.start!r} and {start!r}"
                    )
        self._handlers.append(handler)
        return handler

    def subscriptions(self) -> Iterator[Subscription]:
        """Yield each group on each topic."""
        for group, topic in dict.fromkeys((handler.group, handler.topic) for handler in self._handlers):
            mine = [handler for handler in self._handlers if (handler.group, handler.topic) == (group, topic)]
            yield Subscription(group, topic, mine[0].start, tuple(sorted(mine, key=_width)))


def _width(handler: Handler) -> tuple[int, int]:
    """Return how wide a match is: exact, predicate, prefix (longest first), all."""
    if handler.match is None:
        return 3, 0
    if not isinstance(handler.match, str):
        return 1, 0
    return (2, -len(handler.match)) if handler.match.endswith(".*") else (0, 0)


def _id_of(function: Function, group: str) -> str:
    name = getattr(function, "__qualname__", "")
    if not name or "<lambda>" in name:
        raise InvalidHandler(group, "a lambda or object without a name needs id=..., stable over deploys")
    return f"{function.__module__}.{name}"
