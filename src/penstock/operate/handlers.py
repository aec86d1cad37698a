"""The registered handlers of a program: the records each matches, and the rules in force for it.

Does not read the store: `check.py` compares the two.
"""

from dataclasses import dataclass
from typing import Literal

from penstock.delivery.verdict import OnFailure
from penstock.model.retry import policy_words
from penstock.worker.handler import Handler, Subscription
from penstock.worker.handler_options import LanesWord, Start
from penstock.worker.handlers import Handlers


@dataclass(frozen=True, slots=True)
class HandlerShown:
    """One handler.

    `match`: as registered. `types`: the type names it stands for, with aliases and children (for a prefix or
    a predicate only those registered in addition). `retry_from`: the level whose retry policy applies.
    """

    group: str
    topic: str
    start: Start
    id: str
    aliases: tuple[str, ...]
    match: str
    types: tuple[str, ...]
    kind: Literal["sync", "async"]
    batch: int | None
    transaction: bool
    lanes: LanesWord
    retry: str
    retry_from: str
    max_retries: int
    on_failure: str
    on_exhausted: str
    fallback: str | None
    timeout_seconds: float | None
    concurrency: int | None
    rate: float | None


def handlers(registry: Handlers, *, group: str | None = None, type: str | None = None) -> list[HandlerShown]:
    """Return the handlers by group and topic, in matching order.

    Of one group or all; with a `type`, only those that may receive its records. Raises InvalidHandler,
    DuplicateHandler.
    """
    found = sorted(registry.subscriptions(), key=lambda each: (each.group, each.topic))
    return [
        _shown(subscription, handler)
        for subscription in found
        if group in (None, subscription.group)
        for handler in (subscription.handlers if type is None else subscription.asked(type))
    ]


def _shown(subscription: Subscription, handler: Handler) -> HandlerShown:
    rules = handler.rules
    final = rules.on_failure is OnFailure.DEAD
    return HandlerShown(
        handler.group,
        handler.topic,
        subscription.start,
        handler.id,
        handler.aliases,
        _match(handler),
        tuple(sorted(handler.reach or ())),
        "async" if handler.binding.is_async else "sync",
        handler.batch,
        handler.transaction,
        handler.lanes,
        "no retries" if final else policy_words(rules.retry),
        handler.retry_from.value,
        0 if final else rules.retry.max_retries,
        rules.on_failure.value,
        rules.on_exhausted.value,
        None if handler.fallback is None else _name(handler.fallback),
        handler.timeout,
        handler.concurrency,
        handler.rate,
    )


def _match(handler: Handler) -> str:
    if isinstance(handler.match, str):
        return handler.match
    if handler.match is not None:
        return f"{_name(handler.match)}(record)"
    wanted = handler.binding.wanted
    return "*" if wanted is None else wanted if isinstance(wanted, str) else wanted.__qualname__


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", "") or function.__class__.__qualname__)
