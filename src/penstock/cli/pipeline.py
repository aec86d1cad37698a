"""`penstock pipeline`: topics into lakehouse tables, with Spark."""

from typing import TYPE_CHECKING, Any

import click

from .options import json_option
from .output import print_rows
from .pipeline_options import (
    JobFlags,
    ReplayFlags,
    declare,
    job_options,
    pipeline_at,
    registered,
    replay_options,
    to_option,
    types_option,
)
from .pipeline_reset import reset_pipeline
from .pipeline_upkeep import erase_rows, optimize_tables, path_argument, show_history, vacuum_tables

if TYPE_CHECKING:
    from penstock.pipeline.lake.storage import Location

_PLACE = "earliest|latest|OFFSET|MOMENT|2h|JSON"


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
    rows = [(each.name, f"{each.size.rows:,}", f"{each.size.files:,}", f"{each.size.bytes:,}") for each in found]
    print_rows(found, ("table", "rows", "files", "bytes"), rows, as_json=as_json)


@command.command("show")
@path_argument
@json_option
def show(path: "Location", as_json: bool) -> None:
    """Show the end offset of each topic in each table."""
    from penstock.pipeline.lake.tables import describe

    found = describe(path.absolute())
    rows = [
        (each.name, source.topic, partition, f"{end:,}")
        for each in found
        for source in each.sources
        for partition, end in sorted(source.ends.items())
        if end
    ]
    print_rows(found, ("table", "topic", "partition", "up to"), rows, as_json=as_json)


@command.command("replay")
@click.argument("pipeline", required=False, metavar="[MODULE:FUNCTION]")
@click.option("--from", "first", default="earliest", show_default=True, metavar=_PLACE, help="Where to begin.")
@click.option("--until", "last", default="latest", show_default=True, metavar=_PLACE, help="Where to end, exclusive.")
@to_option(
    required=True, help="A new folder for its output, or s3://BUCKET/FOLDER; a folder also keeps its checkpoint."
)
@click.option("--to-topic", help="For a pipeline into a topic: another topic for its rows.")
@types_option
@replay_options
@click.option("--dry-run", is_flag=True, help="Run nothing; show the ranges and how many offsets they span.")
@click.option("--yes", is_flag=True, help="Do not ask before running a pipeline that writes its own output.")
@json_option
@click.pass_context
def replay_range(ctx: click.Context, /, pipeline: str | None, **given: Any) -> None:
    """Run a range of a topic again, through your pipeline or into a lake, beside the live one.

    Without MODULE:FUNCTION the range goes into tables, one per event type. A live pipeline is not touched:
    its folder, checkpoint, offsets and topic stay as they are. Run the same command again to continue an
    interrupted replay. An OFFSET applies to every partition; records at --until or after it are not replayed.
    Retention does not wait for a replay.
    """
    from .replay_course import run_replay

    types = given.pop("types")
    if pipeline is not None and types is not None:
        raise click.UsageError("--types is only for a replay without MODULE:FUNCTION")
    flags = ReplayFlags(**given, types=None if types is None else registered(types))
    found = None if pipeline is None else pipeline_at(pipeline)
    if found is not None and found.target is None:
        flags = declare(ctx, found, flags)
    run_replay(pipeline, found, flags)


for each in (optimize_tables, vacuum_tables, erase_rows, show_history, reset_pipeline):
    command.add_command(each)
