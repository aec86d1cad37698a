"""The registered handlers of a program: the records each matches, its rules in force, and their check with a store.

The check finds records without a handler, and handlers that are never called. A problem means that records wait
for a missing handler; a warning may be intended.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal

import msgspec

from penstock.database.database import Transaction
from penstock.delivery.groups import unread_topics
from penstock.delivery.verdict import OnFailure
from penstock.log.store import Store
from penstock.membership.filters import Filter, covers
from penstock.model.retry import policy_words
from penstock.worker.handler import Handler, Subscription
from penstock.worker.handler_options import LanesWord, Start
from penstock.worker.handlers import Handlers
from penstock.worker.membership_loop import filters_of

from .operation import operation


class Weight(Enum):
    """The severity of a finding."""

    PROBLEM = "problem"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A problem or a warning. `about`: the group, topic, handler or file."""

    weight: Weight
    about: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class CheckedHandler:
    """A registered handler: its group, topic, match and id."""

    group: str
    topic: str
    match: tuple[str, ...]
    id: str


@dataclass(frozen=True, slots=True)
class Checked:
    """The handlers by group, and the findings."""

    handlers: tuple[CheckedHandler, ...]
    findings: tuple[CheckFinding, ...]

    @property
    def is_well(self) -> bool:
        """Whether there is no problem."""
        return all(each.weight is not Weight.PROBLEM for each in self.findings)


@operation
def check(
    store: Store, handlers: Handlers, *, module: str | None = None, others: Mapping[str, Handlers] | None = None
) -> Checked:
    """Compare handlers with the groups and topics of their store.

    With the program's `module` name, also check its source files that were never imported, and the handlers
    of `others`, the other outboxes of this process by name. Raises InvalidHandler.
    """
    subscriptions = list(handlers.subscriptions())
    served = filters_of(subscriptions)
    groups = store.database.look(_groups)
    orphans = store.database.look(lambda tx: unread_topics(tx, store.log_in(tx)))
    found = [
        *_unserved(groups, served),
        *_unread(orphans, {each.topic for each in subscriptions}),
        *_unknown_types(handlers),
    ]
    if module is not None:
        found += [*_elsewhere(module, others or {}), *_unimported(module)]
    registered = [each for subscription in subscriptions for each in subscription.handlers]
    shown = [CheckedHandler(each.group, each.topic, tuple(each.match_texts()), each.id) for each in registered]
    return Checked(tuple(sorted(shown, key=lambda each: (each.group, each.topic, each.id))), tuple(found))


def _groups(tx: Transaction) -> dict[str, Filter]:
    """Return the groups of the store with their current filter; a group that only drains has none."""
    rows = tx.rows("operate", "group_filters")
    filters = {name: msgspec.json.decode(text, type=list[tuple[str, ...]]) for name, text in rows}
    return {name: known[0] if known else () for name, known in filters.items()}


def _unserved(groups: Mapping[str, Filter], served: Mapping[str, Filter]) -> Iterator[CheckFinding]:
    for name, stored in groups.items():
        if name not in served:
            remedy = f"register a handler with group={name!r}; if it is no longer needed: "
            remedy += f"`penstock groups delete {name}`, which deletes its offsets and dead letters"
            yield CheckFinding(Weight.PROBLEM, f"group {name}", "no handler here serves it", remedy)
            continue
        left = [text for text in stored if not covers(served[name], (text,))]
        if left:
            weight = Weight.PROBLEM if len(left) == len(stored) else Weight.WARNING
            what = f"its filter wants {', '.join(left)}, and no handler here matches that"
            remedy = "register a handler for it, or accept that those records stay unhandled"
            yield CheckFinding(weight, f"group {name}", what, remedy)


def _unread(orphans: Mapping[str, int], served: set[str]) -> Iterator[CheckFinding]:
    for topic, count in orphans.items():
        if topic not in served:
            remedy = f"register a handler with topic={topic!r}; if the records are not needed: "
            remedy += f"`penstock topics delete {topic}`, which deletes them"
            what = f"it has {count} records and no group reads it"
            yield CheckFinding(Weight.PROBLEM, f"topic {topic}", what, remedy)


def _unknown_types(handlers: Handlers) -> Iterator[CheckFinding]:
    """Find handlers for a type without a registered event class, in programs whose events are classes."""
    names = handlers.types.names()
    for each in (handler for one in handlers.subscriptions() for handler in one.handlers) if names else ():
        match = each.match
        if isinstance(match, str) and each.prefix is None and not names & handlers.types.beneath(match).keys():
            remedy = "fine if it is published without a class; otherwise check the spelling"
            yield CheckFinding(Weight.WARNING, f"handler {each.id}", f"no event is registered as {match!r}", remedy)


def _elsewhere(module: str, others: Mapping[str, Handlers]) -> Iterator[CheckFinding]:
    package = module.partition(".")[0]
    for name, registry in others.items():
        for each in (handler for one in registry.subscriptions() for handler in one.handlers):
            home = str(getattr(inspect.unwrap(each.function), "__module__", ""))
            if home == module or home.partition(".")[0] == package:
                remedy = "register it with the outbox that the worker runs"
                what = f"it is registered with another outbox, {name}"
                yield CheckFinding(Weight.PROBLEM, f"handler {each.id}", what, remedy)


def _unimported(module: str) -> Iterator[CheckFinding]:
    """Find files of the program's package that register handlers and were never imported."""
    package = sys.modules.get(module.partition(".")[0])
    folders = [Path(each) for each in getattr(package, "__path__", [])]
    loaded = {str(getattr(each, "__file__", None)) for each in list(sys.modules.values())}
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        if str(path) not in loaded and _registers(path):
            remedy = f"import it where {module} is imported, so that its handlers are registered"
            yield CheckFinding(Weight.PROBLEM, f"file {path}", "it has handlers and was not imported", remedy)


def _registers(path: Path) -> bool:
    """Return whether a file decorates a function with `….handler(…, group=…)`."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, ValueError, SyntaxError):
        return False
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    for decorator in (each for node in functions for each in node.decorator_list):
        match decorator:
            case ast.Call(func=ast.Attribute(attr="handler"), keywords=given) if any(
                each.arg == "group" for each in given
            ):
                return True
    return False


# -- the handlers alone: the store is not read


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
