"""`penstock pipeline`: topics into lakehouse tables, with Spark."""

from typing import TYPE_CHECKING, Any

import click

from .asking import confirm
from .options import json_option, opened, prefix_option, schema_option
from .output import cell, print_json
from .pipeline_options import job_options, to_option, types_option
from .pipeline_replay import replay_range
from .pipeline_target import declare, function_at, registered
from .pipeline_upkeep import erase_rows, optimize_tables, path_argument, show_history, vacuum_tables
from .tables import print_table

if TYPE_CHECKING:
    from penstock.pipeline.storage import Location


@click.group("pipeline")
def command() -> None:
    """Take topics into lakehouse tables with Spark, each record once."""


@command.command("lake")
@types_option
@to_option(required=True)
@job_options
def lake(types: str | None, **given: Any) -> None:
    """Put a topic into tables, one for each event type.

    The store may be a Kafka cluster, too: kafka://host:port.
    """
    from .pipeline_course import run_lake

    run_lake(given | {"types": None if types is None else registered(types)})


@command.command("run")
@click.argument("pipeline", metavar="MODULE:FUNCTION")
@to_option(required=False)
@job_options
@click.pass_context
def run(ctx: click.Context, /, pipeline: str, **given: Any) -> None:
    """Run your own function, DataFrame in and DataFrame out, into a table or a topic.

    The function gets the topic as a streaming DataFrame with the columns key, value, type, headers, topic,
    partition, offset and timestamp, and returns one with the rows to append. What @pipeline declares beside
    it holds where the command does not say otherwise.
    """
    from penstock.pipeline.declared import Pipeline

    from .pipeline_course import run_declared, run_function

    found = function_at(pipeline)
    given["types"] = None
    if isinstance(found, Pipeline):
        declare(ctx, found, given)
    if given["to"] is None:
        raise click.UsageError("Missing option '--to': the folder to write to, or of the checkpoint")
    if isinstance(found, Pipeline):
        run_declared(found, given)
    else:
        run_function(pipeline, found, given)


@command.command("list")
@path_argument
@json_option
def list_tables(path: "Location", as_json: bool) -> None:
    """List the tables of a folder: rows, files, bytes."""
    from penstock.pipeline.tables import describe

    found = describe(path.absolute())
    if as_json:
        print_json(found)
        return
    rows = [
        (cell(each.name), *(f"{n:,}" for n in (each.size.rows, each.size.files, each.size.bytes)))
        for each in found
    ]
    print_table(("table", "rows", "files", "bytes"), rows)


@command.command("show")
@path_argument
@json_option
def show(path: "Location", as_json: bool) -> None:
    """Show up to which offset each table holds its topics."""
    from penstock.pipeline.tables import describe

    found = describe(path.absolute())
    if as_json:
        print_json(found)
        return
    rows = [
        (cell(each.name), cell(source.topic), str(partition), f"{end:,}")
        for each in found
        for source in each.sources
        for partition, end in sorted(source.ends.items())
        if end
    ]
    print_table(("table", "topic", "partition", "up to"), rows)


command.add_command(replay_range)
command.add_command(optimize_tables)
command.add_command(vacuum_tables)
command.add_command(erase_rows)
command.add_command(show_history)


@command.command("reset")
@path_argument
@click.option("--rebuild", is_flag=True, help="Remove the tables, too; the next run makes them from the log.")
@click.option(
    "--table",
    "tables",
    multiple=True,
    help="With --rebuild: only this table of a lake; the others and the checkpoint stay.",
)
@click.option(
    "--from-table",
    is_flag=True,
    help="After a restored backup: cut the tables back to where they agree with the log, and go on there.",
)
@click.option("--url", envvar="PENSTOCK_URL", help="With --from-table: the store.")
@prefix_option
@schema_option
@click.option("--topic", default="events", show_default=True, help="With --from-table: the topic.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset_pipeline(path: "Location", rebuild: bool, tables: tuple[str, ...], yes: bool, **given: Any) -> None:
    """Forget a pipeline's checkpoint; a stateless one goes on where its tables end.

    A pipeline that keeps state (windows, joins) cannot go on with a new checkpoint: use --rebuild. A table is
    made again from what the log still holds: what retention has deleted there is not in it.
    """
    from penstock.pipeline.lake_state import reset

    if tables and not rebuild:
        raise click.UsageError("--table names what to make again: say --rebuild")
    if given["from_table"] and (rebuild or not given["url"]):
        raise click.UsageError("--from-table needs --url, and no --rebuild")
    what = "the checkpoint and all tables" if rebuild else "the checkpoint"
    if given["from_table"]:
        what = "the checkpoint, and all rows that the log does not hold any more,"
    if not yes:
        confirm(f"remove {' and '.join(tables) or what} of {path}?")
    if given["from_table"]:
        _cut_back(path, given)
        return
    removed = reset(path.absolute(), rebuild=rebuild, tables=tables)
    for each in removed:
        click.echo(f"removed {each}")
    if not removed:
        click.echo(f"nothing to remove: {path} has no pipeline")


def _cut_back(path: "Location", given: dict[str, Any]) -> None:
    from penstock.pipeline.taken_back import cut_back

    with opened(given["url"], given["prefix"], given["schema"]) as store:
        done = cut_back(path.absolute(), store.log, store.log.topic(given["topic"]))
    where = f": {done.said()}" if done.places else ""
    click.echo(f"removed the checkpoint and {done.rows:,} rows{where}")
