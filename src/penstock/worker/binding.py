"""How a function is called for its records, found once from its signature.

| required parameters                     | arguments                           |
|-----------------------------------------|-------------------------------------|
| one, unannotated or `Record`            | the record                          |
| one, annotated with a registered class  | the event, decoded into that class  |
| one, annotated with a parent of some    | the event, decoded into its own     |
| one of each, in any order               | both                                |

A batch handler takes lists of the same. Parameters with a default are left alone. Classes may be registered after the
handler, so annotations are resolved again when the handlers are put to use (`resolve`).

The call is made in the context of its record: events it publishes continue the trace. A record without such headers
costs nothing while tracing is off. With OpenTelemetry each call has a span, the child of the producer's; that of a
batch is linked to each producer's. In each record's own trace another span shows its time from publication to first
attempt.
"""

import inspect
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableSequence, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from penstock import tracing
from penstock.errors import InvalidHandler, Undecodable
from penstock.model.context import context_of, current, only
from penstock.model.event_types import EventType, EventTypes
from penstock.model.record import TRACEPARENT, Record

RecordCall = Callable[[Record], Any]
BatchCall = Callable[[list[Record], list[Any]], Any]
_LISTS = (list, Sequence, MutableSequence, Collection, Iterable)
_ADVICE = "annotate it as Record or with a class registered by @outbox.event"
_KINDS = inspect.Parameter
_POSITIONAL = (_KINDS.POSITIONAL_ONLY, _KINDS.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class _Typed:
    """A parameter that takes the event: its class, or the name of one that is not known yet."""

    parameter: str
    wanted: type | str
    or_none: bool = False


_Wish = _Typed | None  # None: the record


class Binding:
    """How one function is called: `call` with a record, `call_many` with a batch and its events, after `resolve`.

    `names` are the types under which the class of a typed parameter is registered, `reach` these and all beneath them
    with their depth; None without such a parameter, as is `decode`.
    """

    def __init__(self, function: Callable[..., Any], group: str, *, batch: bool) -> None:
        """Read the signature. Raises InvalidHandler."""
        self.function, self._group = function, group
        self.is_async = _is_async(function)
        self.names: frozenset[str] | None = None
        self.reach: dict[str, int] | None = None
        self._version = -1  # of the registry, at the last `resolve`
        self.decode: RecordCall | None = None
        self._wishes = _wishes(function, group, batch)
        self._typed = next((each for each in self._wishes if each is not None), None)
        self.call: RecordCall = in_context(function, group, is_async=self.is_async)
        self.call_many = (
            batch_in_context(_many(function, self._wishes), group, is_async=self.is_async) if batch else None
        )
        if self.call_many is not None:
            self.call = _alone(self.call_many, None)

    @property
    def wanted(self) -> type | str | None:
        """The class that a parameter asks for, or its name, whether it is registered or not."""
        return None if self._typed is None else self._typed.wanted

    def resolve(self, types: EventTypes) -> None:
        """Look up the class that the function asks for. Raises InvalidHandler when it is not registered."""
        if self._typed is None or self._version == types.version:
            return
        wanted, kind = self._kind(self._typed, types)
        self._version = types.version
        self.names = frozenset() if kind is None else kind.names
        self.reach = types.beneath(wanted)
        kinds = {name: found for name in self.reach if (found := types.find(name)) is not None}
        self.decode = decode = _decoder(wanted, kind, kinds, self._typed.or_none)
        if self.call_many is not None:
            self.call = _alone(self.call_many, decode)
        else:
            one = _one(self.function, self._wishes, decode)
            self.call = in_context(one, self._group, is_async=self.is_async)

    def _kind(self, typed: _Typed, types: EventTypes) -> tuple[type, EventType | None]:
        """Return the requested class, and its event type; None if it is only a parent of some."""
        wanted = typed.wanted
        known = _evaluated(wanted, self.function) if isinstance(wanted, str) else wanted
        found = types.of_class(known) if isinstance(known, type) else types.of_class_named(str(wanted))
        if found is not None:
            return found.cls, found
        if isinstance(known, type) and types.beneath(known):
            return known, None
        name = wanted if isinstance(wanted, str) else wanted.__qualname__
        raise InvalidHandler(
            self._group,
            f"{_named(self.function)} asks for {name} in {typed.parameter!r}, which is not a registered "
            f"event nor a parent of one; {_ADVICE}",
        )


def id_of(function: Callable[..., Any], group: str) -> str:
    """Return the id of a function: its module and name, of what a partial wraps. Raises InvalidHandler."""
    inner = _without_partials(function)
    name = getattr(inner, "__qualname__", "")
    if not isinstance(name, str) or not name or "<lambda>" in name or inspect.isclass(inner):
        raise InvalidHandler(group, "a lambda or object without a name needs id=..., stable over deploys")
    return f"{_module_of(inner)}.{name}"


def required(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters that a caller must fill by position; None when some are keyword-only."""
    return _required(inspect.signature(function))


def _module_of(function: Any) -> str:
    """Return the module's name, also where it runs as the program itself: there Python calls it __main__."""
    name = str(function.__module__)
    if name != "__main__":
        return name
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    return Path(file).stem if file else name


def _without_partials(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


def _is_async(function: Any) -> bool:
    inner = _without_partials(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)


def _wishes(function: Callable[..., Any], group: str, batch: bool) -> tuple[_Wish, ...]:
    """Return what each required parameter takes, in their order. Raises InvalidHandler."""
    try:
        parameters = _required(inspect.signature(function))
        if parameters is None or not 1 <= len(parameters) <= 2:  # a decorator may supply some itself
            parameters = _required(inspect.signature(function, follow_wrapped=False))
    except (TypeError, ValueError):
        return (None,)  # a builtin without a signature
    what = "a handler takes the record, the event or both" + (", in lists" if batch else "")
    if parameters is None or not 1 <= len(parameters) <= 2:
        count = "named parameters without a default" if parameters is None else f"{len(parameters)} parameters"
        raise InvalidHandler(group, f"{_named(function)} needs {count}; {what}: give the others a default")
    wishes = tuple(_wish(each, function, group, batch) for each in parameters)
    if len(wishes) == 2 and (wishes[0] is None) == (wishes[1] is None):
        both = "records" if wishes[0] is None else "events"
        names = " and ".join(each.name for each in parameters)
        raise InvalidHandler(group, f"{_named(function)}: {names} are both {both}; {what}: annotate which is which")
    return wishes


def _required(signature: inspect.Signature) -> list[inspect.Parameter] | None:
    parameters = list(signature.parameters.values())
    empty = _KINDS.empty
    if any(each.kind is _KINDS.KEYWORD_ONLY and each.default is empty for each in parameters):
        return None
    by_place = [each for each in parameters if each.kind in _POSITIONAL]
    needed = [each for each in by_place if each.default is empty]
    rest = [each for each in parameters if each.kind is _KINDS.VAR_POSITIONAL]
    return needed or by_place[:1] or rest


def _wish(parameter: inspect.Parameter, function: Any, group: str, batch: bool) -> _Wish:
    if parameter.kind is _KINDS.VAR_POSITIONAL:
        return None
    annotation = _evaluated(parameter.annotation, function)
    wanted, or_none = _element(annotation) if batch else annotation, False
    if get_origin(wanted) is Annotated:
        wanted = get_args(wanted)[0]
    if get_origin(wanted) in (Union, UnionType) and NoneType in get_args(wanted):
        kinds = [each for each in get_args(wanted) if each is not NoneType]
        wanted, or_none = (kinds[0], True) if len(kinds) == 1 else (wanted, False)
    if wanted in (_KINDS.empty, Any, object, Record) or isinstance(wanted, TypeVar):
        return None
    if isinstance(wanted, str):
        name = wanted.removesuffix("| None").strip()
        known = name.rpartition(".")[2] == "Record"
        return None if known else _Typed(parameter.name, name, or_none=name != wanted)
    if isinstance(wanted, type) and get_origin(wanted) is None and wanted.__module__ != "builtins":
        return _Typed(parameter.name, wanted, or_none)
    advice = "annotate it as list[Record], or a list of a registered class" if batch else _ADVICE
    if get_origin(annotation) in _LISTS and not batch:
        advice += "; lists are given with batch=..."
    raise InvalidHandler(group, f"{_named(function)} cannot be given {inspect.formatannotation(annotation)}: {advice}")


def _element(annotation: Any) -> Any:
    if annotation in _LISTS or annotation in (_KINDS.empty, Any, object):
        return _KINDS.empty
    if isinstance(annotation, str):
        head, _, inner = annotation.removesuffix("]").partition("[")
        return inner.strip() if head and inner else dict
    if get_origin(annotation) in _LISTS and len(get_args(annotation)) == 1:
        return get_args(annotation)[0]
    return dict  # not a list: refused like any other builtin


def _evaluated(annotation: Any, function: Any) -> Any:
    """Return the meaning of an annotation written as text; the text itself while that is unknown."""
    if not isinstance(annotation, str):
        return annotation
    inner = inspect.unwrap(_without_partials(function))
    inner = getattr(inner, "__func__", inner)
    code = inner if inspect.isfunction(inner) else getattr(type(inner).__call__, "__func__", type(inner).__call__)
    scope = dict(getattr(code, "__globals__", {}))
    scope |= inspect.getclosurevars(code).nonlocals if inspect.isfunction(code) else {}
    try:
        return get_type_hints(SimpleNamespace(__annotations__={"it": annotation}), scope, scope)["it"]
    except Exception:  # evaluating it may raise anything; usually NameError
        return annotation


def _decoder(wanted: type, own: EventType | None, kinds: Mapping[str, EventType], or_none: bool) -> RecordCall:
    """Return a function that decodes a record into the class of its type, or else into the requested one."""

    def decode(record: Record) -> Any:
        kind = own if record.type is None else kinds.get(record.type, own)
        if kind is None:
            what = f"an event {record.type!r} as {wanted.__qualname__}"
            raise Undecodable(what, "no class is registered for it that has this one as a parent")
        if record.data is not None:
            return kind.decode(record.data, record.type or kind.name)
        if or_none:
            return None
        raise Undecodable(f"an event {kind.name!r}", "it is a tombstone; annotate `| None` to be given None")

    return decode


def _one(function: Callable[..., Any], wishes: tuple[_Wish, ...], decode: RecordCall) -> RecordCall:
    if len(wishes) == 1:
        return lambda record: function(decode(record))
    if wishes[0] is None:
        return lambda record: function(record, decode(record))
    return lambda record: function(decode(record), record)


def _many(function: Callable[..., Any], wishes: tuple[_Wish, ...]) -> BatchCall:
    if len(wishes) == 2:
        if wishes[0] is None:
            return function
        return lambda records, events: function(events, records)
    if wishes[0] is None:
        return lambda records, events: function(records)
    return lambda records, events: function(events)


def _alone(many: BatchCall, decode: RecordCall | None) -> RecordCall:
    return lambda record: many([record], [] if decode is None else [decode(record)])


def _named(function: Any) -> str:
    inner = _without_partials(function)
    return str(getattr(inner, "__qualname__", "") or type(inner).__qualname__)


T = TypeVar("T")


def in_context(call: RecordCall, group: str, *, is_async: bool) -> RecordCall:
    """Return a handler's call, made in the context of the record it is for."""

    def carried(record: Record) -> Any:
        entries = context_of(record.raw_headers) if record.raw_headers else {}
        if not entries and not current() and not tracing.is_on():
            return call(record)
        if is_async:
            return _within(lambda: call(record), [record], entries, group)
        with only(entries), _span([record], group):
            answer = call(record)
        if answer is None or not inspect.isawaitable(answer):
            return answer
        return _later(answer, entries)

    return carried


def batch_in_context(call: BatchCall, group: str, *, is_async: bool) -> BatchCall:
    """Return a batch handler's call, in a span if tracing is on."""

    def carried(records: list[Record], events: list[Any]) -> Any:
        if not tracing.is_on():
            return call(records, events)
        if is_async:
            return _within(lambda: call(records, events), records, {}, group)
        with only({}), _span(records, group):
            return call(records, events)

    return carried


async def _within(
    call: Callable[[], Awaitable[T]], records: Sequence[Record], entries: Mapping[str, str], group: str
) -> T:
    with only(entries), _span(records, group):
        return await call()


async def _later(answer: Awaitable[T], entries: Mapping[str, str]) -> T:
    with only(entries):
        return await answer


def _span(records: Sequence[Record], group: str) -> AbstractContextManager[Any]:
    if not tracing.is_on():
        return tracing.NOTHING
    parents = [context_of(record.raw_headers) for record in records]
    first = records[0]
    for record, parent in zip(records, parents, strict=True):
        if TRACEPARENT in parent and not record.is_retry:
            _delivered(record, parent, group)
    more = {"events": len(records)} if len(records) > 1 else {"id": first.id, "attempt": first.attempt}
    return tracing.processing_span("penstock.handle", parents, group=group, type=first.type or "", **more)


def _delivered(record: Record, parent: Mapping[str, str], group: str) -> None:
    topic, partition, offset = record.topic or "", record.partition or 0, record.offset or 0
    at: dict[str, str | int] = {"id": record.id, "topic": topic, "partition": partition, "offset": offset}
    tracing.begun_span("penstock.deliver", parent, since_ms=record.timestamp_ms, group=group, **at).end()
