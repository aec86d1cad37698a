"""`penstock reconcile`: compares the numbers from the database to the tables."""

from pathlib import Path
from typing import Any

import click

from penstock.errors import UnknownTopic
from penstock.operate.reconcile import reconcile

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
def command(
    chosen: ChosenStore,
    topic: str,
    groups: tuple[str, ...],
    no_groups: bool,
    lake: Any,
    no_values: bool,
    as_json: bool,
    **own_table: Any,
) -> None:
    """Compare your table, the log, the groups and the lake, and show the differences.

    Exits with 1 if anything is missing, duplicate, waiting or surplus.
    """
    with chosen.opened() as store:
        only = () if no_groups else groups or None
        try:
            tables = lake_tables(store, lake, topic, values=not no_values)
            found = reconcile(store, topic, groups=only, tables=tables, **own_table)
        except UnknownTopic:
            raise UnknownTopic(topic, ", and `--topic` names the one to compare") from None
    if as_json:
        print_json({"topic": found.topic, "agrees": found.agrees, "figures": found.figures})
    else:
        for figure in found.figures:
            for finding in figure.faults + figure.notes:
                click.echo(f"{figure.name}: {finding}")
        click.echo(found.line())
    click.get_current_context().exit(0 if found.agrees else FAILED)
