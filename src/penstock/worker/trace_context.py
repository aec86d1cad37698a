"""Calling a handler in the context of its record: events it publishes continue the trace.

A record without such headers costs nothing while tracing is off. With OpenTelemetry each call has a span, the
child of the producer's. A call for many records runs in no single context; its span is linked to each
producer's. In each record's own trace another span shows its time in transit: from its publication to its
first attempt.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from penstock import tracing
from penstock.model.context import context_of, current, only
from penstock.model.record import TRACEPARENT, Record

T = TypeVar("T")
RecordCall = Callable[[Record], Any]
BatchCall = Callable[[list[Record], list[Any]], Any]


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
    """Await the result of a function that is not async itself."""
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
    tracing.begun_span(
        "penstock.deliver",
        parent,
        since_ms=record.timestamp_ms,
        group=group,
        id=record.id,
        topic=record.topic or "",
        partition=record.partition or 0,
        offset=record.offset or 0,
    ).end()
