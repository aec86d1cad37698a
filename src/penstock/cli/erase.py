"""`penstock erase`: all events of an owner."""

from dataclasses import asdict

import click

from penstock.operate.erase import Erased, count_owner, erase

from .asking import confirm
from .options import json_option, opened, store_options
from .output import line, print_json

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
    Copies elsewhere stay: what handlers and Kafka clients have read, lakehouse tables, backups.
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
    if as_json:
        print_json(asdict(found) | {"count": found.count, "dry_run": dry_run})
    elif not found.count:
        click.echo("no events are tagged so")
    else:
        _tell(found)
        click.echo("nothing is erased yet" if dry_run else "erased")


def _tell(found: Erased, *, err: bool = False) -> None:
    for name, count in asdict(found).items():
        if count:
            click.echo(f"{count:>8} {_WORDS[name]}", err=err)
