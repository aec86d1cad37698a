"""Shows one event: as facts for people, or as a document for programs."""

from base64 import b64encode
from typing import Any

import click
import msgspec

from penstock.errors import Undecodable
from penstock.model.content import CONTENT_TYPE, JSON, is_json
from penstock.operate.event import EventPlace, ShownEvent
from penstock.operate.why import Answer

from .output import line, moment, print_facts, whole

_TEXTS = ("text/", "application/xml", "application/yaml")  # content types whose bytes are text


def event_document(event: ShownEvent) -> dict[str, Any]:
    """Return an event for JSON; values that are not JSON as base64."""
    record = event.record
    shown: dict[str, Any] = {
        "place": event.place.value,
        "topic": event.topic,
        "partition": record.partition,
        "offset": record.offset,
        "id": record.id,
        "type": record.type,
        "key": None if record.key is None else line(record.key),
        "timestamp": record.timestamp,
        "due_at": event.due_at,
        "owner": event.owner,
        "content_type": _content_type(event),
        "headers": record.headers,
    }
    try:
        value = record.value
    except Undecodable:
        value = record.data
    if isinstance(value, bytes):
        shown |= {"value": None, "data_base64": b64encode(value).decode()}
    else:
        shown["value"] = value
    shown["groups"] = [whole(each) for each in event.groups]
    return shown if event.damage is None else shown | {"damage": event.damage}


def print_event(event: ShownEvent, max_bytes: int) -> None:
    """Print an event, one fact per line, then a sentence for each group."""
    record = event.record
    facts = {
        "id": record.id,
        "type": record.type or "none",
        "key": record.key,
        "topic": event.topic,
        "place": _place(event),
        "published": moment(record.timestamp),
        "due": None if event.due_at is None else moment(event.due_at),
        "owner": event.owner,
        "trace": record.trace_id,
        "content": _content_type(event),
        "damage": event.damage,
        "value": _value(event, max_bytes),
    }
    headers = {name: text for name, text in record.headers.items() if name != CONTENT_TYPE}
    print_facts(
        {name: value for name, value in facts.items() if value is not None}
        | ({"headers": headers} if headers else {})
    )
    for each in event.groups:
        click.echo()
        _print_answer(each)


def _print_answer(answer: Answer) -> None:
    text = answer.sentence if answer.group is None else f"{answer.group}: {answer.sentence}"
    click.echo(line(text))
    for each in answer.also:
        click.echo(f"  also: {line(each)}")
    for each in answer.commands:
        click.echo(f"  $ {line(each)}")


def _place(event: ShownEvent) -> str:
    partition, offset, word = event.record.partition, event.record.offset, event.place.value
    return word if offset is None else f"{event.topic}/{partition}/{offset} ({word})"


def _content_type(event: ShownEvent) -> str:
    return event.record.headers.get(CONTENT_TYPE) or JSON


def _value(event: ShownEvent, max_bytes: int) -> str:
    """Return a value as JSON, as text or in hex, cut at `max_bytes`."""
    data = event.record.data
    if data is None:
        return "none, erased" if event.place is EventPlace.ERASED else "none, a tombstone"
    text = _text(data, _content_type(event))
    shown = f"hex {data[:max_bytes].hex(' ')}" if text is None else text[:max_bytes]
    size = len(data) if text is None else len(text)
    return f"{shown} … ({len(data):,} bytes; --max-bytes shows more)" if size > max_bytes else shown


def _text(data: bytes, content_type: str) -> str | None:
    """Return the text of a value by its content type; None if it is not text."""
    try:
        if is_json(content_type):
            return msgspec.json.format(data, indent=-1).decode()
        return data.decode() if content_type.lower().startswith(_TEXTS) else None
    except ValueError:  # the bytes do not match their content type
        return None
