"""A retry policy in words: `3 retries after 2s, 4s, 8s ± 500ms; never ValueError`."""

from datetime import timedelta
from typing import Any

from .retry import RetryPolicy

_SHOWN = 5  # delays, before "…" stands for the rest
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_MS = timedelta(milliseconds=1)


def policy_words(policy: RetryPolicy) -> str:
    """Return a description of a policy in one line."""
    if not policy.max_retries:
        return "no retries"
    parts = [_delays(policy)]
    for lead, listed in (("only", policy.retry_on), ("if", policy.retry_if), ("never", policy.no_retry_on)):
        names = [_name(each) for each in _listed(listed)]
        if names:
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
    jitter = policy.jitter if isinstance(policy.jitter, timedelta) else timedelta(seconds=policy.jitter)
    spread = f" ± {span_words(jitter // _MS)}" if jitter else ""
    return f"{count} {'retry' if count == 1 else 'retries'} after {', '.join(shown)}{spread}"


def _listed(given: Any) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)


def _name(matcher: Any) -> str:
    """Return the name of an exception class or of a predicate."""
    return matcher if isinstance(matcher, str) else str(getattr(matcher, "__qualname__", matcher))
