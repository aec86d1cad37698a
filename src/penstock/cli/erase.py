"""`penstock erase`: all events of an owner."""

from dataclasses import asdict

import click

from penstock.operate.erase import Erased, count_owner, erase
from penstock.operate.readers import readers

from .asking import confirm
from .options import json_option, opened, store_options
from .output import cell, line, print_json

_WORDS = {
    "staged": "staged, deleted",
    "scheduled": "scheduled, deleted",
    "logged": "in the log, without content from now on",
    "waiting": "waiting in lanes, removed",
    "dead": "dead letters, removed",
}


@click.command("erase")
@click.argument("owner")
@store_options
@click.option("--dry-run", is_flag=True, help="Erase nothing; say how much there is.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def command(
    owner: str, url: str, prefix: str, schema: str | None, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Erase all events that were published with this owner tag, in every state.

    Staged and scheduled events are deleted, records in the log lose key, value and headers and keep their
    offset, lanes and dead letters forget them. It cannot be undone. Safe while workers run, and to run again.
    Copies elsewhere stay: what handlers and Kafka clients have read, backups, and lakehouse tables until
    `penstock pipeline erase` has run for them, which this command names.
    """
    with opened(url, prefix, schema) as store:
        found = count_owner(store, owner)
        if not dry_run:
            if not yes and found.count:
                if not as_json:
                    _tell(found, err=True)
                confirm(
                    f"erase all that is tagged {line(owner)}?",
                    as_json=as_json,
                    instead="--yes, or --dry-run to look first",
                )
            found = erase(store, owner)
        pipelines = [each.name for each in readers(store.log)]
    if as_json:
        said = {"count": found.count, "dry_run": dry_run, "pipelines": pipelines}
        print_json(asdict(found) | said)
    elif not found.count:
        click.echo("no events are tagged so")
    else:
        _tell(found)
        click.echo("nothing is erased yet" if dry_run else "erased")
        for name in pipelines if found.logged and not dry_run else ():
            click.echo(
                f"pipeline {cell(name)} may have them in its tables; erase them there, too: "
                "penstock pipeline erase FOLDER"
            )


def _tell(found: Erased, *, err: bool = False) -> None:
    for name, count in asdict(found).items():
        if count:
            click.echo(f"{count:>8} {_WORDS[name]}", err=err)
