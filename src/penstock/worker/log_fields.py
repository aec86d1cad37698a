"""The subject of a log record, as the fields that `extra=` puts on it (`penstock.logs.FIELDS`)."""

from typing import Any

from penstock.model.record import Record

from .handler import Handler


def about_handler(handler: Handler, **more: Any) -> dict[str, Any]:
    """Return the fields of a line about a handler."""
    return {"group": handler.group, "handler": handler.id, "topic": handler.topic, **more}


def about_record(handler: Handler, record: Record, **more: Any) -> dict[str, Any]:
    """Return the fields of a line about a record and its handler."""
    return {
        "group": handler.group,
        "handler": handler.id,
        "topic": record.topic or handler.topic,
        "partition": record.partition,
        "offset": record.offset,
        "key": record.key,
        "id": record.id,
        "type": record.type,
        "attempt": record.attempt,
        "trace_id": record.trace_id,
        "span_id": record.span_id,
        **more,
    }
