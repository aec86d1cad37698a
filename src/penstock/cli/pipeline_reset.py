"""`penstock pipeline reset`: removes a checkpoint, rebuilds tables, drops the old ones."""

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from penstock.errors import UnknownTopic

from .options import opened, prefix_option, schema_option
from .output import confirm, line
from .pipeline_upkeep import path_argument

if TYPE_CHECKING:
    from penstock.pipeline.lake.state import ResetDone
    from penstock.pipeline.lake.storage import Location


@click.command("reset")
@path_argument
@click.option(
    "--rebuild",
    is_flag=True,
    help="Let the next run rebuild the tables from the log; the old ones are set aside, and stay.",
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    help="With --rebuild: only this table of a lake; the others and the checkpoint stay.",
)
@click.option("--drop-old", is_flag=True, help="Remove the old tables that rebuilds have set aside.")
@click.option(
    "--from-table",
    is_flag=True,
    help="After a restored backup: cut the tables back to where they agree with the log, and continue there.",
)
@click.option(
    "--url",
    envvar="PENSTOCK_URL",
    help="The store: with --rebuild, to count the rows that cannot be rebuilt; --from-table needs it.",
)
@prefix_option
@schema_option
@click.option("--topic", default="events", show_default=True, help="The topic of that store.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset_pipeline(path: "Location", rebuild: bool, tables: tuple[str, ...], yes: bool, **given: Any) -> None:
    """Remove a pipeline's checkpoint; a stateless pipeline continues where its tables end.

    A pipeline that keeps state (windows, joins) cannot continue with a new checkpoint: use --rebuild. It rebuilds the
    tables from the records that the log still holds; records that retention has deleted are only in the old tables,
    _old and _old.NAME beside the new ones. They stay until --drop-old removes them for good.
    """
    from penstock.pipeline.lake.rewind import cut_back
    from penstock.pipeline.lake.state import reset

    if tables and not rebuild:
        raise click.UsageError("--table names the tables to rebuild: add --rebuild")
    if given["from_table"] and (rebuild or not given["url"]):
        raise click.UsageError("--from-table needs --url, and no --rebuild")
    if given["drop_old"] and (rebuild or given["from_table"]):
        raise click.UsageError("--drop-old is for after the rebuild: give it alone")
    root = path.absolute()
    if given["drop_old"]:
        _drop_old(root, yes)
        return
    for sentence in _not_in_log(root, tables, given) if rebuild else ():
        click.echo(sentence)
    if not yes:
        confirm(_question(path, rebuild, tables, given))
    if given["from_table"]:
        with opened(given["url"], given["prefix"], given["schema"]) as store:
            cut = cut_back(root, store.log, store.log.topic(given["topic"]))
        where = f": {cut.describe()}; the previous tables stay as _old" if cut.places else ""
        click.echo(f"removed the checkpoint and {cut.rows:,} rows{where}")
        return
    done = reset(root, rebuild=rebuild, tables=tables)
    for sentence in describe_reset(done):
        click.echo(sentence)
    again = [name for name in tables if not any(source.name == name for source, _ in done.aside)]
    if rebuild and again and not done.removed:
        click.echo(f"the next run rebuilds {', '.join(again)}; the old table stays as it is until then")
    elif not any(done):
        click.echo(f"nothing to remove: {path} has no pipeline")


def _question(path: "Location", rebuild: bool, tables: tuple[str, ...], given: dict[str, Any]) -> str:
    from penstock.pipeline.lake.paths import tables_in

    if rebuild:
        return f"rebuild {' and '.join(tables) or 'all tables'} of {path}, and set the old aside?"
    if given["from_table"]:
        return f"cut {path} back to where it agrees with the log? The current tables stay as _old"
    if not tables_in(path.absolute()):
        return f"remove the checkpoint of {path}? It has no table to resume from, so it reads everything again"
    return f"remove the checkpoint of {path}?"


def describe_reset(done: "ResetDone") -> Iterator[str]:
    """Yield a sentence on each step that a reset has done."""
    yield from (f"removed {each}" for each in done.removed)
    for source, aside in done.aside:
        yield f"{source} stays as {aside} until you drop it (penstock pipeline reset --drop-old)"


def _not_in_log(root: "Location", tables: tuple[str, ...], given: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence on each table to rebuild: how many of its rows cannot be rebuilt."""
    from penstock.database.naming import Names
    from penstock.pipeline.lake.kinds import table_at
    from penstock.pipeline.lake.old_tables import RowsLeft, can_be_read, not_in_log
    from penstock.pipeline.lake.paths import tables_in
    from penstock.pipeline.source.opening import open_view

    found = [each for each in tables_in(root) if can_be_read(each) and (not tables or each.name in tables)]
    if not given["url"]:
        yield "give --url to see how many rows cannot be rebuilt from the log"
        return
    for each in found:
        table = table_at(each)
        topic = next((source.topic for source in table.sources()), given["topic"])
        with closing(open_view(given["url"], Names(given["prefix"], given["schema"]), topic)) as view:
            try:
                left = not_in_log(table, view.heads(), view.identity())
            except UnknownTopic:
                left = RowsLeft(table.size().rows, table.size().rows)
        yield f"{line(each.name)}: {left.describe('cannot be rebuilt from the log')}"


def _drop_old(root: "Location", yes: bool) -> None:
    from penstock.pipeline.lake.kinds import table_at
    from penstock.pipeline.lake.old_tables import can_be_read, drop_old, not_in_lake, old_tables

    found = old_tables(root)
    for each in found:
        left = not_in_lake(table_at(each), root).describe("are in no other table") if can_be_read(each) else ""
        click.echo(f"{line(each.name)}: {left or 'an unreadable table'}")
    if found and not yes:
        confirm(f"remove {', '.join(each.name for each in found)} of {root} for good?")
    for each in drop_old(root):
        click.echo(f"removed {each}")
    if not found:
        click.echo(f"nothing to remove: {root} has no old tables")
