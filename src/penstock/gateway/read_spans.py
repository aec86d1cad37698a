"""The spans of a read by offset: the trace of a record shows that a client has read it."""

from collections.abc import Sequence

from penstock import tracing
from penstock.model.context import context_of
from penstock.model.record import Record


def tell_read(topic: str, records: Sequence[Record], since_ms: int) -> None:
    """Add a span to the trace of each record that a client reads, while spans are recorded."""
    if records and tracing.is_on():
        parents = (context_of(each.raw_headers) for each in records)
        tracing.tell_batch("penstock.read", parents, since_ms=since_ms, topic=topic, records=len(records))
