"""`penstock reconcile`: compares the numbers from the database to the tables."""

from pathlib import Path
from typing import Any

import click

from penstock.operate.reconcile import Reconciliation, reconcile

from .exit_codes import FAILED
from .lake import LakePath, lake_tables
from .options import ChosenStore, json_option, store_options
from .output import print_json


@click.command("reconcile")
@store_options
@click.option("--topic", default="events", show_default=True, help="The topic to compare.")
@click.option("--group", "groups", multiple=True, help="Only these groups (default: all that read the topic).")
@click.option("--no-groups", is_flag=True, help="Do not compare groups.")
@click.option(
    "--lake", type=LakePath(file_okay=False, exists=True, path_type=Path), help="The folder of the topic's tables."
)
@click.option(
    "--no-values", is_flag=True, help="Compare only the positions of the lake's rows, without reading their values."
)
@click.option("--against", metavar="SELECT", help="Your own table: a SELECT of the records' ids, or keys.")
@click.option("--by", type=click.Choice(["id", "key"]), default="id", show_default=True, help="The SELECT's column.")
@click.option("--type", "type", help="Compare your table with records of this type only, and count them separately.")
@json_option
def command(chosen: ChosenStore, as_json: bool, **given: Any) -> None:
    """Compare your table, the log, the groups and the lake, and show the differences.

    Exits with 1 if anything is missing, duplicate, waiting or surplus.
    """
    groups = () if given["no_groups"] else given["groups"] or None
    with chosen.opened() as store:
        found = reconcile(
            store,
            given["topic"],
            groups=groups,
            tables=lake_tables(store, given["lake"], given["topic"], values=not given["no_values"]),
            against=given["against"],
            by=given["by"],
            type=given["type"],
        )
    if as_json:
        print_json({"topic": found.topic, "agrees": found.agrees, "figures": found.figures})
    else:
        _print(found)
    click.get_current_context().exit(0 if found.agrees else FAILED)


def _print(found: Reconciliation) -> None:
    for figure in found.figures:
        for finding in figure.faults + figure.notes:
            click.echo(f"{figure.name}: {finding}")
    click.echo(found.line())
