"""Context providers: headers that the context of a publish adds to its events.

Collected once per call of `publish` or `publish_many`: first the context variable (`penstock.context`), then
OpenTelemetry's current span, then the providers in the order of registration. Later ones win, and an event's
own headers win over all. If a provider fails, the event is published without its headers.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from penstock import tracing
from penstock.errors import InvalidInput, shown
from penstock.model.context import check_entry, current, headers_of
from penstock.model.record import TRACESTATE, RawHeaders
from penstock.redaction import traced, words

logger = logging.getLogger("penstock.context")

Provider = Callable[[], Mapping[str, str]]
P = TypeVar("P", bound=Provider)


class ContextProviders:
    """The providers of one outbox."""

    def __init__(self) -> None:
        self._providers: tuple[Provider, ...] = ()

    def add(self, provider: P) -> P:
        """Add a provider. Raises InvalidInput when it is not callable."""
        if not callable(provider):
            raise InvalidInput(f"context provider {shown(provider)} must be a function that returns a dict")
        self._providers = (*self._providers, provider)
        return provider

    def headers(self, *, traced: bool) -> RawHeaders:
        """Return the headers for events published now; `traced`: OpenTelemetry has a current span."""
        entries = current()
        if not entries and not traced and not self._providers:
            return ()
        gathered = dict(entries)
        if traced:
            gathered.pop(TRACESTATE, None)  # it belongs to the parent that the span replaces
            gathered |= tracing.context_headers()
        for provider in self._providers:
            gathered |= _provided(provider)
        return headers_of(gathered)


def _provided(provider: Provider) -> Mapping[str, str]:
    try:
        given = dict(provider() or {})
        for name, value in given.items():
            check_entry(name, value)
    except Exception as exc:
        message = "context provider %r failed; events are published without its headers"
        logger.error(message, provider, exc_info=traced(exc), extra={"error": words(exc)})
        return {}
    return given
