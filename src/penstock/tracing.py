"""Spans that cost nothing when nobody looks.

With the extra `otel` installed, `span` opens an OpenTelemetry span on the application's own tracer
provider and `context_headers` carries the W3C trace context; without it both do nothing. Whether it is
there is looked up once, at first use, never at import.

A span tells of events where they are, never what they say: no value, no key. Of an error it says the kind and
no word: errors of drivers and of validators quote rows and payloads, and traces go to other systems than the
log, which has the words that may be said.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

NOTHING: AbstractContextManager[None] = nullcontext()
_UNKNOWN = object()
_KINDS = {"penstock.publish": "PRODUCER"} | dict.fromkeys(
    ("penstock.deliver", "penstock.handle", "penstock.fetch", "penstock.read", "penstock.load"), "CONSUMER"
)
MOST_LINKS = 100  # of a batch; OpenTelemetry keeps 128 of a span unless it is told otherwise


def is_on() -> bool:
    """Return whether anybody looks: OpenTelemetry is there and the application has set a tracer provider."""
    api = _api()
    if api is None:
        return False
    provider = getattr(api, "_TRACER_PROVIDER", _UNKNOWN)  # the public way takes 2 us, for every event
    if provider is _UNKNOWN:
        return not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)
    return provider is not None


def span(name: str, **attributes: str | int | float | bool) -> AbstractContextManager[Any]:
    """Open a span named `name` for the length of a `with` block.

    Without a tracer provider set by the application a span would cost and show nothing, so none is opened.
    """
    if not is_on():
        return NOTHING
    return _opened(name, attributes=attributes)


def processing_span(
    name: str, parents: Sequence[Mapping[str, str]], **attributes: str | int | float | bool
) -> AbstractContextManager[Any]:
    """Open a span for work on events, given the headers that each came with.

    It is the child of one event's producer; of several it is linked to each.
    """
    if not is_on():
        return NOTHING
    api = _api()
    contexts = [_propagator().extract(headers) for headers in parents]
    spans = [api.get_current_span(each).get_span_context() for each in contexts]
    return _opened(
        name,
        context=contexts[0] if len(contexts) == 1 else None,
        links=[api.Link(each) for each in spans if each.is_valid] if len(contexts) > 1 else (),
        attributes=attributes,
    )


def begun_span(
    name: str, parent: Mapping[str, str], *, since_ms: int | None = None, **attributes: str | int
) -> Any:
    """Begin a span in the trace of an event, given the headers that it came with; the caller ends it.

    `since_ms`: when it began, if that was before. Only where `is_on`.
    """
    return _tracer().start_span(
        name,
        context=_propagator().extract(parent),
        kind=_kind(name),
        attributes=attributes,
        start_time=None if since_ms is None else since_ms * 1_000_000,
    )


def tell_batch(
    name: str, parents: Iterable[Mapping[str, str]], *, since_ms: int, **attributes: str | int
) -> None:
    """Tell of work on a batch that is over, given the headers that its events came with.

    In the trace of each event it is a span, the child of the one that published it. Where there are several
    the batch has a span of its own as well, in a trace of its own: it is linked to each, and each to it. Of
    more than `MOST_LINKS` events the first are told. Only where `is_on`.
    """
    producers = dict[Any, Any]()
    for headers in parents:
        context = _propagator().extract(headers)
        found = _api().get_current_span(context).get_span_context()
        if found.is_valid:
            producers[found.trace_id, found.span_id] = context, _api().Link(found)
            if len(producers) == MOST_LINKS:
                break
    given = {"kind": _kind(name), "attributes": attributes, "start_time": since_ms * 1_000_000}
    to_whole: list[Any] = []
    if len(producers) > 1:
        links = [link for _, link in producers.values()]
        nowhere = _api().set_span_in_context(_api().INVALID_SPAN)
        whole = _tracer().start_span(name, context=nowhere, links=links, **given)
        to_whole = [_api().Link(whole.get_span_context())]
        whole.end()
    for context, _ in producers.values():
        _tracer().start_span(name, context=context, links=to_whole, **given).end()


def failed(opened: Any, error: BaseException) -> None:
    """Mark a span as one that an error ended. What the error says stays out: it may quote a value."""
    opened.set_status(_api().Status(_api().StatusCode.ERROR, type(error).__qualname__))
    opened.set_attribute("error.type", type(error).__qualname__)


def current_ids() -> tuple[str, str] | None:
    """Return the ids of the trace and of the span that is open now; None if there is none."""
    if not is_on():
        return None
    here = _api().get_current_span().get_span_context()
    return (f"{here.trace_id:032x}", f"{here.span_id:016x}") if here.is_valid else None


def context_headers() -> dict[str, str]:
    """Return `traceparent` and `tracestate` of the span that is open now, if there is one."""
    propagator = _propagator()
    carrier: dict[str, str] = {}
    if propagator is not None:
        propagator.inject(carrier)
    return carrier


@contextmanager
def _opened(name: str, **given: Any) -> Iterator[Any]:
    with _tracer().start_as_current_span(
        name, kind=_kind(name), record_exception=False, set_status_on_exception=False, **given
    ) as opened:
        try:
            yield opened
        except BaseException as error:
            failed(opened, error)
            raise


def _kind(name: str) -> Any:
    return _api().SpanKind[_KINDS.get(name, "INTERNAL")]


@cache
def _api() -> Any:
    """Return OpenTelemetry's module for traces, or None when it is not installed."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    trace.get_tracer_provider()  # makes the provider that the environment names, if it names one
    return trace


@cache
def _tracer() -> Any:
    return _api().get_tracer("penstock")


@cache
def _propagator() -> Any:
    """Return what reads and writes the W3C trace context, or None."""
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return None
    return TraceContextTextMapPropagator()
