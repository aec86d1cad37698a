"""`penstock events`: lists events by their state, shows one, and deletes those before a moment."""

from datetime import datetime
from typing import Any

import click
import msgspec

from penstock.log.store import Store
from penstock.model.content import CONTENT_TYPE, JSON, is_json
from penstock.operate import events
from penstock.operate.event import EventPlace, ShownEvent, show_event
from penstock.operate.events import DELETABLE, Event, EventState

from .options import past_option, store_command, yes_option
from .output import confirm, line, moment, print_facts, print_json, print_page, print_result, value_document, whole
from .why import print_answer

_COLUMNS = ("at", "topic", "record", "key", "type", "group", "id")
_TEXTS = ("text/", "application/xml", "application/yaml")  # content types whose bytes are text
_STATES = click.Choice([each.value for each in EventState])


@click.group("events")
def command() -> None:
    """List the events in a state, show one, or delete those of a state before a moment."""


@store_command("list", command, paged=True)
@click.option("--state", type=_STATES, required=True, help="Which state.")
@click.option("--topic", help="Only this topic.")
@click.option("--group", help="Only this group, for waiting and dead events.")
def list_events(store: Store, state: str, as_json: bool, **filters: Any) -> None:
    """List the events in a state.

    Scheduled: not due yet. Staged: committed, no offset yet. Pending: in the log, not yet passed by every
    group. Waiting: in a lane of a group, for a retry or its turn. Done: passed by every group, neither
    waiting nor dead. Dead: given up by a group.
    """
    found = events.events(store, EventState(state), **filters)
    print_page("events", found, _COLUMNS, _row, none=f"no event is {state}", as_json=as_json)


@store_command("show", command)
@click.argument("id")
@click.option("--key", help="Its key, to search only the key's partition.")
@click.option("--scan", is_flag=True, help="Search the whole log for it.")
@click.option(
    "--max-bytes",
    type=click.IntRange(min=0),
    default=2000,
    show_default=True,
    help="How much of the value to print; --json prints it whole.",
)
def show_one(id: str, store: Store, key: str | None, scan: bool, max_bytes: int, as_json: bool) -> None:
    """Show one event and its progress in each group.

    Prints its envelope, headers and value; its state: scheduled, staged, or in the log; and for each group
    the answer of `penstock why`. Exits with 1 if the event does not exist.
    """
    found = show_event(store, id, key=key, everything=scan)
    if as_json:
        print_json(event_document(found))
    else:
        print_event(found, max_bytes)


@store_command("delete", command)
@click.option("--state", type=_STATES, required=True, help="Which state.")
@past_option("--before", "Only those before this moment.", required=True)
@click.option("--topic", help="Only this topic.")
@click.option("--group", help="Only this group, for dead events.")
@click.option("--dry-run", is_flag=True, help="Change nothing; show how many it would be.")
@yes_option
def delete_events(
    store: Store, state: str, before: datetime, dry_run: bool, yes: bool, as_json: bool, **filters: Any
) -> None:
    """Delete the events of a state before a moment.

    Done: published before it; the oldest of each partition, and only those that every group has passed.
    Scheduled: due before it. Dead: died before it. Events that are yet to be delivered are refused.
    """
    if not (dry_run or yes) and EventState(state) in DELETABLE:
        count = events.delete(store, EventState(state), before, dry_run=True, **filters)
        confirm(f"{_counted(count, state, before)}. Delete them?", as_json=as_json)
    count = events.delete(store, EventState(state), before, dry_run=dry_run, **filters)
    print_result(
        {"count": count, "dry_run": dry_run},
        f"{_counted(count, state, before)} {'would be ' if dry_run else ''}deleted",
        as_json=as_json,
    )


def _counted(count: int, state: str, before: datetime) -> str:
    return f"{count} {state} event{'' if count == 1 else 's'} before {moment(before)}"


def _row(each: Event) -> tuple[object, ...]:
    place = None if each.partition is None else f"{each.topic}/{each.partition}/{each.offset}"
    return each.at, each.topic, place, each.key, each.type, each.group, each.id


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
    shown |= value_document(record)
    shown["groups"] = whole(event.groups)
    return shown if event.damage is None else shown | {"damage": event.damage}


def print_event(event: ShownEvent, max_bytes: int) -> None:
    """Print an event, one fact per line, then a sentence for each group."""
    record, word = event.record, event.place.value
    headers = {name: text for name, text in record.headers.items() if name != CONTENT_TYPE}
    facts = {
        "id": record.id,
        "type": record.type or "none",
        "key": record.key,
        "topic": event.topic,
        "place": word if record.offset is None else f"{event.topic}/{record.partition}/{record.offset} ({word})",
        "published": moment(record.timestamp),
        "due": None if event.due_at is None else moment(event.due_at),
        "owner": event.owner,
        "trace": record.trace_id,
        "content": _content_type(event),
        "damage": event.damage,
        "value": _value(event, max_bytes),
        "headers": headers or None,
    }
    print_facts({name: value for name, value in facts.items() if value is not None})
    for each in event.groups:
        click.echo()
        print_answer(each, with_group=True)


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
