"""`penstock scheduled`: lists, shows, cancels and runs now scheduled events."""

from operator import attrgetter
from typing import Any

import click

from penstock.errors import UnknownScheduled
from penstock.log.store import Store
from penstock.operate import scheduled
from penstock.operate.scheduled import ScheduledSelection

from .exit_codes import FAILED
from .options import ChosenStore, json_option, store_command, store_options
from .output import line, print_facts, print_json, print_page, print_result, with_record
from .units import moment

_COLUMNS = ("due", "topic", "key", "owner", "type", "id")
_row = attrgetter("due_at", "topic", "key", "owner", "type", "id")


@click.group("scheduled")
def command() -> None:
    """List, show, cancel or run now the scheduled events."""


@store_command("list", command, paged=True)
@click.option("--topic", help="Only this topic.")
@click.option("--key", help="Only this key.")
@click.option("--owner", help="Only this owner.")
@click.option("--before", type=moment, help="Only events due before this moment.")
def list_scheduled(store: Store, as_json: bool, limit: int, after: str | None, **filters: Any) -> None:
    """List scheduled events by due time."""
    selection = ScheduledSelection(**filters)
    found = scheduled.scheduled(store, selection, limit=limit, after=after)
    none = "no scheduled events match" if selection.is_narrow else "no scheduled events"
    print_page("scheduled", found, _COLUMNS, _row, none=none, as_json=as_json)


@store_command("show", command)
@click.argument("id")
def show_scheduled(id: str, store: Store, as_json: bool) -> None:
    """Show a scheduled event: headers and value."""
    found = scheduled.show(store, id)
    (print_json if as_json else print_facts)(with_record(found.event, found.record))


@command.command("cancel")
@store_options
@click.option("--id", "id", help="The one with this id.")
@click.option("--topic", help="Those of this topic.")
@click.option("--key", help="Those of this key.")
@click.option("--owner", help="Those of this owner.")
@click.option("--before", type=moment, help="Those due before this moment.")
@click.option("--all", "all", is_flag=True, help="All of them.")
@click.option("--dry-run", is_flag=True, help="Change nothing; show how many it would be.")
@json_option
def cancel_scheduled(chosen: ChosenStore, all: bool, dry_run: bool, as_json: bool, **filters: Any) -> None:
    """Cancel scheduled events for good.

    An event that a sequencer is moving at that moment is neither cancelled nor counted. Exits with 1 if the
    one of --id is not scheduled.
    """
    selection = ScheduledSelection(**filters)
    if not (selection.is_narrow or all):
        raise click.UsageError("select scheduled events with --id, --topic, --key, --owner, --before, or --all")
    with chosen.opened() as store:
        count = scheduled.cancel(store, selection, all=all, dry_run=dry_run)
    if as_json:
        print_json({"count": count, "dry_run": dry_run})
    elif selection.id is not None and not count:
        raise UnknownScheduled(selection.id)
    else:
        events = "1 scheduled event" if count == 1 else f"{count} scheduled events"
        click.echo(f"{events} {'would be cancelled' if dry_run else 'cancelled'}")
    click.get_current_context().exit(FAILED if selection.id is not None and not count else 0)


@store_command("run-now", command)
@click.argument("id")
def run_now(id: str, store: Store, as_json: bool) -> None:
    """Make a scheduled event due now."""
    scheduled.run_now(store, id)
    print_result({"id": id, "due": "now"}, f"event {line(id)} is due now", as_json=as_json)
