"""`penstock pipeline`: topics into lakehouse tables, with Spark."""

from typing import TYPE_CHECKING, Any

import click

from .options import json_option
from .output import cell, print_json, print_table
from .pipeline_options import JobFlags, job_options, to_option, types_option
from .pipeline_replay import replay_range
from .pipeline_reset import reset_pipeline
from .pipeline_target import declare, pipeline_at, registered
from .pipeline_upkeep import erase_rows, optimize_tables, path_argument, show_history, vacuum_tables

if TYPE_CHECKING:
    from penstock.pipeline.lake.storage import Location


@click.group("pipeline")
def command() -> None:
    """Copy topics into lakehouse tables with Spark, each record once."""


@command.command("lake")
@types_option
@to_option(required=True)
@job_options
def lake(types: str | None, **given: Any) -> None:
    """Copy a topic into tables, one per event type.

    The store may be a Kafka cluster, too: kafka://host:port.
    """
    from .pipeline_course import run_pipeline

    run_pipeline(JobFlags(**given, types=None if types is None else registered(types)))


@command.command("run")
@click.argument("pipeline", metavar="MODULE:FUNCTION")
@to_option(required=False)
@job_options
@click.pass_context
def run(ctx: click.Context, /, pipeline: str, **given: Any) -> None:
    """Run your own function, DataFrame in and DataFrame out, into a table or a topic.

    The function gets the topic as a streaming DataFrame with the columns key, value, type, headers, topic,
    partition, offset and timestamp, and returns one with the rows to append. Options that the command does
    not give are taken from its @pipeline decorator.
    """
    from .pipeline_course import run_pipeline

    found = pipeline_at(pipeline)
    flags = JobFlags(**given) if found.target else declare(ctx, found, JobFlags(**given))
    if flags.to is None:
        raise click.UsageError("Missing option '--to': the folder to write to, or of the checkpoint")
    run_pipeline(flags, found)


@command.command("list")
@path_argument
@json_option
def list_tables(path: "Location", as_json: bool) -> None:
    """List the tables of a folder: rows, files, bytes."""
    from penstock.pipeline.lake.tables import describe

    found = describe(path.absolute())
    if as_json:
        print_json(found)
        return
    rows = [
        (cell(each.name), *(f"{n:,}" for n in (each.size.rows, each.size.files, each.size.bytes))) for each in found
    ]
    print_table(("table", "rows", "files", "bytes"), rows)


@command.command("show")
@path_argument
@json_option
def show(path: "Location", as_json: bool) -> None:
    """Show the end offset of each topic in each table."""
    from penstock.pipeline.lake.tables import describe

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
command.add_command(reset_pipeline)
