"""`penstock retain`: deletes records past their retention."""

import click

from penstock.operate.retention import planned, retain

from .options import json_option, opened, store_options
from .output import cell, print_json
from .tables import print_table


@click.command("retain")
@store_options
@click.option("--topic", help="Only this topic.")
@click.option("--dry-run", is_flag=True, help="Delete nothing; show how many records it would be.")
@json_option
def command(
    url: str, prefix: str, schema: str | None, topic: str | None, dry_run: bool, as_json: bool
) -> None:
    """Delete the records that are past their retention.

    Workers do this automatically; the command is for stores without one. The settings under [retention]
    apply, or those of `penstock topics set` for a topic. Records stay that a recently seen group has not
    passed, or that wait in its lanes. Safe beside everything else, and safe to repeat.
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
