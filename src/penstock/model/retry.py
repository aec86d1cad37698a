"""Retry policies: whether a failed record is retried, and after which delay.

Values without clock or I/O. n counts the failures so far, from 1; a record is retried while n <= max_retries,
so the default makes four attempts with 2, 4 and 8 seconds between them.

| policy      | delay before the attempt after failure n       |
|-------------|------------------------------------------------|
| Fixed       | delay                                          |
| Linear      | min(initial_delay + increment * (n-1), max)    |
| Exponential | min(initial_delay * multiplier ** (n-1), max)  |
| PowerOfTwo  | min(2 ** n seconds, max)                       |
| Custom      | the result of your function, within 0 and max  |

Jitter j spreads the delay d, after the cap, over whole milliseconds from max(0, d-j) to d+j.
"""

import logging
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Protocol

from penstock.backoff import CHANCE
from penstock.errors import InvalidPolicy
from penstock.redaction import chain, traced, words

logger = logging.getLogger("penstock.retry")

Duration = timedelta | float  # a number is in seconds
Matcher = type[BaseException] | str  # a class, or its dotted name
Predicate = Callable[[BaseException], bool]

_LARGEST = sys.float_info.max
_SECOND = timedelta(seconds=1)
_MS = timedelta(milliseconds=1)
_LONGEST_MS = timedelta(days=3650) // _MS
_FROM_ZERO, _ABOVE_ZERO = "zero or more", "a millisecond or more"


class Random(Protocol):
    """The source of randomness for jitter."""

    def randint(self, a: int, b: int, /) -> int:
        """Return a whole number from a to b, both included."""


def _duration(default: Duration, *, zero: bool = False) -> Any:
    """Declare a field that holds a duration above 0 (or from 0)."""
    return field(default=default, metadata={"duration": _FROM_ZERO if zero else _ABOVE_ZERO})


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The options of all policies: the number of retries, the jitter, and the errors to retry.

    `retry_on` names the errors that are retried, by default all; `no_retry_on` those that never are, and it
    wins. Each takes exception classes, their dotted names and functions of the error, one or several. Classes
    and names are matched along the chain of causes and inside exception groups; a function gets the error
    that the handler raised. `retry_if` is an earlier name for functions in `retry_on`.
    """

    max_retries: int = 3
    jitter: Duration = _duration(timedelta(), zero=True)
    retry_on: Matcher | Predicate | Iterable[Matcher | Predicate] = ()
    no_retry_on: Matcher | Predicate | Iterable[Matcher | Predicate] = ()
    retry_if: Predicate | Iterable[Predicate] = ()

    def __post_init__(self) -> None:
        for each in fields(self):
            if "duration" in each.metadata:
                self._set(each.name, self._as_duration(each.name, each.metadata["duration"]))
        if not isinstance(self.max_retries, int) or isinstance(self.max_retries, bool) or self.max_retries < 0:
            raise self._refusal("max_retries", "a whole number of zero or more")
        for name in ("retry_on", "no_retry_on", "retry_if"):
            self._set(name, self._as_tuple(name))

    def base_delay_ms(self, failures: int) -> int:
        """Return the delay after that many failures, before jitter, in milliseconds."""
        raise NotImplementedError(f"{type(self).__name__} has no delay")

    def delay_after(self, failures: int, rng: Random = CHANCE) -> timedelta:
        """Return the delay after failure number `failures` (from 1)."""
        base, jitter = self.base_delay_ms(failures), _ms(self.jitter)
        return (rng.randint(max(0, base - jitter), base + jitter) if jitter else base) * _MS

    def retries(self, failures: int, error: BaseException) -> bool:
        """Return whether a record with that many failures, the last being `error`, is retried."""
        return failures <= self.max_retries and self.accepts(error)

    def accepts(self, error: BaseException) -> bool:
        """Return whether errors of this kind are retried at all."""
        if _fits(_listed(self.no_retry_on), error, in_doubt=False):
            return False
        wanted = (*_listed(self.retry_on), *_listed(self.retry_if))
        return not wanted or _fits(wanted, error, in_doubt=True)

    def _as_duration(self, name: str, wanted: str) -> timedelta:
        value = getattr(self, name)
        refusal = self._refusal(name, f"a timedelta or seconds, {wanted} and at most ten years")
        if isinstance(value, bool):
            raise refusal
        try:
            span = value if isinstance(value, timedelta) else timedelta(seconds=value)
        except (TypeError, ValueError, OverflowError):
            raise refusal from None
        if span < (timedelta() if wanted == _FROM_ZERO else _MS) or _ms(span) > _LONGEST_MS:
            raise refusal
        return span

    def _as_tuple(self, name: str) -> tuple[Any, ...]:
        wanted = "a function" if name == "retry_if" else "an exception class, its dotted name or a function"
        try:
            each = _listed(getattr(self, name))
        except TypeError:
            raise self._refusal(name, f"{wanted}, or several") from None
        for one in each:
            if not (callable(one) if name == "retry_if" else _can_match(one)):
                raise InvalidPolicy(type(self).__name__, name, one, wanted)
        return each

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # as frozen dataclasses do, once, during construction

    def _refusal(self, name: str, wanted: str) -> InvalidPolicy:
        return InvalidPolicy(type(self).__name__, name, getattr(self, name), wanted)


@dataclass(frozen=True)
class Fixed(RetryPolicy):
    """The same delay each time."""

    delay: Duration = _duration(timedelta(seconds=5))

    def base_delay_ms(self, failures: int) -> int:
        """Return the fixed delay."""
        return _ms(self.delay)


@dataclass(frozen=True)
class Linear(RetryPolicy):
    """A delay that grows by the same step."""

    initial_delay: Duration = _duration(timedelta(seconds=2))
    increment: Duration = _duration(timedelta(seconds=2))
    max_delay: Duration = _duration(timedelta(seconds=60))

    def base_delay_ms(self, failures: int) -> int:
        """Return min(initial_delay + increment * (n-1), max_delay)."""
        return min(_ms(self.initial_delay) + _ms(self.increment) * (failures - 1), _ms(self.max_delay))


@dataclass(frozen=True)
class Exponential(RetryPolicy):
    """A delay that grows by the same factor; the default policy."""

    initial_delay: Duration = _duration(timedelta(seconds=2))
    multiplier: float = 2.0
    max_delay: Duration = _duration(timedelta(seconds=60))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.multiplier, int | float) or not 1.0 < self.multiplier <= _LARGEST:
            raise self._refusal("multiplier", "a finite number above 1.0")

    def base_delay_ms(self, failures: int) -> int:
        """Return min(initial_delay * multiplier ** (n-1), max_delay)."""
        try:
            grown = _ms(self.initial_delay) * float(self.multiplier) ** (failures - 1)
        except OverflowError:
            return _ms(self.max_delay)
        return int(min(grown, _ms(self.max_delay)))


@dataclass(frozen=True)
class PowerOfTwo(RetryPolicy):
    """2, 4, 8, 16 and 32 seconds: five retries by default."""

    max_retries: int = field(default=5, kw_only=True)
    max_delay: Duration = _duration(timedelta(hours=1))

    def base_delay_ms(self, failures: int) -> int:
        """Return min(2 ** n seconds, max_delay)."""
        return min(1000 << min(failures, 40), _ms(self.max_delay))


@dataclass(frozen=True)
class Custom(RetryPolicy):
    """Delays from your own function of the failure count, clamped to the range from 0 to max_delay."""

    function: Callable[[int], Duration]
    max_delay: Duration = _duration(timedelta(hours=1))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.function):
            raise self._refusal("function", "a function from the failure count to a delay")

    def base_delay_ms(self, failures: int) -> int:
        """Return the delay from the function; max_delay if it raises or returns an invalid value."""
        longest = _ms(self.max_delay)
        try:
            result = self.function(failures)
            wanted = result if isinstance(result, timedelta) else timedelta(seconds=result)
        except Exception as exc:
            failed = "the delay function of a Custom retry policy failed; waiting %d ms"
            logger.warning(failed, longest, exc_info=traced(exc), extra={"error": words(exc)})
            return longest
        return min(max(_ms(wanted), 0), longest)


def _ms(span: Duration) -> int:
    return (span if isinstance(span, timedelta) else span * _SECOND) // _MS


def _listed(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, str | type) or callable(value) else tuple(value)


def _can_match(one: Any) -> bool:
    if isinstance(one, type):
        return issubclass(one, BaseException)
    return one != "" if isinstance(one, str) else callable(one)


def _fits(wanted: Iterable[Any], error: BaseException, *, in_doubt: bool) -> bool:
    """Return whether an error matches: classes and names its chain, functions the error itself."""
    matchers, predicates = list[Matcher](), list[Predicate]()
    for one in wanted:
        (matchers if isinstance(one, str | type) else predicates).append(one)
    if matchers and any(_matches(matcher, each) for each in chain(error) for matcher in matchers):
        return True
    return any(_ask(predicate, error, in_doubt) for predicate in predicates)


def _matches(matcher: Matcher, error: BaseException) -> bool:
    if isinstance(matcher, str):
        return any(matcher in (cls.__qualname__, f"{cls.__module__}.{cls.__qualname__}") for cls in type(error).__mro__)
    return isinstance(error, matcher)


def _ask(predicate: Predicate, error: BaseException, in_doubt: bool) -> bool:
    """Return a function's result; `in_doubt` if it raises, so that errors are rather retried than lost."""
    try:
        return bool(predicate(error))
    except Exception as exc:
        failed = "a function of a retry policy failed; the record is retried"
        logger.warning(failed, exc_info=traced(exc), extra={"error": words(exc)})
        return in_doubt


_SHOWN = 5  # delays, before "…" stands for the rest
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def policy_words(policy: RetryPolicy) -> str:
    """Return a policy in one line: `3 retries after 2s, 4s, 8s ± 500ms; never ValueError`."""
    if not policy.max_retries:
        return "no retries"
    parts = [_delays(policy)]
    for lead, listed in (("only", policy.retry_on), ("if", policy.retry_if), ("never", policy.no_retry_on)):
        if names := [_name(each) for each in _listed(listed)]:
            parts.append(f"{lead} {', '.join(names)}")
    return "; ".join(parts)


def span_words(milliseconds: int) -> str:
    """Return a duration in the largest unit that divides it."""
    for per, unit in _UNITS:
        if milliseconds and milliseconds % per == 0:
            return f"{milliseconds // per}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0s"


def _delays(policy: RetryPolicy) -> str:
    count = policy.max_retries
    shown = [span_words(policy.base_delay_ms(n)) for n in range(1, min(count, _SHOWN) + 1)]
    if len(set(shown)) == 1:
        shown = shown[:1] if count == 1 else [f"{shown[0]} each"]
    elif count > _SHOWN:
        shown.append("…")
    jitter_ms = _ms(policy.jitter)
    spread = f" ± {span_words(jitter_ms)}" if jitter_ms else ""
    return f"{count} {'retry' if count == 1 else 'retries'} after {', '.join(shown)}{spread}"


def _name(matcher: Any) -> str:
    return matcher if isinstance(matcher, str) else str(getattr(matcher, "__qualname__", matcher))
