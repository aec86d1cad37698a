"""`penstock events`: lists events by their state, shows one, and deletes those before a moment."""

from datetime import datetime
from typing import Any

import click

from penstock.operate import events
from penstock.operate.event import show_event
from penstock.operate.events import DELETABLE, Event, EventState

from .asking import confirm
from .event_shown import event_document, print_event
from .options import after_option, before_option, json_option, limit_option, opened, store_options
from .output import cell, moment, print_json, print_page

_COLUMNS = ("at", "topic", "record", "key", "type", "group", "id")
_STATES = click.Choice([each.value for each in EventState])


@click.group("events")
def command() -> None:
    """List the events in a state, show one, or delete those of a state before a moment."""


@command.command("list")
@store_options
@click.option("--state", type=_STATES, required=True, help="Which state.")
@click.option("--topic", help="Only this topic.")
@click.option("--group", help="Only this group, for waiting and dead events.")
@limit_option
@after_option
@json_option
def list_events(url: str, prefix: str, schema: str | None, state: str, as_json: bool, **filters: Any) -> None:
    """List the events in a state.

    Scheduled: not due yet. Staged: committed, no offset yet. Pending: in the log, not yet passed by every
    group. Waiting: in a lane of a group, for a retry or its turn. Done: passed by every group, neither
    waiting nor dead. Dead: given up by a group.
    """
    with opened(url, prefix, schema) as store:
        found = events.events(store, EventState(state), **filters)
    print_page("events", found, _COLUMNS, _row, none=f"no event is {state}", as_json=as_json)


@command.command("show")
@click.argument("id")
@store_options
@click.option("--key", help="Its key, to search only the key's partition.")
@click.option("--scan", is_flag=True, help="Search the whole log for it.")
@click.option(
    "--max-bytes",
    type=click.IntRange(min=0),
    default=2000,
    show_default=True,
    help="How much of the value to print; --json prints it whole.",
)
@json_option
def show_one(
    id: str,
    url: str,
    prefix: str,
    schema: str | None,
    key: str | None,
    scan: bool,
    max_bytes: int,
    as_json: bool,
) -> None:
    """Show one event and its progress in each group.

    Prints its envelope, headers and value; its state: scheduled, staged, or in the log; and for each group
    the answer of `penstock why`. Exits with 1 if the event does not exist.
    """
    with opened(url, prefix, schema) as store:
        found = show_event(store, id, key=key, everything=scan)
    if as_json:
        print_json(event_document(found))
    else:
        print_event(found, max_bytes)


@command.command("delete")
@store_options
@click.option("--state", type=_STATES, required=True, help="Which state.")
@before_option("Only those before this moment.", required=True)
@click.option("--topic", help="Only this topic.")
@click.option("--group", help="Only this group, for dead events.")
@click.option("--dry-run", is_flag=True, help="Change nothing; show how many it would be.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete_events(
    url: str,
    prefix: str,
    schema: str | None,
    state: str,
    before: datetime,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Delete the events of a state before a moment.

    Done: published before it; the oldest of each partition, and only those that every group has passed.
    Scheduled: due before it. Dead: died before it. Events that are yet to be delivered are refused.
    """
    with opened(url, prefix, schema) as store:
        if not (dry_run or yes) and EventState(state) in DELETABLE:
            count = events.delete(store, EventState(state), before, dry_run=True, **filters)
            confirm(f"{_counted(count, state, before)}. Delete them?", as_json=as_json)
        count = events.delete(store, EventState(state), before, dry_run=dry_run, **filters)
    if as_json:
        print_json({"count": count, "dry_run": dry_run})
    else:
        click.echo(f"{_counted(count, state, before)} {'would be ' if dry_run else ''}deleted")


def _counted(count: int, state: str, before: datetime) -> str:
    return f"{count} {state} event{'' if count == 1 else 's'} before {moment(before)}"


def _row(each: Event) -> tuple[str, ...]:
    place = "" if each.partition is None else f"{each.topic}/{each.partition}/{each.offset}"
    texts = moment(each.at), each.topic, place, each.key or "", each.type, each.group or "", each.id
    return tuple(map(cell, texts))
