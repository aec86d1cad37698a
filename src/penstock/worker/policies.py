"""Which retry policy applies to a handler: that of the first level that has one.

| level      | where                                                                           |
|------------|---------------------------------------------------------------------------------|
| handler    | the attribute `retry_policy` of the function, or of the object it belongs to    |
| decorator  | `@outbox.handler(…, retry=…)`                                                   |
| outbox     | `Outbox(…, retry=…)`                                                            |
| settings   | the table `[retry]`, or its defaults                                            |
"""

import inspect
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from penstock.errors import InvalidHandler, InvalidInput, shown
from penstock.model.retry import RetryPolicy
from penstock.model.retry_settings import RetrySettings

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
    """Return the policy in force and its source; `given` is the decorator's.

    Raises InvalidHandler for a value that is not a policy, even where another one applies.
    """
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
