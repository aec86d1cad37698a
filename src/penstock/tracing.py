"""Spans that cost nothing when tracing is off.

With the extra `otel` installed, `span` opens an OpenTelemetry span on the application's own tracer
provider and `context_headers` carries the W3C trace context; without it both do nothing. The import is
tried once, at first use, never at import of this module.

A span names the place of an event, never its content: no value, no key. Of an error it has the class but not
the message: errors of drivers and of validators quote rows and payloads, and traces go to other systems than
the log, which has the permitted text.
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
MOST_LINKS = 100  # of a batch; OpenTelemetry keeps 128 per span by default


def is_on() -> bool:
    """Return whether OpenTelemetry is installed and the application has set a tracer provider."""
    api = _api()
    if api is None:
        return False
    provider = getattr(api, "_TRACER_PROVIDER", _UNKNOWN)  # the public way takes 2 us per event
    if provider is _UNKNOWN:
        return not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider)
    return provider is not None


def span(name: str, **attributes: str | int | float | bool) -> AbstractContextManager[Any]:
    """Open a span for a block; without a tracer provider, where it would show nothing, none is opened."""
    if not is_on():
        return NOTHING
    return _opened(name, attributes=attributes)


def processing_span(
    name: str, parents: Sequence[Mapping[str, str]], **attributes: str | int | float | bool
) -> AbstractContextManager[Any]:
    """Open a span for work on events, given their headers: a child of one producer's, or linked with several."""
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


def begun_span(name: str, parent: Mapping[str, str], *, since_ms: int | None = None, **attributes: str | int) -> Any:
    """Begin a span in the trace of an event, given its headers, at `since_ms` or now. Only where `is_on`."""
    return _tracer().start_span(
        name,
        context=_propagator().extract(parent),
        kind=_kind(name),
        attributes=attributes,
        start_time=None if since_ms is None else since_ms * 1_000_000,
    )


def tell_batch(name: str, parents: Iterable[Mapping[str, str]], *, since_ms: int, **attributes: str | int) -> None:
    """Record finished work on a batch, given the headers of its events.

    The trace of each event gets a span, a child of the publishing one. A batch of several events also gets a
    span in a trace of its own, linked with each of them in both directions. Only the first `MOST_LINKS`
    events are recorded. Only where `is_on`.
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
    """Mark a span as ended by an error, without the error's message, which may quote a value."""
    opened.set_status(_api().Status(_api().StatusCode.ERROR, type(error).__qualname__))
    opened.set_attribute("error.type", type(error).__qualname__)


def current_ids() -> tuple[str, str] | None:
    """Return the ids of the current trace and span; None if no span is open."""
    if not is_on():
        return None
    here = _api().get_current_span().get_span_context()
    return (f"{here.trace_id:032x}", f"{here.span_id:016x}") if here.is_valid else None


def context_headers() -> dict[str, str]:
    """Return `traceparent` and `tracestate` of the current span, if there is one."""
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
    """Return OpenTelemetry's trace module, or None when it is not installed."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    trace.get_tracer_provider()  # creates the provider that the environment names, if any
    return trace


@cache
def _tracer() -> Any:
    return _api().get_tracer("penstock")


@cache
def _propagator() -> Any:
    """Return the propagator of the W3C trace context, or None."""
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return None
    return TraceContextTextMapPropagator()
