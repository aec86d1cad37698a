"""Spans that cost nothing when nobody looks.

With the extra `otel` installed, `span` opens an OpenTelemetry span on the application's own tracer
provider and `context_headers` carries the W3C trace context; without it both do nothing. Whether it is
there is looked up once, at first use, never at import.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

_NOTHING: AbstractContextManager[None] = nullcontext()


def span(name: str, **attributes: str | int | float | bool) -> AbstractContextManager[Any]:
    """Open a span named `name` for the length of a `with` block.

    Without a tracer provider set by the application a span would cost and show nothing, so none is opened.
    """
    api = _api()
    if api is None or isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        return _NOTHING
    opened: AbstractContextManager[Any] = _tracer().start_as_current_span(name, attributes=attributes)
    return opened


def context_headers() -> dict[str, str]:
    """Return `traceparent` and `tracestate` of the span that is open now, if there is one."""
    inject = _injector()
    carrier: dict[str, str] = {}
    if inject is not None:
        inject(carrier)
    return carrier


@cache
def _api() -> Any:
    """Return OpenTelemetry's module for traces, or None when it is not installed."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return trace


@cache
def _tracer() -> Any:
    return _api().get_tracer("penstock")


@cache
def _injector() -> Callable[[dict[str, str]], None] | None:
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return None
    return TraceContextTextMapPropagator().inject
