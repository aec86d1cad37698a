"""The options of a handler's registration, each spelled here and nowhere else.

Code that registers a handler makes this value and passes it on; `Outbox.handler` takes its keywords from it.

Of these levels, the retry policy of the first that has one applies:

| level      | where                                                                           |
|------------|---------------------------------------------------------------------------------|
| handler    | the attribute `retry_policy` of the function, or of the object it belongs to    |
| decorator  | `@outbox.handler(…, retry=…)`                                                   |
| outbox     | `Outbox(…, retry=…)`                                                            |
| settings   | the table `[retry]`, or its defaults                                            |
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from enum import Enum
from functools import partial, wraps
from math import inf
from typing import Any, Concatenate, Literal, NoReturn, ParamSpec, TypeVar, get_args

from penstock.delivery.verdict import OnExhausted, OnFailure, Rules
from penstock.errors import InvalidHandler, InvalidInput, shown
from penstock.model.limits import check_topic, check_type
from penstock.model.record import Record
from penstock.model.retry import RetryPolicy
from penstock.model.retry_settings import RetrySettings
from penstock.outbox.staging import DEFAULT_TOPIC
from penstock.redaction import ErrorText

from .calling.rate import per_second

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
HandlerFunction = Callable[..., Any]
RecordPredicate = Callable[[Record], bool]
MethodPredicate = Callable[[Any, Record], bool]  # in a class: of its instance and the record
Match = str | RecordPredicate | MethodPredicate | None
Fallback = Callable[..., object]  # of the record, and perhaps the reason; in a class of its instance first
Start = Literal["earliest", "latest"]
FailureWord = Literal["park", "alone", "dead"]
ExhaustedWord = Literal["hold", "release"]
LanesWord = Literal["key", "partition"]

DEFAULT_TIMEOUT_SECONDS = 600.0
_WORDS = {"start": Start, "on_failure": FailureWord, "on_exhausted": ExhaustedWord, "lanes": LanesWord}


@dataclass(frozen=True, slots=True, eq=False)
class HandlerOptions:
    """The options of one handler, checked. Raises InvalidHandler, InvalidTopic, InvalidType.

    `match`: a type, a prefix such as "order.*", a predicate, or None for all (of the class it takes, if it takes one).
    `group` names the cursor. `on_failure`: the records that wait while one is retried; `on_exhausted`: the fate of its
    key when the retries are used up. `fallback` is called once before a record is given up. `timeout` is in seconds,
    None for no limit; `rate` is records per second in all processes, or "5/min"; `batch` the most records of one call.
    `transaction`: its writes through `record.tx` commit with its cursor. `lanes`: the records handled in strict order,
    those of a key or of a partition. `aliases` are ids it had before, the first one first.
    """

    match: Match = None
    _: KW_ONLY
    group: str
    id: str | None = None
    topic: str = DEFAULT_TOPIC
    start: Start = "earliest"
    retry: RetryPolicy | None = None
    on_failure: FailureWord = "park"
    on_exhausted: ExhaustedWord = "hold"
    fallback: Fallback | None = None
    timeout: timedelta | float | None = DEFAULT_TIMEOUT_SECONDS
    concurrency: int | None = None
    rate: float | str | None = None
    batch: int | None = None
    transaction: bool = False
    lanes: LanesWord = "key"
    aliases: str | Iterable[str] = ()

    def __post_init__(self) -> None:
        """Check the options, and normalize them: seconds, records per second, a tuple of ids."""
        check_topic(self.topic)
        if not is_name(self.group):
            raise InvalidHandler(str(self.group), "a group's name must be 1 to 255 printable characters")
        _check_match(self.group, self.match)
        for name, words in _WORDS.items():
            if getattr(self, name) not in get_args(words):
                self._refuse(name, f"must be one of {', '.join(map(repr, get_args(words)))}")
        if self.id is not None and not is_name(self.id):
            self._refuse("id", "must be 1 to 255 printable characters, or None")
        for name in ("concurrency", "batch"):
            if not _is_count(getattr(self, name)):
                self._refuse(name, "must be a whole number of 1 or more, or None")
        if not isinstance(self.transaction, bool):
            self._refuse("transaction", "must be True or False")
        seconds, rate, aliases = _seconds(self.timeout), per_second(self.rate), _ids(self.aliases)
        if seconds is None and self.timeout is not None:
            self._refuse("timeout", "must be seconds or a timedelta above zero, or None for no limit")
        if rate is None and self.rate is not None:
            self._refuse("rate", "must be records per second, or a text such as '100/s' or '5/min'")
        if aliases is None:
            self._refuse("aliases", "must be ids that it had before, of 1 to 255 printable characters")
        object.__setattr__(self, "timeout", seconds)
        object.__setattr__(self, "rate", rate)
        object.__setattr__(self, "aliases", aliases)

    def rules_with(self, retry: RetryPolicy, error_text: ErrorText = ErrorText.REDACTED) -> Rules:
        """Return the rules for failures, with the retry policy in force."""
        return Rules(retry, OnFailure(self.on_failure), OnExhausted(self.on_exhausted), error_text)

    def _refuse(self, name: str, why: str) -> NoReturn:
        raise InvalidHandler(self.group, f"{name}={getattr(self, name)!r} {why}")


def _taking(
    made: Callable[P, HandlerOptions],
) -> Callable[[Callable[[S, HandlerOptions], R]], Callable[Concatenate[S, P], R]]:
    def decorated(method: Callable[[S, HandlerOptions], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(method)
        def called(self: S, /, *args: P.args, **options: P.kwargs) -> R:
            return method(self, made(*args, **options))

        own, *_ = inspect.signature(method).parameters.values()
        given = inspect.signature(made).parameters.values()
        shown = inspect.signature(method).replace(parameters=[own, *given])
        called.__signature__ = shown  # type: ignore[attr-defined]
        return called

    return decorated


# Gives a method that takes the options the parameters that make them, as type checkers and IDEs show them.
takes_options = _taking(HandlerOptions)


def is_name(text: object) -> bool:
    """Return whether something can be the name of a group or the id of a handler."""
    return isinstance(text, str) and bool(text.strip()) and len(text) <= 255 and text.isprintable()


def _check_match(group: str, match: Any) -> None:
    if isinstance(match, str):
        check_type(match)
        if match != match.strip() or "*" in match.removesuffix(".*") or match == ".*":
            why = 'leave match out for all types; a prefix ends in ".*", and nothing else in it is a star'
            raise InvalidHandler(group, f"match={match!r} is no type and no prefix: {why}")
    elif match is not None and not callable(match):
        raise InvalidHandler(group, f"match={match!r} must be a type, a prefix, a predicate or None")
    elif inspect.isclass(match):
        raise InvalidHandler(
            group, f"match={match!r} is a class; annotate the handler's parameter with it, and leave match out"
        )
    elif inspect.iscoroutinefunction(match):
        raise InvalidHandler(group, f"match={match!r} is async; a predicate answers at once, so make it sync")


def _is_count(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)


def _seconds(timeout: Any) -> float | None:
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < inf:
        return None
    return float(seconds)


def _ids(aliases: Any) -> tuple[str, ...] | None:
    given = (aliases,) if isinstance(aliases, str) or not isinstance(aliases, Iterable) else tuple(aliases)
    return given if all(map(is_name, given)) else None


ATTRIBUTE = "retry_policy"
_ADVICE = "must be a retry policy such as Exponential(max_retries=3)"


class Origin(Enum):
    """The source of a handler's retry policy."""

    HANDLER = "handler"
    DECORATOR = "decorator"
    OUTBOX = "outbox"
    SETTINGS = "settings"


def check_policy(policy: object) -> RetryPolicy | None:
    """Return the policy of a whole outbox, if it has one. Raises InvalidInput."""
    if policy is None or isinstance(policy, RetryPolicy):
        return policy
    raise InvalidInput(f"Outbox(retry={shown(policy)}) {_ADVICE}")


def policy_of(
    function: Callable[..., Any], group: str, *, given: RetryPolicy | None, outbox: RetryPolicy | None
) -> tuple[RetryPolicy, Origin]:
    """Return the policy in force and its source; `given` is the decorator's. Raises InvalidHandler for a wrong one."""
    own = _own(function, group)
    if given is not None and not isinstance(given, RetryPolicy):
        raise InvalidHandler(group, f"retry={given!r} {_ADVICE}")
    levels = ((own, Origin.HANDLER), (given, Origin.DECORATOR), (outbox, Origin.OUTBOX))
    for policy, origin in levels:
        if policy is not None:
            return policy, origin
    return RetrySettings.load().to_policy(), Origin.SETTINGS


def _own(function: Any, group: str) -> RetryPolicy | None:
    """Return the policy that a function carries, or the object whose method it is."""
    while isinstance(function, partial):
        function = function.func
    for holder in (function, getattr(function, "__self__", None)):
        # Without getattr: a mock has every attribute.
        if inspect.getattr_static(holder, ATTRIBUTE, None) is None:
            continue
        policy = getattr(holder, ATTRIBUTE)
        if isinstance(policy, RetryPolicy):
            return policy
        if policy is not None:
            raise InvalidHandler(group, f"{ATTRIBUTE}={policy!r} of its handler {_ADVICE}, or None")
    return None
