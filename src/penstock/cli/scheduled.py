"""`penstock scheduled`: lists, shows, cancels and runs now scheduled events."""

from datetime import datetime
from typing import Any

import click

from penstock.errors import UnknownScheduled
from penstock.log.store import Store
from penstock.operate import scheduled
from penstock.operate.scheduled import ScheduledEvent, ScheduledRecord, ScheduledSelection

from .exit_codes import FAILED
from .options import ChosenStore, after_option, json_option, limit_option, store_command, store_options
from .output import cell, line, moment, print_facts, print_json, print_page, print_result, value_document, whole
from .units import moment as at_moment

_COLUMNS = ("due", "topic", "key", "owner", "type", "id")


@click.group("scheduled")
def command() -> None:
    """List, show, cancel or run now the scheduled events."""


@command.command("list")
@store_options
@click.option("--topic", help="Only this topic.")
@click.option("--key", help="Only this key.")
@click.option("--owner", help="Only this owner.")
@click.option("--before", type=at_moment, help="Only events due before this moment.")
@limit_option
@after_option
@json_option
def list_scheduled(
    chosen: ChosenStore,
    topic: str | None,
    key: str | None,
    owner: str | None,
    before: datetime | None,
    as_json: bool,
    **paged: Any,
) -> None:
    """List scheduled events by due time."""
    selection = ScheduledSelection(topic=topic, key=key, owner=owner, before=before)
    with chosen.opened() as store:
        found = scheduled.scheduled(store, selection, **paged)
    print_page(
        "scheduled",
        found,
        _COLUMNS,
        _row,
        none="no scheduled events match" if selection.is_narrow else "no scheduled events",
        as_json=as_json,
    )


@store_command("show", command)
@click.argument("id")
def show_scheduled(id: str, store: Store, as_json: bool) -> None:
    """Show a scheduled event: headers and value."""
    shown = _shown(scheduled.show(store, id))
    if as_json:
        print_json(shown)
        return
    print_facts(shown)


@command.command("cancel")
@store_options
@click.option("--id", "id", help="The one with this id.")
@click.option("--topic", help="Those of this topic.")
@click.option("--key", help="Those of this key.")
@click.option("--owner", help="Those of this owner.")
@click.option("--before", type=at_moment, help="Those due before this moment.")
@click.option("--all", "all", is_flag=True, help="All of them.")
@click.option("--dry-run", is_flag=True, help="Change nothing; show how many it would be.")
@json_option
def cancel_scheduled(
    chosen: ChosenStore,
    id: str | None,
    topic: str | None,
    key: str | None,
    owner: str | None,
    before: datetime | None,
    all: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Cancel scheduled events for good.

    An event that a sequencer is moving at that moment is neither cancelled nor counted. Exits with 1 if the
    one of --id is not scheduled.
    """
    selection = ScheduledSelection(id=id, topic=topic, key=key, owner=owner, before=before)
    if not (selection.is_narrow or all):
        raise click.UsageError("select scheduled events with --id, --topic, --key, --owner, --before, or --all")
    with chosen.opened() as store:
        count = scheduled.cancel(store, selection, all=all, dry_run=dry_run)
    if as_json:
        print_json({"count": count, "dry_run": dry_run})
    elif id is not None and not count:
        raise UnknownScheduled(id)
    else:
        events = "1 scheduled event" if count == 1 else f"{count} scheduled events"
        click.echo(f"{events} {'would be cancelled' if dry_run else 'cancelled'}")
    click.get_current_context().exit(FAILED if id is not None and not count else 0)


@store_command("run-now", command)
@click.argument("id")
def run_now(id: str, store: Store, as_json: bool) -> None:
    """Make a scheduled event due now."""
    scheduled.run_now(store, id)
    print_result({"id": id, "due": "now"}, f"event {line(id)} is due now", as_json=as_json)


def _row(each: ScheduledEvent) -> tuple[str, ...]:
    texts = moment(each.due_at), each.topic, each.key or "", each.owner or "", each.type, each.id
    return tuple(map(cell, texts))


def _shown(each: ScheduledRecord) -> dict[str, Any]:
    """Return an event for JSON; values that are not JSON as base64."""
    shown = {"timestamp": each.record.timestamp, "headers": each.record.headers}
    return whole(each.event) | shown | value_document(each.record)
