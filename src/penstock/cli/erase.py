"""`penstock erase`: erases all events of an owner."""

from dataclasses import asdict

import click

from penstock.operate.erase import Erased, count_owner, erase
from penstock.operate.progress import readers

from .asking import confirm
from .options import json_option, opened, store_options
from .output import cell, line, print_json

_WORDS = {
    "staged": "staged, deleted",
    "scheduled": "scheduled, deleted",
    "logged": "in the log, content erased",
    "waiting": "waiting in lanes, removed",
    "dead": "dead letters, removed",
}


@click.command("erase")
@click.argument("owner")
@store_options
@click.option("--dry-run", is_flag=True, help="Erase nothing; show how many events there are.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def command(
    owner: str, url: str, prefix: str, schema: str | None, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Erase all events that were published with this owner tag, in every state.

    Staged and scheduled events are deleted, records in the log lose key, value and headers and keep their
    offset, and their copies in lanes and dead letters are removed. It cannot be undone. Safe while workers
    run, and safe to repeat. Copies elsewhere stay: those of handlers and Kafka clients, backups, and
    lakehouse tables until you run `penstock pipeline erase` on them; this command names the pipelines.
    """
    with opened(url, prefix, schema) as store:
        found = count_owner(store, owner)
        if not dry_run:
            if not yes and found.count:
                if not as_json:
                    _print_counts(found, err=True)
                confirm(
                    f"erase all events tagged {line(owner)}?",
                    as_json=as_json,
                    instead="--yes, or --dry-run for the counts",
                )
            found = erase(store, owner)
        pipelines = [each.name for each in readers(store.log)]
    if as_json:
        more = {"count": found.count, "dry_run": dry_run, "pipelines": pipelines}
        print_json(asdict(found) | more)
    elif not found.count:
        click.echo("no events have this tag")
    else:
        _print_counts(found)
        click.echo("nothing is erased yet" if dry_run else "erased")
        for name in pipelines if found.logged and not dry_run else ():
            click.echo(
                f"pipeline {cell(name)} may have them in its tables; erase them there, too: "
                "penstock pipeline erase FOLDER"
            )


def _print_counts(found: Erased, *, err: bool = False) -> None:
    for name, count in asdict(found).items():
        if count:
            click.echo(f"{count:>8} {_WORDS[name]}", err=err)
