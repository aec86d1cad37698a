"""A handler with the records it is for, the handlers of a group on a topic, and a record on its way to one."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, NoReturn, Self

import msgspec

from penstock.delivery.lane import LaneId
from penstock.delivery.notes import CatchUp
from penstock.delivery.verdict import Rules
from penstock.errors import InvalidHandler
from penstock.model.event_types import EventTypes
from penstock.model.record import Record

from .binding import Binding, id_of, required
from .handler_options import DEFAULT_TIMEOUT_SECONDS, HandlerFunction, HandlerOptions, Origin, RecordPredicate, Start


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Handler(HandlerOptions):
    """A function with its options, ready to be called. Raises InvalidHandler.

    `retry_from` is the source of the retry policy in `rules`. `reach`: once it is resolved, the types it stands for,
    each with its distance to the matched class. `is_plain`: any free thread may call it for any record.
    """

    match: str | RecordPredicate | None = None  # in a class: bound to its instance
    id: str
    timeout: float | None = DEFAULT_TIMEOUT_SECONDS
    rate: float | None = None
    aliases: tuple[str, ...] = ()
    function: HandlerFunction
    rules: Rules
    retry_from: Origin = Origin.DECORATOR
    binding: Binding = field(init=False, repr=False)
    reach: Mapping[str, int] | None = field(init=False, repr=False, default=None)
    last_resort: Callable[[Record, str], Any] | None = field(init=False, repr=False)
    is_plain: bool = field(init=False, repr=False)

    @classmethod
    def of(cls, function: HandlerFunction, options: HandlerOptions, rules: Rules, retry_from: Origin) -> Self:
        """Return the handler for a function with these options."""
        given = {each.name: getattr(options, each.name) for each in fields(HandlerOptions)}
        given["id"] = options.id or id_of(function, options.group)
        return cls(**given, function=function, rules=rules, retry_from=retry_from)

    def __post_init__(self) -> None:
        HandlerOptions.__post_init__(self)
        if not callable(self.function):
            raise InvalidHandler(self.group, f"{self.function!r} cannot be called")
        binding = Binding(self.function, self.group, batch=self.batch is not None)
        free = self.concurrency is None and self.rate is None and self.batch is None
        object.__setattr__(self, "binding", binding)
        object.__setattr__(self, "last_resort", _last_resort(self.fallback, self.group))
        object.__setattr__(self, "is_plain", free and not binding.is_async)
        _check_transaction(self)

    def wants(self, record: Record) -> bool:
        """Return whether this handler is for a record, by its type, a prefix of it, or a predicate."""
        return bool(self.match(record)) if callable(self.match) else self.wants_type(record.type or "")

    def resolve(self, types: EventTypes) -> None:
        """Find the types it stands for: by name, by an alias, or as a parent. Raises InvalidHandler."""
        self.binding.resolve(types)
        reach = self.binding.reach if self.match is None else None
        if isinstance(self.match, str):
            prefix = self.prefix
            reach = types.beneath(self.match) if prefix is None else dict.fromkeys(types.named_like(prefix), 0)
        object.__setattr__(self, "reach", reach)

    @property
    def prefix(self) -> str | None:
        """The beginning of the types it is for, if it matches by prefix."""
        return self.match[:-1] if isinstance(self.match, str) and self.match.endswith(".*") else None

    def wants_type(self, type: str) -> bool:
        """Return whether this handler is for records of a type; one with a predicate may be for any."""
        if self.reach is not None and type in self.reach:
            return True
        if self.match is None:
            return self.binding.wanted is None
        if not isinstance(self.match, str):
            return True
        return type == self.match if self.prefix is None else type.startswith(self.prefix)

    def nearness(self, type: str) -> tuple[int, int, bool]:
        """Return how near its match is to a type that it wants; the nearest has the lowest."""
        width, length = self.width()
        if width:
            return width, length, False
        return width, (self.reach or {}).get(type, 0), self.match is not None and type != self.match

    def match_texts(self) -> list[str]:
        """Return its match as texts that other processes can compare; for a predicate the first id it ever had."""
        if callable(self.match):
            return [f"?{self.aliases[0] if self.aliases else self.id}"]
        if self.match is None:
            return ["*"] if self.binding.wanted is None else sorted(self.reach or ())
        if self.prefix is None:
            return sorted({self.match, *(self.reach or ())})
        return [self.match, *sorted(each for each in self.reach or () if not each.startswith(self.prefix))]

    def width(self) -> tuple[int, int]:
        """Return how wide its match is: exact, predicate, prefix (longest first), all."""
        if self.match is None:
            return (3, 0) if self.binding.wanted is None else (0, 0)
        if not isinstance(self.match, str):
            return 1, 0
        return (2, -len(self.match)) if self.match.endswith(".*") else (0, 0)

    def failing(self, error: Exception) -> "Handler":
        """Return this handler in a form that fails with an error, for a record that cannot be read."""
        fails = partial(_fail, error)
        return replace(self, function=fails, match=None, concurrency=None, rate=None, batch=None)


def _check_transaction(handler: Handler) -> None:
    """Refuse options that are incompatible with a shared transaction. Raises InvalidHandler."""
    if not handler.transaction:
        return
    if handler.binding.is_async or inspect.iscoroutinefunction(handler.fallback):
        raise InvalidHandler(
            handler.group,
            f"{handler.id} or its fallback is async; with transaction=True both are sync: record.tx blocks",
        )
    for name in ("batch", "rate"):
        if getattr(handler, name) is not None:
            raise InvalidHandler(
                handler.group,
                f"{handler.id} has {name}= beside transaction=True; its records are gathered in transactions "
                "already, one call each: leave one of the two out",
            )


def _last_resort(fallback: Any, group: str) -> Callable[[Record, str], Any] | None:
    """Return a fallback as it is called: with the record and, if it has room for it, the reason."""
    if fallback is None:
        return None
    if not callable(fallback):
        raise InvalidHandler(group, f"fallback={fallback!r} cannot be called")
    try:
        parameters = required(fallback)
    except (TypeError, ValueError):  # a builtin without a signature
        parameters = []
    if parameters is None or len(parameters) > 2:
        raise InvalidHandler(
            group, f"fallback={fallback!r} needs too much; it is given the record and, as text, the reason"
        )
    if len(parameters) == 2:
        called: Callable[[Record, str], Any] = fallback
        return called
    return lambda record, reason: fallback(record)


def _fail(error: Exception, _record: Record) -> NoReturn:
    raise error


_OF_RECORD = ("partition", "offset", "key", "id", "type", "attempt", "trace_id", "span_id")


def about_handler(handler: Handler, **more: Any) -> dict[str, Any]:
    """Return the fields of a line about a handler."""
    return {"group": handler.group, "handler": handler.id, "topic": handler.topic, **more}


def about_record(handler: Handler, record: Record, **more: Any) -> dict[str, Any]:
    """Return the fields of a line about a record and its handler."""
    of_record = {name: getattr(record, name) for name in _OF_RECORD}
    return {**about_handler(handler), **of_record, "topic": record.topic or handler.topic, **more}


class TaskPlace(NamedTuple):
    """The place of a record in the topic."""

    partition: int
    offset: int


class HandlerTask(msgspec.Struct, frozen=True, eq=False):
    """One record to hand to its handler; `next`: the following one of its run, `more`: how many follow."""

    place: TaskPlace
    lane: LaneId
    handler: Handler
    record: Record
    failures: int
    next: "HandlerTask | None" = None
    more: int = 0
    topic_id: int = 0  # a topic recreated under the same name has another

    def run(self) -> "Iterator[HandlerTask]":
        """Yield this task and those that follow it."""
        task: HandlerTask | None = self
        while task is not None:
            yield task
            task = task.next


_CACHED_TYPES = 10_000  # types come from outside: the number of cached ones is bounded


@dataclass(frozen=True, slots=True)
class Subscription:
    """A group on a topic with its handlers, in the order they are tried."""

    group: str
    topic: str
    start: Start
    handlers: tuple[Handler, ...]
    _by_type: dict[str, tuple[Handler, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _passed_over: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @property
    def is_transactional(self) -> bool:
        """Whether its handlers commit with their cursors; then all of them do."""
        return self.handlers[0].transaction

    @property
    def works_in_sequence(self) -> bool:
        """Whether all records of a partition are one lane; then they are so for all of its handlers."""
        return self.handlers[0].lanes == "partition"

    @property
    def has_rate(self) -> bool:
        """Whether one of its handlers has a rate."""
        return any(handler.rate is not None for handler in self.handlers)

    def handler_for(self, record: Record) -> Handler | None:
        """Return the first handler that wants a record, the narrower match before the wider; None: it is done.

        A predicate that raises counts as a failure of its handler on this record.
        """
        type = record.type or ""
        asked = self._by_type.get(type)
        if asked is None:
            asked = self.asked(type)
        for handler in asked:
            if not callable(handler.match):
                return handler
            try:
                if handler.match(record):
                    return handler
            except Exception as error:
                return handler.failing(error)
        return None

    def wants(self, type: str) -> bool:
        """Return whether a handler may want records of a type."""
        asked = self._by_type.get(type)
        return bool(self.asked(type) if asked is None else asked)

    def catch_up(self, within: timedelta) -> CatchUp:
        """Return the rule for late delivery: a group that starts at the latest record gets none unasked."""
        within_ms = within // timedelta(milliseconds=1) if self.start == "earliest" else 0
        return CatchUp(self.wants, within_ms)

    def pass_over(self, type: str) -> bool:
        """Record that a type is passed over; return whether that is new in this process."""
        if type in self._passed_over or len(self._passed_over) >= _CACHED_TYPES:
            return False
        self._passed_over.add(type)
        return True

    def asked(self, type: str) -> tuple[Handler, ...]:
        """Return the handlers that may want records of a type, the nearest first."""
        wanting = [handler for handler in self.handlers if handler.wants_type(type)]
        asked = tuple(sorted(wanting, key=lambda handler: handler.nearness(type)))
        if len(self._by_type) >= _CACHED_TYPES:
            self._by_type.clear()
        self._by_type[type] = asked
        return asked
