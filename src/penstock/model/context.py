"""The context in which a program publishes: names with texts that go with each event as headers.

It belongs to the running thread or task (a context variable), and a handler runs in that of its record:
what it publishes carries the same names on. `penstock-context` names the headers that are context, so that
a handler can tell them from those that an event was given by hand; `traceparent` and `tracestate` are so by
W3C's word.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from penstock.errors import InvalidHeaders

from .limits import check_header
from .record import TOKEN, RawHeaders
from .trace import TRACEPARENT, TRACESTATE, trace_ids

CARRIED = "penstock-context"
_TRACE = (TRACEPARENT, TRACESTATE)
_MARKS = frozenset((CARRIED, TRACEPARENT))

_EMPTY: Mapping[str, str] = {}
_current: ContextVar[Mapping[str, str]] = ContextVar("penstock_context", default=_EMPTY)

current = _current.get


@contextmanager
def context(values: Mapping[str, str] | None = None, /, **named: str) -> Iterator[None]:
    """Give every event published in a block these headers, beside those of the blocks around it.

    `with penstock.context(tenant="acme"):`. A handler of such an event runs in the same context. Raises
    InvalidHeaders.
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
    """Refuse what cannot be a header, or has a name that means something else. Raises InvalidHeaders."""
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
    """Return the context that a record's headers carry; what is malformed is left out."""
    if not any(name in _MARKS for name, _ in headers):
        return _EMPTY
    texts = {name: value.decode("utf-8", "replace") for name, value in headers if value is not None}
    found = {name: texts[name] for name in texts.get(CARRIED, "").split(",") if _is_entry(name, texts)}
    if trace_ids(texts.get(TRACEPARENT, "")) is not None:
        found |= {name: texts[name] for name in _TRACE if name in texts}
    return found


@contextmanager
def only(entries: Mapping[str, str]) -> Iterator[None]:
    """Make these the whole context of a block."""
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
