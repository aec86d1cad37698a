"""`penstock retain`: delete what need not be kept."""

import click

from penstock.operate.retention import planned, retain

from .options import json_option, opened, store_options
from .output import cell, print_json
from .tables import print_table


@click.command("retain")
@store_options
@click.option("--topic", help="Only this topic.")
@click.option("--dry-run", is_flag=True, help="Delete nothing; say how many records it would be.")
@json_option
def command(
    url: str, prefix: str, schema: str | None, topic: str | None, dry_run: bool, as_json: bool
) -> None:
    """Delete the records that need not be kept any longer.

    Workers do this by themselves; the command is for stores without one. What is kept: the settings under
    [retention], or what `penstock topics set` says of a topic. Records that a group seen lately has not
    passed stay, and so do those that wait in its lanes. Safe to run beside everything else, and again.
    """
    with opened(url, prefix, schema) as store:
        done = (planned if dry_run else retain)(store, topic)
    if as_json:
        print_json({"deleted": done.deleted, "count": done.count, "dry_run": dry_run})
        return
    if done.deleted:
        rows = [(cell(name), str(count)) for name, count in sorted(done.deleted.items())]
        print_table(("topic", "would be deleted" if dry_run else "deleted"), rows)
    else:
        click.echo("nothing to delete")
