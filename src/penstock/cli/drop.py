"""`penstock drop`: drop Penstock's tables."""

import click

from penstock.database.naming import Names
from penstock.database.url import plain_url
from penstock.log.files.url import directory_in
from penstock.operate.drop import Losses, drop, losses

from .asking import ask_for
from .options import json_option, opened, store_options
from .output import line, print_json


@click.command("drop")
@store_options
@click.option("--force", is_flag=True, help="Drop them even while members run.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def command(url: str, prefix: str, schema: str | None, force: bool, yes: bool, as_json: bool) -> None:
    """Drop Penstock's tables and everything in them.

    The opposite of migrate: only the tables of this prefix and schema, for good. It shows what will be lost
    and asks for the prefix, unless --yes is given. Refused while members run.
    """
    with opened(url, prefix, schema) as store:
        if not yes:
            if not as_json:
                click.echo(f"this deletes {_lost(losses(store))}", err=True)
            name = Names(prefix, schema).table("*").replace('"', "")
            ask_for(prefix, f"type {prefix} to drop the tables {name}", as_json=as_json)
        lost = drop(store, force=force)
    if as_json:
        print_json(lost)
    else:
        click.echo(f"dropped, with {_lost(lost)}")
        directory = directory_in(plain_url(url))
        if directory is not None:
            click.echo(f"the segments stay in {line(directory)}, unreadable: remove the directory")


def _lost(lost: Losses) -> str:
    return (
        f"{lost.topics} topics, {lost.records} records, {lost.staged} staged, {lost.scheduled} scheduled, "
        f"{lost.groups} groups, {lost.dead} dead letters"
    )
