"""The W3C trace context in headers: the trace, and the span in it, that published a record."""

import re

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_PARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?P<trace>(?!0{32})[0-9a-f]{32})-(?P<span>(?!0{16})[0-9a-f]{16})-[0-9a-f]{2}(-.*)?"
)


def trace_ids(traceparent: str) -> tuple[str, str] | None:
    """Return the ids of the trace and of the span that a `traceparent` names; None if it is malformed."""
    found = _PARENT.fullmatch(traceparent)
    return None if found is None else (found["trace"], found["span"])
