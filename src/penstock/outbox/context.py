"""Context providers: what the surroundings of a publish add to the headers of its events.

Asked once for each call of `publish` or `publish_many`. First the context variable (`penstock.context`),
then OpenTelemetry's open span, then the providers in the order they were registered: later ones win, and an
event's own headers win over all. If a provider fails, the event is published without its headers.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from penstock import tracing
from penstock.errors import InvalidInput, shown
from penstock.model.context import check_entry, current, headers_of
from penstock.model.record import RawHeaders
from penstock.model.trace import TRACESTATE
from penstock.redaction import traced, words

logger = logging.getLogger("penstock.context")

Provider = Callable[[], Mapping[str, str]]
P = TypeVar("P", bound=Provider)


class ContextProviders:
    """The providers of one outbox."""

    def __init__(self) -> None:
        self._providers: tuple[Provider, ...] = ()

    def add(self, provider: P) -> P:
        """Ask this one too. Raises InvalidInput when it cannot be called."""
        if not callable(provider):
            raise InvalidInput(f"context provider {shown(provider)} must be a function that returns a dict")
        self._providers = (*self._providers, provider)
        return provider

    def headers(self, *, traced: bool) -> RawHeaders:
        """Return the headers for events published now; `traced`: OpenTelemetry has a span open."""
        entries = current()
        if not entries and not traced and not self._providers:
            return ()
        gathered = dict(entries)
        if traced:
            gathered.pop(TRACESTATE, None)  # it belongs to the parent that is replaced
            gathered |= tracing.context_headers()
        for provider in self._providers:
            gathered |= _asked(provider)
        return headers_of(gathered)


def _asked(provider: Provider) -> Mapping[str, str]:
    try:
        given = dict(provider() or {})
        for name, value in given.items():
            check_entry(name, value)
    except Exception as exc:
        said = "context provider %r failed; events are published without its headers"
        logger.error(said, provider, exc_info=traced(exc), extra={"error": words(exc)})
        return {}
    return given
