"""`penstock pipeline replay`: runs a range of a topic again, into its own folder."""

from typing import Any

import click

from .options import json_option
from .pipeline_options import ReplayFlags, replay_options, to_option, types_option
from .pipeline_target import declare, pipeline_at, registered

_PLACE = "earliest|latest|OFFSET|MOMENT|2h|JSON"


@click.command("replay")
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
