"""`penstock restored`: declares that a backup was restored."""

import click

from penstock.operate.drop import restored

from .asking import confirm
from .options import json_option, opened, store_options
from .output import print_json


@click.command("restored")
@store_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def command(url: str, prefix: str, schema: str | None, yes: bool, as_json: bool) -> None:
    """Declare that this store was restored from a backup, or failed over with a loss.

    Its log becomes a new incarnation: pipelines that have read more than the backup holds stop and show the
    ranges, instead of skipping new records that get the offsets of lost ones. Run it before anything is
    published. Workers that ran during the restore have done it already.
    """
    with opened(url, prefix, schema) as store:
        if not yes:
            confirm("was it restored? every pipeline of this store will stop", as_json=as_json)
        incarnation = restored(store)
    if as_json:
        print_json({"incarnation": incarnation})
    else:
        click.echo(f"the log is incarnation {incarnation} now; pipelines stop at their next batch")
