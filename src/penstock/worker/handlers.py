"""The handlers of one outbox: which function is called for which record, in which group.

A record that no handler of a group wants is done there without a call: unknown types burn no retries.
"""

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any, NoReturn, TypeVar

from penstock.delivery.verdict import OnExhausted, OnFailure, Rules
from penstock.errors import DuplicateHandler, InvalidHandler
from penstock.model.event_types import EventTypes
from penstock.model.limits import check_topic, check_type
from penstock.model.record import Record
from penstock.model.retry import Exponential, RetryPolicy

from .binding import Binding, id_of, required
from .calling.rate import per_second
from .policies import Origin

logger = logging.getLogger("penstock.handlers")

Match = str | Callable[[Record], bool] | None
Function = Callable[..., Any]
E = TypeVar("E", bound=Enum)
DEFAULT_RULES = Rules(Exponential())
DEFAULT_TIMEOUT_SECONDS = 600.0
_STARTS = ("earliest", "latest")
_CACHED_TYPES = 10_000  # types come from outside: what is remembered of them is bounded


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """One function, what it is for and how it may be called.

    `rate` is in records per second; `batch` the most records of one call, None for one at a time.
    `transaction`: what it writes through `record.tx` commits with its cursor. `aliases` are ids it had
    before, the first one first. `reach`: once it is resolved, the types it stands for by name, each with how
    far beneath it stands.
    """

    function: Function
    match: Match
    group: str
    id: str
    topic: str
    start: str
    rules: Rules = DEFAULT_RULES
    fallback: Function | None = None
    timeout_seconds: float | None = DEFAULT_TIMEOUT_SECONDS
    concurrency: int | None = None
    rate: float | None = None
    batch: int | None = None
    transaction: bool = False
    aliases: tuple[str, ...] = ()
    retry_from: Origin = Origin.DECORATOR
    binding: Binding = field(init=False, repr=False)
    reach: Mapping[str, int] | None = field(init=False, repr=False, default=None)
    last_resort: Callable[[Record, str], Any] | None = field(init=False, repr=False)
    is_plain: bool = field(init=False, repr=False)  # any free thread may call it for any record at any time

    def __post_init__(self) -> None:
        binding = Binding(self.function, self.group, batch=self.batch is not None)
        free = self.concurrency is None and self.rate is None and self.batch is None
        object.__setattr__(self, "binding", binding)
        object.__setattr__(self, "last_resort", _last_resort(self.fallback, self.group))
        object.__setattr__(self, "is_plain", free and not binding.is_async)

    def wants(self, record: Record) -> bool:
        """Return whether this handler is for a record: its type, a prefix of it, or a predicate says so."""
        return bool(self.match(record)) if callable(self.match) else self.wants_type(record.type)

    def resolve(self, types: EventTypes) -> None:
        """Find out which types it stands for: by name, by an alias, or as a parent. Raises InvalidHandler."""
        self.binding.resolve(types)
        reach = self.binding.reach if self.match is None else None
        if isinstance(self.match, str):
            prefix = self.prefix
            reach = (
                types.beneath(self.match) if prefix is None else dict.fromkeys(types.named_like(prefix), 0)
            )
        object.__setattr__(self, "reach", reach)

    @property
    def prefix(self) -> str | None:
        """What the types it is for begin with, if that is how it matches."""
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
        width, length = _width(self)
        if width:
            return width, length, False
        return width, (self.reach or {}).get(type, 0), self.match is not None and type != self.match

    def match_texts(self) -> list[str]:
        """Return what it matches as texts that other processes can compare; of a predicate only its name.

        A predicate goes by the first id its handler ever had: so a new one changes no filter.
        """
        if callable(self.match):
            return [f"?{self.aliases[0] if self.aliases else self.id}"]
        if self.match is None:
            return ["*"] if self.binding.wanted is None else sorted(self.reach or ())
        if self.prefix is None:
            return sorted({self.match, *(self.reach or ())})
        return [self.match, *sorted(each for each in self.reach or () if not each.startswith(self.prefix))]

    def failing(self, error: Exception) -> "Handler":
        """Return this handler for a record that it fails on before it is called."""
        fails = partial(_fail, error)
        return replace(self, function=fails, match=None, concurrency=None, rate=None, batch=None)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A group on a topic with its handlers, in the order they are asked."""

    group: str
    topic: str
    start: str
    handlers: tuple[Handler, ...]
    _by_type: dict[str, tuple[Handler, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def is_transactional(self) -> bool:
        """Whether its handlers commit with their cursors; then all of them do."""
        return self.handlers[0].transaction

    @property
    def has_rate(self) -> bool:
        """Whether a handler of it may be given only so many records a second."""
        return any(handler.rate is not None for handler in self.handlers)

    def handler_for(self, record: Record) -> Handler | None:
        """Return the first handler that wants a record: exact and narrower matches come before wider ones.

        None: the record is done for this group. A predicate that raises counts as a failure of its handler
        on this record.
        """
        asked = self._by_type.get(record.type)
        if asked is None:
            asked = self.asked(record.type)
        for handler in asked:
            if not callable(handler.match):
                return handler
            try:
                if handler.match(record):
                    return handler
            except Exception as error:
                return handler.failing(error)
        return None

    def asked(self, type: str) -> tuple[Handler, ...]:
        """Return the handlers that may want records of a type, the nearest first."""
        asked = tuple(
            sorted(
                (handler for handler in self.handlers if handler.wants_type(type)),
                key=lambda handler: handler.nearness(type),
            )
        )
        if len(self._by_type) >= _CACHED_TYPES:
            self._by_type.clear()
        self._by_type[type] = asked
        return asked


class Handlers:
    """The registry. Handlers of one group on one topic share a cursor, so each record is handled once."""

    def __init__(self, types: EventTypes | None = None) -> None:
        self._types = types or EventTypes()
        self._handlers: list[Handler] = []
        self._subscriptions: tuple[Subscription, ...] | None = None
        self._types_version = 0  # of the types, when these were made
        self.is_served = False  # a worker runs that took what was registered before it

    def add(
        self,
        function: Function,
        *,
        match: Match,
        group: str,
        id: str | None,
        topic: str,
        start: str,
        rules: Rules = DEFAULT_RULES,
        fallback: Function | None = None,
        timeout: timedelta | float | None = DEFAULT_TIMEOUT_SECONDS,
        concurrency: int | None = None,
        rate: float | str | None = None,
        batch: int | None = None,
        transaction: bool = False,
        aliases: str | Iterable[str] = (),
        retry_from: Origin = Origin.DECORATOR,
    ) -> Handler:
        """Register a function. Raises InvalidHandler, DuplicateHandler, InvalidTopic."""
        check_topic(topic)
        if not isinstance(group, str) or not group.strip() or len(group) > 255 or not group.isprintable():
            raise InvalidHandler(str(group), "a group's name must be 1 to 255 printable characters")
        if not callable(function):
            raise InvalidHandler(group, f"{function!r} cannot be called")
        _check_match(group, match)
        if start not in _STARTS:
            raise InvalidHandler(group, f"start={start!r} must be one of {', '.join(_STARTS)}")
        if id is not None and not _is_id(id):
            raise InvalidHandler(group, f"id={id!r} must be 1 to 255 printable characters, or None")
        handler = Handler(
            function,
            match,
            group,
            id or id_of(function, group),
            topic,
            start,
            rules,
            fallback,
            _seconds(group, timeout),
            _count(group, "concurrency", concurrency),
            _rate(group, rate),
            _count(group, "batch", batch),
            transaction,
            _aliases(group, aliases),
            retry_from,
        )
        _check_transaction(handler)
        for other in self._handlers:
            _check_beside(handler, other)
        self._handlers.append(handler)
        self._subscriptions = None
        if self.is_served:
            logger.warning(
                "handler %s is registered too late for the worker that runs; start it anew", handler.id
            )
        return handler

    @property
    def types(self) -> EventTypes:
        """The classes that are registered as events."""
        return self._types

    def subscriptions(self) -> Iterator[Subscription]:
        """Yield each group on each topic.

        Raises InvalidHandler for a handler that asks for a class nobody registered, DuplicateHandler.
        """
        if self._subscriptions is None or self._types_version != self._types.version:
            self._subscriptions, self._types_version = tuple(self._made()), self._types.version
        yield from self._subscriptions

    def _made(self) -> Iterator[Subscription]:
        for handler in self._handlers:
            handler.resolve(self._types)
        for group, topic in dict.fromkeys((handler.group, handler.topic) for handler in self._handlers):
            mine = [handler for handler in self._handlers if (handler.group, handler.topic) == (group, topic)]
            _check_names(mine)
            yield Subscription(group, topic, mine[0].start, tuple(sorted(mine, key=_width)))


def rules_of(group: str, *, retry: RetryPolicy, on_failure: str, on_exhausted: str) -> Rules:
    """Return the rules that a registration's words mean. Raises InvalidHandler."""
    if not isinstance(retry, RetryPolicy):
        raise InvalidHandler(
            group, f"retry={retry!r} must be a retry policy such as Exponential(max_retries=3)"
        )
    return Rules(
        retry,
        _choice(group, "on_failure", on_failure, OnFailure),
        _choice(group, "on_exhausted", on_exhausted, OnExhausted),
    )


def _choice(group: str, name: str, value: str, choices: type[E]) -> E:
    try:
        return choices(value)
    except ValueError:
        known = ", ".join(repr(each.value) for each in choices)
        raise InvalidHandler(group, f"{name}={value!r} must be one of {known}") from None


def _check_match(group: str, match: Any) -> None:
    if isinstance(match, str):
        check_type(match)
    elif match is not None and not callable(match):
        raise InvalidHandler(group, f"match={match!r} must be a type, a prefix, a predicate or None")
    elif inspect.isclass(match):
        raise InvalidHandler(
            group,
            f"match={match!r} is a class; annotate the handler's parameter with it, and leave match out",
        )
    elif inspect.iscoroutinefunction(match):
        raise InvalidHandler(group, f"match={match!r} is async; a predicate answers at once, so make it sync")


def _check_beside(handler: Handler, other: Handler) -> None:
    """Compare a new handler with one that is there. Raises DuplicateHandler, InvalidHandler."""
    shared = {handler.id, *handler.aliases} & {other.id, *other.aliases}
    if shared:
        raise DuplicateHandler("id", min(shared))
    if (other.group, other.topic) != (handler.group, handler.topic):
        return
    if (handler.match, handler.binding.wanted) == (other.match, other.binding.wanted) or (
        handler.match is not None and handler.match == other.match
    ):
        raise DuplicateHandler("match", f"{handler.match!r} in group {handler.group!r}")
    for name in ("start", "transaction"):
        here, there = getattr(handler, name), getattr(other, name)
        if here != there:
            raise InvalidHandler(handler.group, f"its handlers disagree on {name}: {there!r} and {here!r}")


def _check_transaction(handler: Handler) -> None:
    """Refuse what does not go together with a shared transaction. Raises InvalidHandler."""
    if not isinstance(handler.transaction, bool):
        raise InvalidHandler(handler.group, f"transaction={handler.transaction!r} must be True or False")
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


def _check_names(handlers: list[Handler]) -> None:
    """Find two handlers for one type, now that their classes are known. Raises DuplicateHandler."""
    seen: set[str] = set()
    for handler in handlers:
        names = set(handler.binding.names or ()) if handler.match is None else {handler.match}
        exact = {name for name in names if isinstance(name, str) and not name.endswith(".*")}
        if exact & seen:
            raise DuplicateHandler("match", f"{min(exact & seen)!r} in group {handler.group!r}")
        seen |= exact


def _is_id(id: object) -> bool:
    return isinstance(id, str) and bool(id.strip()) and len(id) <= 255 and id.isprintable()


def _aliases(group: str, aliases: Any) -> tuple[str, ...]:
    given = (aliases,) if isinstance(aliases, str) or not isinstance(aliases, Iterable) else tuple(aliases)
    for each in given:
        if not _is_id(each):
            raise InvalidHandler(
                group, f"aliases={aliases!r} must be ids that it had before, of 1 to 255 printable characters"
            )
    return given


def _seconds(group: str, timeout: Any) -> float | None:
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
        raise InvalidHandler(
            group, f"timeout={timeout!r} must be seconds or a timedelta above zero, or None for no limit"
        )
    return float(seconds)


def _count(group: str, name: str, value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise InvalidHandler(group, f"{name}={value!r} must be a whole number of 1 or more, or None")
    return value


def _rate(group: str, rate: Any) -> float | None:
    found = per_second(rate)
    if found is None and rate is not None:
        raise InvalidHandler(
            group, f"rate={rate!r} must be records per second, or a text such as '100/s' or '5/min'"
        )
    return found


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


def _width(handler: Handler) -> tuple[int, int]:
    """Return how wide a match is: exact, predicate, prefix (longest first), all."""
    if handler.match is None:
        return (3, 0) if handler.binding.wanted is None else (0, 0)
    if not isinstance(handler.match, str):
        return 1, 0
    return (2, -len(handler.match)) if handler.match.endswith(".*") else (0, 0)


def _fail(error: Exception, _record: Record) -> NoReturn:
    raise error
