"""`penstock dead`: list, show, requeue, skip and discard dead letters; list completions by fallbacks."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from penstock.errors import UnknownDeadLetter
from penstock.log.store import Store
from penstock.model.limits import Headers
from penstock.operate import dead
from penstock.operate.dead import DeadLetter, DeadRecord, DeadSelection, LetterOutcome
from penstock.operate.dead_views import FallbackCompletion, completed_by_fallback

from .exit_codes import FAILED
from .options import ChosenStore, json_option, past_option, store_command, store_options, with_options
from .output import print_facts, print_json, print_page, with_record
from .units import name_value

_COLUMNS = ("died", "group", "record", "key", "type", "failures", "holds", "reason", "id")
_FALLBACK_COLUMNS = ("completed", "group", "record", "key", "type", "failures", "reason", "id")


@click.group("dead")
def command() -> None:
    """List, show, requeue, skip or discard the records that handlers gave up."""


@store_command("list", command, paged=True)
@click.option("--group", help="Only this group.")
@click.option("--topic", help="Only this topic.")
@click.option("--id", "id", help="Only this record id.")
@click.option("--key", help="Only this key.")
@click.option("--type", "type", help="Only this event type.")
@click.option("--error", help="Only those whose reason begins with this.")
@past_option("--since", "Only those that died at or after this moment.")
@past_option("--before", "Only those that died before this moment.")
def list_letters(store: Store, as_json: bool, **filters: Any) -> None:
    """List dead letters, newest first."""
    found = dead.dead_letters(store, **filters)
    none = "no dead letters match" if _narrowed(filters) else "no dead letters"
    print_page("dead", found, _COLUMNS, _row, none=none, as_json=as_json, prose=("reason",))


@store_command("fallbacks", command, paged=True)
@click.option("--group", help="Only this group.")
@click.option("--topic", help="Only this topic.")
def list_fallbacks(store: Store, as_json: bool, **filters: Any) -> None:
    """List the records that a handler's fallback completed: without it they would be dead letters.

    Sorted by group, topic, partition and offset; listed as long as the log holds them.
    """
    found = completed_by_fallback(store, **filters)
    none = "no record was completed by a fallback"
    print_page("fallbacks", found, _FALLBACK_COLUMNS, _fallback_row, none=none, as_json=as_json, prose=("reason",))


@command.command("show")
@click.argument("record", metavar="ID|TOPIC/PARTITION/OFFSET")
@store_options
@click.option("--group", help="The group; needed for TOPIC/PARTITION/OFFSET.")
@json_option
def show_letter(record: str, chosen: ChosenStore, group: str | None, as_json: bool) -> None:
    """Show a dead letter with its record: headers and value.

    Name it by the record's id, for every group that gave it up, or by its place in the log, for one group.
    """
    place = _place(record)
    if place is not None and group is None:
        raise click.UsageError("name the --group: each has its own dead letters")
    with chosen.opened() as store:
        if place is None or group is None:
            found = dead.show_by_id(store, record, group=group)
        else:
            found = [dead.show(store, group, *place)]
    documents = [_shown(each) for each in found]
    if as_json:
        print_json(documents)
        return
    for each in documents:
        print_facts(each)
        click.echo()


_deciding = with_options(
    store_options,
    click.option("--group", required=True, help="The group of the dead letters."),
    click.option("--topic", help="Only those of this topic."),
    click.option("--id", "id", help="The one with this record id."),
    click.option("--key", help="Those of this key."),
    click.option("--type", "type", help="Those of this event type."),
    click.option("--error", help="Those whose reason begins with this."),
    past_option("--since", "Those that died at or after this moment."),
    past_option("--before", "Those that died before this moment."),
    click.option("--all", "all", is_flag=True, help="All of the group."),
    click.option("--dry-run", is_flag=True, help="Change nothing; show how many it would be."),
    json_option,
)


@command.command("requeue")
@_deciding
@click.option("--last", is_flag=True, help="Behind all waiting records of their keys, not before them.")
@click.option(
    "--header", "set_headers", type=name_value, multiple=True, metavar="NAME=VALUE", help="Give them this header."
)
@click.option("--drop-header", "drop_headers", multiple=True, metavar="NAME", help="Remove this header.")
def requeue_letters(last: bool, set_headers: Headers, drop_headers: tuple[str, ...], **given: Any) -> None:
    """Deliver dead letters again, before the later records of their keys.

    If later records of a key were delivered, its letter comes back alone, out of order; with --last all do,
    after the records of their keys that wait now. Headers change for this group only. Safe while workers run,
    and safe to repeat. Exits with 1 if the record of --id is not a dead letter.
    """
    act = partial(dead.requeue, last=last, set_headers=set_headers, drop_headers=drop_headers)
    _decide(given, act, ("requeued", "would be requeued"), last=last)


@command.command("skip")
@_deciding
def skip_letters(**given: Any) -> None:
    """Release the keys that dead letters hold; the letters are kept.

    Requeued later, they come back alone, out of order. Exits with 1 if the record of --id holds no key.
    """
    _decide(given, dead.skip, ("skipped", "would be skipped"), holding=True)


@command.command("discard")
@_deciding
def discard_letters(**given: Any) -> None:
    """Remove dead letters, and release the keys that they hold.

    Their records stay in the log. Exits with 1 if the record of --id is not a dead letter.
    """
    _decide(given, dead.discard, ("discarded", "would be discarded"))


def _decide(
    given: dict[str, Any],
    act: Callable[..., LetterOutcome],
    words: tuple[str, str],
    *,
    last: bool = False,
    holding: bool = False,
) -> None:
    chosen: ChosenStore = given.pop("chosen")
    as_json, dry_run = given.pop("as_json"), given.pop("dry_run")
    if not _narrowed({name: value or None for name, value in given.items() if name not in ("group", "topic")}):
        raise click.UsageError("select dead letters with --id, --key, --type, --since, --before, or --all")
    selection = DeadSelection(**given)
    with chosen.opened() as store:
        done = act(store, selection, dry_run=dry_run)
    if as_json:
        print_json(done)
    elif not done.count:
        if selection.id is not None and not holding:
            raise UnknownDeadLetter(f"of record {selection.id} in group {selection.group}")
        click.echo(f"no dead letters of group {selection.group} match{' and hold their key' * holding}")
    else:
        click.echo(f"{done.count} dead letter{'s' * (done.count != 1)} {words[dry_run]}")
        if done.out_of_order and not last:
            click.echo(f"{done.out_of_order} of them out of order: later records of their keys were delivered")
        if done.unedited:
            click.echo(f"{done.unedited} of them with their old headers: the group will read them from the log")
    missing = selection.id is not None and not done.count
    click.get_current_context().exit(FAILED if missing else 0)


def _narrowed(filters: dict[str, Any]) -> bool:
    return any(value is not None for name, value in filters.items() if name != "limit")


def _place(text: str) -> tuple[str, int, int] | None:
    """Return the place that TOPIC/PARTITION/OFFSET names; None for any other text, which is an id."""
    topic, *numbers = text.split("/")
    if topic and len(numbers) == 2 and all(each.isascii() and each.isdecimal() for each in numbers):
        return topic, int(numbers[0]), int(numbers[1])
    return None


def _row(each: DeadLetter) -> tuple[object, ...]:
    place, holds = f"{each.topic}/{each.partition}/{each.offset}", "key" if each.holding else ""
    content = each.key, each.type, each.failures, holds, each.reason, each.id
    return each.died_at, each.group, place, *content


def _fallback_row(each: FallbackCompletion) -> tuple[object, ...]:
    place = f"{each.topic}/{each.partition}/{each.offset}"
    return each.completed_at, each.group, place, each.key, each.type, each.failures, each.reason, each.id


def _shown(each: DeadRecord) -> dict[str, Any]:
    shown = with_record(each.letter, each.record)
    return shown if each.damage is None else shown | {"damage": each.damage}
