"""The context of a publish: named strings that each event carries as headers.

It belongs to the running thread or task (a context variable), and a handler runs in the context of its
record, so its own publishes carry the same entries. `penstock-context` names the headers that are context, to
distinguish them from an event's own headers; `traceparent` and `tracestate` always are, by the W3C standard.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from penstock.errors import InvalidHeaders

from .limits import check_header
from .record import TOKEN, TRACEPARENT, TRACESTATE, RawHeaders, trace_ids

CARRIED = "penstock-context"
_TRACE = (TRACEPARENT, TRACESTATE)
_MARKS = frozenset((CARRIED, TRACEPARENT))

_EMPTY: Mapping[str, str] = {}
_current: ContextVar[Mapping[str, str]] = ContextVar("penstock_context", default=_EMPTY)

current = _current.get


@contextmanager
def context(values: Mapping[str, str] | None = None, /, **named: str) -> Iterator[None]:
    """Add headers to every event published in a block, beside those of the outer blocks.

    `with penstock.context(tenant="acme"):`. A handler of such an event runs in the same context. Raises InvalidHeaders.
    """
    added = {**(values or {}), **named}
    for name, value in added.items():
        check_entry(name, value)
    token = _current.set({**_current.get(), **added})
    try:
        yield
    finally:
        _current.reset(token)


def check_entry(name: object, value: object) -> None:
    """Refuse an entry that is not a valid header or has a reserved name. Raises InvalidHeaders."""
    if not isinstance(value, str):
        raise InvalidHeaders(name, f"in a context its value must be a string, not {type(value).__name__}")
    check_header(name, value)
    if name in (CARRIED, TOKEN) or "," in str(name):
        raise InvalidHeaders(name, "a context cannot have this name")


def headers_of(entries: Mapping[str, str]) -> RawHeaders:
    """Return a context as headers."""
    if not entries:
        return ()
    headers = tuple((name, value.encode()) for name, value in entries.items())
    named = ",".join(name for name in entries if name not in _TRACE)
    return (*headers, (CARRIED, named.encode())) if named else headers


def context_of(headers: RawHeaders) -> Mapping[str, str]:
    """Return the context in a record's headers, without malformed entries."""
    if not any(name in _MARKS for name, _ in headers):
        return _EMPTY
    texts = {name: value.decode("utf-8", "replace") for name, value in headers if value is not None}
    found = {name: texts[name] for name in texts.get(CARRIED, "").split(",") if _is_entry(name, texts)}
    if trace_ids(texts.get(TRACEPARENT, "")) is not None:
        found |= {name: texts[name] for name in _TRACE if name in texts}
    return found


@contextmanager
def only(entries: Mapping[str, str]) -> Iterator[None]:
    """Replace the whole context in a block."""
    token = _current.set(entries)
    try:
        yield
    finally:
        _current.reset(token)


def _is_entry(name: str, texts: Mapping[str, str]) -> bool:
    if name not in texts or name in _TRACE:
        return False
    try:
        check_entry(name, texts[name])
    except InvalidHeaders:
        return False
    return True
